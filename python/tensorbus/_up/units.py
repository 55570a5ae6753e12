"""Durations in pipeline files."""

from __future__ import annotations

import math
import re

from tensorbus._base.errors import InvalidArgument

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min)")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}


def seconds_of(given: float | str) -> float:
    """A duration in seconds: a number of seconds, or a text with a unit.

    Raises:
        InvalidArgument: it is neither, or is negative.

    >>> seconds_of("500ms"), seconds_of("2 min"), seconds_of(1.5)
    (0.5, 120.0, 1.5)
    """
    if isinstance(given, str):
        found = _DURATION.fullmatch(given.strip())
        if found is None:
            raise InvalidArgument(f"{given!r}: expected a duration such as '500ms', '2s' or '1min'")
        return float(found[1]) * _SECONDS[found[2]]
    if not (math.isfinite(given) and given >= 0):
        raise InvalidArgument(f"{given!r}: expected seconds, 0 or more")
    return float(given)


def text_of(seconds: float) -> str:
    """A duration as a decimal number of seconds, to a microsecond.

    >>> text_of(0.5), text_of(30.0), text_of(1e-4)
    ('0.5', '30', '0.0001')
    """
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
