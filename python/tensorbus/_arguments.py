"""What callers hand in, checked."""

from __future__ import annotations

from operator import index

from tensorbus._errors import InvalidArgument


def topic_name(topic: object) -> str:
    """The name of a topic, if it is one that every process can spell."""
    if not isinstance(topic, str) or (not topic.isascii() and _has_surrogates(topic)):
        raise InvalidArgument(f"topic={topic!r}: expected a str of Unicode characters")
    return topic


def whole_number(name: str, value: object, *, least: int) -> int:
    """An option that counts something."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not least <= number < 2**32:
        raise InvalidArgument(f"{name}={value!r}: expected a whole number of at least {least}")
    return number


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
