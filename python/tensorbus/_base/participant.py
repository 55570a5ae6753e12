"""The participants of this process: one for each domain, made on first use."""

from __future__ import annotations

import atexit
import os

from tensorbus._base.arguments import whole_number
from tensorbus._base.public import public
from tensorbus._core import Participant

# Held here so that a domain's participant, with its warm memory, outlives the endpoints that come
# and go on it.
_shared: dict[str, Participant] = {}


@public
def participant(domain: str | None = None, *, budget_bytes: int = 0) -> Participant:
    """This process's participant on a domain.

    Args:
        domain: a path if it has a slash, else a name beside the default domain; `None` for
            `TENSORBUS_DOMAIN`, else "default".
        budget_bytes: the most shared memory this process takes, 0 for `TENSORBUS_BUDGET`, else
            three quarters of the machine's memory. Counts on first use of the domain only.

    Raises:
        InvalidArgument: `budget_bytes` is no whole number, or is below 0.
        AccessDenied: the domain directory belongs to somebody else, or others may write to it.

    Its `arena` counts what it allocated (`blocks`, `used_bytes`, ...), and `private_bytes`: pages
    of received tensors that became this process's own, since it wrote to the tensors.

    >>> participant().arena["blocks"]
    0
    """
    budget = whole_number("budget_bytes", budget_bytes, least=0, most=2**64 - 1)
    shared = Participant.shared(domain or "", budget)
    if not domain:
        _settle_relative(shared.domain)
    return _shared.setdefault(shared.domain, shared)


def _settle_relative(path: str) -> None:
    """Makes a relative TENSORBUS_DOMAIN absolute for processes that are started after a chdir()."""
    asked = os.environ.get("TENSORBUS_DOMAIN", "")
    if "/" in asked and not asked.startswith("/"):
        os.environ["TENSORBUS_DOMAIN"] = path


def forget(domain: str) -> None:
    """Ends this process's participant on a domain, by its path, once nothing uses it any more."""
    _shared.pop(domain, None)


def has_participant() -> bool:
    """Has this process one on any domain? Then memory may belong to the bus."""
    return bool(_shared)


# A child makes its own; the parent's is the parent's to end. Ending it before the interpreter does
# lets the peers see an orderly close.
os.register_at_fork(after_in_child=_shared.clear)
atexit.register(_shared.clear)
