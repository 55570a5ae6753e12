"""What a process keeps for others that have only a handle of it, until they have attached.

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

# Seconds for which a message is kept that nobody receives.
DEFAULT_TTL = 600.0


class Kept:
    """What this process keeps for those who will attach. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shares: dict[bytes, _core.Shared] = {}
        self._look_at = 64

    def add(self, shared: _core.Shared) -> bytes:
        handle = shared.handle.bytes()
        with self._lock:
            self._shares[handle] = shared
            if len(self._shares) > self._look_at:
                self._shares = {key: kept for key, kept in self._shares.items() if kept.open}
                self._look_at = 2 * len(self._shares) + 64
        if offered.handles is not None:
            offered.handles.append(handle)
        return handle

    def drop(self, handle: bytes) -> None:
        with self._lock:
            shared = self._shares.pop(handle, None)
        if shared is not None:
            shared.close()


class _Offered(threading.local):
    """What this thread offers to a process that it starts; None when it starts none."""

    handles: list[bytes] | None = None


class Settings:
    """How long things are kept; `tensorbus.multiprocessing.set_ttl` changes it."""

    ttl: float = DEFAULT_TTL


offered = _Offered()
kept = Kept()
settings = Settings()


def lend(outgoing: _core.Outgoing, fields: bytes) -> bytes:
    """Shares a message for one process to read, as long as this one lives: the handle.

    Raises:
        OutOfMemory: a limit was reached; the message names it.
    """
    return kept.add(_core.share(outgoing, fields, 1, settings.ttl, False, participant()))


def borrow(handle: bytes, access: _core.Access = _core.Access.COPY_ON_WRITE) -> _core.Sample:
    """What was lent. Only one process can have it.

    Raises:
        Closed: its time is over, or the process that keeps it is gone.
    """
    known = _core.Handle.from_bytes(handle)
    found = _core.attach(known, access, None, participant())
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
    """A forked child has nothing to keep."""
    global kept
    kept = Kept()
    offered.handles = None


os.register_at_fork(after_in_child=_forget_parent)
