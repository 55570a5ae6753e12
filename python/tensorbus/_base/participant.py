"""The participants of this process: one for each domain, created on first use."""

from __future__ import annotations

import atexit
import os

from tensorbus._base.arguments import whole_number
from tensorbus._base.public import public
from tensorbus._core import Participant

# Held here so that a participant, with its warm memory, outlives its publishers and subscribers.
_shared: dict[str, Participant] = {}


@public
def participant(domain: str | None = None, *, budget_bytes: int = 0) -> Participant:
    """This process's participant on a domain.

    Args:
        domain: a path if it has a slash, else a name in the directory of the default domain; `None`
            for `TENSORBUS_DOMAIN`, or "default" if that is not set.
        budget_bytes: the maximum of shared memory of this process; 0 for `TENSORBUS_BUDGET`, or
            three quarters of the machine's memory if that is not set. Only the first call for a
            domain sets it.

    Raises:
        InvalidArgument: `budget_bytes` is not a whole number, or is below 0.
        AccessDenied: the domain directory belongs to another user, or others may write to it.

    Its `arena` counts allocated memory (`blocks`, `used_bytes`, ...), and `private_bytes`: pages of
    received tensors that this process has written, and that are therefore private copies.

    >>> participant().arena["blocks"]
    0
    """
    budget = whole_number("budget_bytes", budget_bytes, low=0, high=2**64 - 1)
    shared = Participant.shared(domain or "", budget)
    if not domain:
        _settle_relative(shared.domain)
    return _shared.setdefault(shared.domain, shared)


def _settle_relative(path: str) -> None:
    """Makes a relative TENSORBUS_DOMAIN absolute, for processes started after a chdir()."""
    variable = os.environ.get("TENSORBUS_DOMAIN", "")
    if "/" in variable and not variable.startswith("/"):
        os.environ["TENSORBUS_DOMAIN"] = path


def forget(domain: str) -> None:
    """Ends this process's participant on a domain, given by path, once nothing else uses it."""
    _shared.pop(domain, None)


def has_participant() -> bool:
    """Whether this process has a participant on any domain, and so may have memory of the bus."""
    return bool(_shared)


# A forked child makes its own participants, and must not end its parent's. At exit they end before
# the interpreter, so that peers see an orderly close.
os.register_at_fork(after_in_child=_shared.clear)
atexit.register(_shared.clear)
