"""Lending: messages to which exactly one other process can attach, by a handle.

A message whose tensors are writable for the receiver may contain tensors in read-only memory of a
GPU. These are sent as the handle of a separate share, because tensors on a GPU are never moved into
shared writable memory.
"""

from __future__ import annotations

import os
import threading
from functools import cache

from tensorbus import _core
from tensorbus._base.errors import Unsupported
from tensorbus._base.participant import participant

# Maximum for one message, which stores the number in two bytes.
MAX_TENSORS = 60_000


class _Offered(threading.local):
    """The handles lent to the process that this thread is starting; None if it starts none."""

    handles: list[bytes] | None = None


offered = _Offered()


def lend(outgoing: _core.Outgoing, fields: bytes, carrier: int = 0) -> bytes:
    """Shares a message that one process may take, until this process ends. Returns the handle.

    Raises:
        OutOfMemory: a limit was reached; the message names it.
    """
    made = _core.share_once(outgoing, fields, False, carrier, None, participant())
    handle = made.bytes()
    if offered.handles is not None:
        offered.handles.append(handle)
    return handle


def borrow(handle: bytes, access: _core.Access = _core.Access.COPY_ON_WRITE) -> _core.Sample:
    """Takes a lent message. Only one process can take it.

    Raises:
        Closed: another process has taken it, or the sharing process has ended.
    """
    return attach(_core.Handle.from_bytes(handle), access)


def attach(handle: _core.Handle, access: _core.Access) -> _core.Sample:
    """`borrow` for a parsed handle."""
    sample = _core.attach(handle, access, None, participant())
    assert isinstance(sample, _core.Sample)  # the only outcome without a timeout
    return sample


def can_lend(ordinal: int) -> bool:
    """Whether the bus can share memory of this GPU; tested once, by an allocation."""
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
