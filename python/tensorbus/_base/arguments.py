"""Checks of arguments."""

from __future__ import annotations

from operator import index
from typing import Literal

from tensorbus import _core
from tensorbus._base.errors import InvalidArgument

Access = Literal["copy-on-write", "read", "private", "shared"]
_ACCESS: dict[str, _core.Access] = {
    "copy-on-write": _core.Access.COPY_ON_WRITE,
    "read": _core.Access.READ,
    "private": _core.Access.PRIVATE,
    "shared": _core.Access.SHARED,
}

# The limits of the core.
_FOREVER = 1e9  # seconds; a longer timeout means no limit
MAX_COUNT = 2**32 - 1
MAX_DEPTH = 65_536
MAX_HELD = 983_040


def topic_name(topic: object) -> str:
    """Checks that the name of a topic or service is a str with a character, and no surrogates."""
    if not isinstance(topic, str) or (not topic.isascii() and _has_surrogates(topic)):
        raise InvalidArgument(f"topic={topic!r}: expected a str of Unicode characters")
    if not topic:
        raise InvalidArgument("the name of a topic or service must not be empty")
    return topic


def access_named(access: object) -> _core.Access:
    """The core's value for an `access` argument."""
    if not isinstance(access, str) or access not in _ACCESS:
        raise InvalidArgument(f"access={access!r}: expected one of {tuple(_ACCESS)}")
    return _ACCESS[access]


def whole_number(name: str, value: object, *, low: int, high: int = MAX_COUNT) -> int:
    """Checks that an argument is a whole number from `low` to `high`."""
    try:
        number = low - 1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = low - 1
    if not low <= number <= high:
        raise InvalidArgument(f"{name}={value!r}: expected a whole number from {low} to {high}")
    return number


def seconds(name: str, value: float | None) -> float | None:
    """Checks a timeout: returns seconds of at least 0, or None for no limit.

    Raises:
        TypeError: it is not a number.
        InvalidArgument: it is nan.
    """
    try:
        if value is None or value >= _FOREVER:
            return None
    except TypeError:
        raise TypeError(
            f"{name}={value!r}: expected a number of seconds, as in {name}=5.0, or None"
        ) from None
    if value != value:
        raise InvalidArgument(f"{name}=nan: expected seconds, or None")
    return max(value, 0.0)


def positive_seconds(name: str, value: float | None) -> float:
    """Checks a number of seconds that is finite and above 0.

    Raises:
        TypeError: it is not a number.
        InvalidArgument: it is out of range.
    """
    checked = seconds(name, value)
    if checked is None or not checked > 0:
        raise InvalidArgument(f"{name}={value}: expected a positive number of seconds")
    return checked


def positive_limit(name: str, value: float | None) -> float | None:
    """Checks seconds above 0. Returns None for no limit, also for `math.inf`.

    Raises:
        TypeError, InvalidArgument: as `positive_seconds`.
    """
    return None if seconds(name, value) is None else positive_seconds(name, value)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
