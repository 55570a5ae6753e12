"""The participants of this process: one for each domain, made on first use."""

from __future__ import annotations

import atexit
import os
from operator import index

from tensorbus._core import Participant
from tensorbus._errors import InvalidArgument

# Held here so that a domain's participant, with its warm memory, outlives the endpoints that come
# and go on it.
_shared: dict[str, Participant] = {}


def participant(domain: str | None = None, *, budget_bytes: int = 0) -> Participant:
    """This process's participant on a domain.

    Args:
        domain: a path if it has a slash, else a name beside the default domain; `None` for
            `TENSORBUS_DOMAIN`, else "default".
        budget_bytes: the most shared memory this process takes, 0 for `TENSORBUS_BUDGET`, else
            three quarters of the machine's memory. Counts on first use of the domain only.

    Raises:
        AccessDenied: the domain directory belongs to somebody else, or others may write to it.

    >>> participant().arena["blocks"]
    0
    """
    shared = Participant.shared(domain or "", budget_bytes)
    return _shared.setdefault(shared.domain, shared)


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


# A child makes its own; the parent's is the parent's to end. Ending it before the interpreter does lets
# the peers see an orderly close.
os.register_at_fork(after_in_child=_shared.clear)
atexit.register(_shared.clear)
