"""Messages of which others have only a handle, until one process has attached.

A message whose tensors may be written to by others carries those of a GPU that lie in memory which
is only read as the handle of a share of its own: what lies on a GPU is not moved.
"""

from __future__ import annotations

import os
import threading
from functools import cache

from tensorbus import _core
from tensorbus._base.errors import Unsupported
from tensorbus._base.participant import participant

# Of one message: it has two bytes for their number.
MOST_TENSORS = 60_000


class _Offered(threading.local):
    """What this thread offers to a process that it starts; None when it starts none."""

    handles: list[bytes] | None = None


offered = _Offered()


def lend(outgoing: _core.Outgoing, fields: bytes, carrier: int = 0) -> bytes:
    """Shares a message for one process to read, as long as this one lives: the handle.

    Raises:
        OutOfMemory: a limit was reached; the message names it.
    """
    made = _core.share_once(outgoing, fields, False, carrier, None, participant())
    handle = made.bytes()
    if offered.handles is not None:
        offered.handles.append(handle)
    return handle


def borrow(handle: bytes, access: _core.Access = _core.Access.COPY_ON_WRITE) -> _core.Sample:
    """What was lent. Only one process can have it.

    Raises:
        Closed: another has had it, or the process that shares it is gone.
    """
    return attach(_core.Handle.from_bytes(handle), access)


def attach(handle: _core.Handle, access: _core.Access) -> _core.Sample:
    """The same, by the handle itself."""
    found = _core.attach(handle, access, None, participant())
    assert isinstance(found, _core.Sample)  # without a timeout there is no other outcome
    return found


def can_lend(ordinal: int) -> bool:
    """Has the bus memory on this GPU that others can be given? Found by taking some, once."""
    return _can_lend(ordinal, os.getpid())


@cache
def _can_lend(ordinal: int, _process: int) -> bool:
    try:
        _core.empty("uint8", [1], False, participant(), ordinal)
    except Unsupported:
        return False
    return True


def _forget_parent() -> None:
    offered.handles = None


os.register_at_fork(after_in_child=_forget_parent)
