"""Expectations of topics, queues and services, as texts: `>= 20 Hz`, `lag < 100 samples`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from tensorbus._base.errors import InvalidArgument
from tensorbus._up.units import seconds_of

_TEXT = re.compile(r"(?:(\w+)\s+)?(<=|>=|<|>)\s*(\d+(?:\.\d+)?)\s*(\w*)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The units of each measure. The first one names the measure if the text does not.
_Units = dict[str, tuple[str, ...]]
_TOPIC: _Units = {
    "rate": ("Hz",),
    "age": ("s", "ms", "min"),
    "lag": ("samples",),
    "held": ("samples",),
}
_QUEUE: _Units = {"items": ("items",)}
_SERVICE: _Units = {"requests": ("requests",)}


@dataclass(frozen=True)
class Expectation:
    """A limit of one measure of a topic, queue or service.

    The measures of a topic are `rate` (published samples per second), `age` (seconds since a sample
    was published), `lag` (the most samples that wait for one subscriber) and `held` (the most
    samples that one subscriber has received and not released). Queues have `items`, services
    `requests`: those that wait.
    """

    subject: str
    """A topic, `queue:NAME` or `service:NAME`."""
    measure: str
    comparison: str
    limit: float
    text: str
    """As it stands in the file."""

    def holds(self, value: float) -> bool:
        """Whether a value of the measure is as expected."""
        return _COMPARE[self.comparison](value, self.limit)

    def __str__(self) -> str:
        return f"{self.subject} {self.text}"


def parse(subject: str, text: str) -> Expectation:
    """The expectation of a text.

    Raises:
        InvalidArgument: the text has another form, or the subject has no such measure.

    >>> parse("camera/image", ">= 20 Hz").measure, parse("queue:jobs", "< 9 items").measure
    ('rate', 'items')
    >>> parse("camera/image", "age < 500ms").limit
    0.5
    """
    kind, measures, example = _kind(subject)
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InvalidArgument(f"{subject}: {text!r}: expected an expectation such as {example}")
    named, comparison, number, unit = found.groups()
    measure = named or next((name for name, units in measures.items() if unit == units[0]), "")
    if measure not in measures:
        names = ", ".join(measures)
        raise InvalidArgument(
            f"{subject}: {text!r}: {kind} has the measures {names}, as in {example}"
        )
    units = measures[measure]
    if unit not in units and (unit or measure == "age"):
        raise InvalidArgument(f"{subject}: {text!r}: {measure} has the unit {' or '.join(units)}")
    limit = seconds_of(number + unit) if measure == "age" else float(number)
    return Expectation(subject, measure, comparison, limit, text.strip())


def _kind(subject: str) -> tuple[str, _Units, str]:
    if subject.startswith("queue:"):
        return "a queue", _QUEUE, "'< 1000 items'"
    if subject.startswith("service:"):
        return "a service", _SERVICE, "'< 10 requests'"
    return "a topic", _TOPIC, "'>= 20 Hz', 'age < 1s' or 'lag < 100 samples'"
