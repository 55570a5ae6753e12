"""Messages that are on their way between the processes of one program, and until when they live.

A tensor that is sent through a pipe is shared for one attachment, and its handle is what the pipe
carries. The process that sends it may end before it is received. So a child has it kept by the
*keeper*, too: the process that started the first of the others. The keeper's core does that, in its
own thread: a child's send waits for nothing that the keeper does. docs/decisions/0024 has the
states.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import util

from msgspec import Struct, msgpack

from tensorbus import _core
from tensorbus._base.errors import AccessDenied, Closed, Error, InvalidArgument
from tensorbus._base.participant import has_participant, participant
from tensorbus._pickling import lending, torch_sharing
from tensorbus._pickling.lending import offered
from tensorbus.multiprocessing import _carriers


class Moved(Struct):
    """What a process has moved, for the children that it forks: one share, and its addresses."""

    handle: bytes = b""
    addresses: list[int] = []


class Settings(Struct):
    """What a child takes over from the process that starts it."""

    keeper: str = ""  # the participant that keeps what it sends; empty: nobody but itself
    domain: str = ""  # the path of the keeper's
    user: int = -1  # the keeper's


class _Forking(threading.local):
    """What each thread has moved for a child that it forks just now."""

    def __init__(self) -> None:
        self.moved: list[Moved] = []


settings = Settings()
_own = Settings()  # names this process's participant, once it has started others
_of_ours = 0  # the process that was started with the settings
_forking = _Forking()
_inheriting = threading.Lock()
_not_awaited: set[int] = set()  # carriers whose messages the end of this process may lose
_deprecated_ttl = float("inf")

# Seconds between two looks whether the keeper has read: at first, and at most.
_LOOK = 0.001
_LONG_LOOK = 0.05
# Of what runs at a process's end: after the standard library has waited for its feeders (-5).
_AFTER_FEEDERS = -10


def offer(
    outgoing: _core.Outgoing, fields: bytes, *, shared: bool = True, carrier: int = 0
) -> tuple[bytes, str]:
    """Shares a message for one process to attach to, whatever becomes of this one.

    Args:
        shared: may the receiver write to its tensors, for all to see?
        carrier: what the handle is sent through, see `_carriers`; 0 if that is not known.

    Returns:
        Its handle, and the participant that keeps it, too, or "".

    Raises:
        AccessDenied: this process has another domain, or user, than the one that started it.
        OutOfMemory: a limit was reached; the message names it.
    """
    keeper, sender = settings.keeper, participant()
    _require_one_user(sender)
    if carrier:
        _carriers.watch(rarely=bool(keeper))
    made = _core.share_once(outgoing, fields, shared, carrier, keeper or None, sender)
    handle = made.bytes()
    if offered.handles is not None:
        offered.handles.append(handle)
    return handle, keeper


def receive(handle: bytes, keeper: str, access: _core.Access) -> _core.Sample:
    """What was offered: of the process that sent it, or of its keeper if it has ended.

    Raises:
        AccessDenied: this process has another domain, or user, than the one that started it.
        Closed: it was received before, or nobody has it any more.
    """
    try:
        return lending.borrow(handle, access)
    except Closed:
        _require_one_user(participant())
        if not keeper:
            raise
    return lending.attach(_core.Handle.from_bytes(handle).kept_by(keeper), access)


def _require_one_user(here: _core.Participant) -> None:
    """And one domain: of this process, and of the one that started it."""
    there, user = settings.domain, os.geteuid()
    if there and (there != here.domain or settings.user != user):
        raise AccessDenied(
            f"no tensor passes between this process (uid {user}, domain {here.domain}) and the one "
            f"that started it (uid {settings.user}, domain {there}): it has called os.setuid(), "
            "or changed TENSORBUS_DOMAIN; do so before processes are started, or send bytes"
        )


@contextmanager
def offers_to_child() -> Iterator[list[bytes]]:
    """While a process is started: the handles of what this one offers to it alone."""
    outer, offered.handles = offered.handles, []
    try:
        yield offered.handles
    finally:
        offered.handles = outer


def withdraw(handles: list[bytes]) -> None:
    """Whoever they were for has them, or will never."""
    for handle in handles:  # none: there may be no participant
        _core.close_share(_core.Handle.from_bytes(handle), participant())


def end_without(carrier: int) -> None:
    """The end of this process does not wait until messages through this are kept."""
    _not_awaited.add(carrier)


def wait_until_kept() -> None:
    """Until this process can end and nothing that it sent is lost, or its keeper has ended.

    A stopped keeper does not read. As many messages as fit are in its socket; others wait here.
    """
    if not settings.keeper or not has_participant():
        return
    pause = _LOOK
    with suppress(Error):  # no participant can be had any more: os.setuid() was called
        while not _not_awaited.issuperset(_core.unkept(participant())):
            time.sleep(pause)
            pause = min(2 * pause, _LONG_LOOK)


@contextmanager
def moved_for_child(memories: dict[int, memoryview]) -> Iterator[list[_core.Shared]]:
    """While a process is forked: it can attach to the memory that it inherits, by address.

    What it is given must live as long as the child.
    """
    shares: list[_core.Shared] = []
    outer, _forking.moved = _forking.moved, []
    try:
        items = list(memories.items())
        for first in range(0, len(items), lending.MAX_TENSORS):
            part = dict(items[first : first + lending.MAX_TENSORS])
            outgoing = _core.Outgoing()
            for memory in part.values():
                outgoing.add_buffer(memory, 0)
            shares.append(_core.share(outgoing, b"", 0, None, True, participant()))
            _forking.moved.append(Moved(shares[-1].handle.bytes(), list(part)))
        yield shares
    finally:
        _forking.moved = outer


def is_of_ours() -> bool:
    """Was this process started by our means, and not by the standard library's or PyTorch's?"""
    return _of_ours == os.getpid()


def settings_for_child() -> bytes:
    """What a process that is about to be started is to `adopt`."""
    global _own
    if not settings.keeper and not _own.keeper:
        with suppress(Error):  # it says what is wrong when a tensor is sent
            _own = Settings(participant().id, participant().domain, os.geteuid())
            _carriers.watch(rarely=False)
    return msgpack.encode(settings if settings.keeper else _own)


def adopt(encoded: bytes) -> None:
    """In a new process: takes over what its parent gave it."""
    global settings, _of_ours
    settings = msgpack.decode(encoded, type=Settings)
    _of_ours = os.getpid()


def set_ttl(seconds: float) -> None:
    """Has no effect, and is deprecated: what was sent lives until it is received or cannot be."""
    global _deprecated_ttl
    if not seconds > 0:
        raise InvalidArgument(f"seconds={seconds!r}: expected a number above 0")
    _warn_of_ttl("set_ttl")
    _deprecated_ttl = float(seconds)


def get_ttl() -> float:
    """What `set_ttl` was told; deprecated with it."""
    _warn_of_ttl("get_ttl")
    return _deprecated_ttl


def _warn_of_ttl(name: str) -> None:
    warnings.warn(
        f"{name}() has no effect any more: what waits to be received has no time limit",
        DeprecationWarning,
        stacklevel=3,
    )


class _Inherited:
    """Attaches to what the parent had moved, once, when the first of it is needed."""

    def __init__(self, moved: Moved) -> None:
        self._moved = moved
        self._indices = {address: index for index, address in enumerate(moved.addresses)}
        self._sample: _core.Sample | None = None
        self._attached_by = 0

    def borrow(self, address: int, size: int) -> _core.Memory:
        """Memory that this process has inherited by a fork, as its owner lends it.

        Raises:
            Closed: the owner does not have it any more, or is gone.
        """
        with _inheriting:
            if self._sample is None or self._attached_by != os.getpid():
                self._sample = lending.borrow(self._moved.handle, _core.Access.SHARED)
                self._attached_by = os.getpid()
            memory = self._sample.memory(self._indices[address])
        if memory.shape != (size,):
            raise Closed("the memory that was inherited by a fork has another size")
        return memory


def _inherited() -> dict[int, Callable[[int, int], _core.Memory]]:
    """The way to each of what our parent had moved when it forked us."""
    ways: dict[int, Callable[[int, int], _core.Memory]] = {}
    for moved in _forking.moved:
        ways.update(dict.fromkeys(moved.addresses, _Inherited(moved).borrow))
    return ways


def _forget_parent() -> None:
    """A forked child sends what it sends itself, and has its parent's keeper, or its parent."""
    global settings, _own, _inheriting
    settings = settings if settings.keeper else _own
    _own = Settings()
    _forking.moved = []
    _inheriting = threading.Lock()
    _not_awaited.clear()


def _wait_at_exit(wait: Callable[[], None]) -> None:
    util.Finalize(None, wait, exitpriority=_AFTER_FEEDERS)


torch_sharing.lent_to_child = _inherited
os.register_at_fork(after_in_child=_forget_parent)  # after that of _torch_sharing
util.register_after_fork(wait_until_kept, _wait_at_exit)  # in each process that is started
