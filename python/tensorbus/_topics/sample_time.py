"""The time of a sample, for a synchronizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from tensorbus._base.errors import InvalidArgument, MessageError
from tensorbus._topics.sample import Sample

TimeOf = str | Callable[[Sample[Any]], float] | None

_MAX = 2**63  # C++ has times of 64 bits


def time_reader(time: TimeOf) -> Callable[[Sample[Any]], int]:
    """A function that reads the time of a sample, in ns.

    Args:
        time: None for the time of publishing; the name of a field, or of a key of a dict; or a
            function of the sample. A whole number is in nanoseconds, a float in seconds.

    Raises:
        InvalidArgument: it is none of these.
    """
    if time is None:
        return lambda sample: nanoseconds(sample._core.timestamp_ns)
    if isinstance(time, str):
        return lambda sample: nanoseconds(_field(sample, time), f"field {time!r}")
    if callable(time):
        return lambda sample: nanoseconds(time(sample), "the result of time()")
    raise InvalidArgument(f"time={time!r}: expected None, the name of a field, or a function")


def nanoseconds(value: object, name: str = "the timestamp") -> int:
    """A time in ns: of a whole number, which is in ns, or of a float, which is in seconds.

    Raises:
        MessageError: the value is not a number, or is out of range.

    >>> nanoseconds(7), nanoseconds(0.5)
    (7, 500000000)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise MessageError(
            f"{name} is {value!r}: expected a time, an int in nanoseconds or a float in seconds"
        )
    time = math.inf
    if isinstance(value, Integral):
        time = int(value)
    elif math.isfinite(value):
        time = round(float(value) * 1e9)
    if not -_MAX <= time < _MAX:
        raise MessageError(f"{name} is {value!r}: expected a time within 64 bits of nanoseconds")
    return int(time)


def _field(sample: Sample[Any], name: str) -> object:
    data = sample.data
    try:
        return data[name] if isinstance(data, Mapping) else getattr(data, name)
    except (KeyError, AttributeError):
        topic, kind = sample._core.topic, type(data).__name__
        raise MessageError(f"topic {topic!r}: a {kind} without the field {name!r}") from None
