"""The lifetime of messages that are sent between the processes of one program.

A tensor that is sent through a pipe is shared for one attachment; the pipe carries its handle. The
sender may end before the message is received. Therefore messages of a child are also kept by the
*keeper*: the first process of the program that has started another process. The core of the keeper
does this in its own thread, so that a child's send never waits for the keeper.
docs/internals/decisions/0024 has the states.
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
    """Memory that a process has moved, shared with a child that it forks, and its addresses."""

    handle: bytes = b""
    addresses: list[int] = []


class Settings(Struct):
    """Settings that a child gets from the process that starts it."""

    keeper: str = ""  # the participant that also keeps the child's messages; "": none
    domain: str = ""  # the path of the keeper's domain
    user: int = -1  # the keeper's user id


class _Forking(threading.local):
    """The memory that each thread has moved for a child that it is forking."""

    def __init__(self) -> None:
        self.moved: list[Moved] = []


settings = Settings()
_own = Settings()  # has this process's participant, once this process has started another
_started_process = 0  # the pid of the process that has adopted `settings`
_forking = _Forking()
_inheriting = threading.Lock()
_not_awaited: set[int] = set()  # carriers whose messages may be lost when this process ends
_deprecated_ttl = float("inf")

# Seconds between two checks whether the keeper has all messages: the first and longest interval.
_FIRST_PAUSE = 0.001
_MAX_PAUSE = 0.05
# Priority at exit: after the standard library has waited for its feeder threads (-5).
_AFTER_FEEDERS = -10


def offer(
    outgoing: _core.Outgoing, fields: bytes, *, shared: bool = True, carrier: int = 0
) -> tuple[bytes, str]:
    """Shares a message for one attachment, possibly after this process has ended.

    Args:
        shared: the receiver's writes to the tensors are visible to all.
        carrier: the carrier of the handle, see `_carriers`; 0: unknown.

    Returns:
        The handle, and the participant that also keeps the message; "" if there is none.

    Raises:
        AccessDenied: this process has another domain or user than the process that started it.
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
    """Attaches to an offered message: at its sender, or at its keeper if the sender has ended.

    Raises:
        AccessDenied: this process has another domain or user than the process that started it.
        Closed: the message was received before, or no process keeps it any more.
    """
    try:
        return lending.borrow(handle, access)
    except Closed:
        _require_one_user(participant())
        if not keeper:
            raise
    return lending.attach(_core.Handle.from_bytes(handle).kept_by(keeper), access)


def _require_one_user(here: _core.Participant) -> None:
    """Requires that this process has the user and domain of the process that started it."""
    there, user = settings.domain, os.geteuid()
    if there and (there != here.domain or settings.user != user):
        raise AccessDenied(
            f"no tensor can be sent between this process (uid {user}, domain {here.domain}) and "
            f"its parent (uid {settings.user}, domain {there}): this process called os.setuid() or "
            "changed TENSORBUS_DOMAIN; do so before processes are started, or send bytes"
        )


@contextmanager
def offers_to_child() -> Iterator[list[bytes]]:
    """A context that collects the handles of messages that are offered to a starting process."""
    outer, offered.handles = offered.handles, []
    try:
        yield offered.handles
    finally:
        offered.handles = outer


def withdraw(handles: list[bytes]) -> None:
    """Closes offers after their receiver has attached, or if no receiver will attach."""
    for handle in handles:  # without handles there may be no participant
        _core.close_share(_core.Handle.from_bytes(handle), participant())


def end_without(carrier: int) -> None:
    """Lets this process end before the keeper has the messages of this carrier."""
    _not_awaited.add(carrier)


def wait_until_kept() -> None:
    """Waits until the keeper has all messages of this process, or has ended.

    If the keeper is stopped, the call waits for it when its socket is full.
    """
    if not settings.keeper or not has_participant():
        return
    pause = _FIRST_PAUSE
    with suppress(Error):  # os.setuid() was called: there can be no participant any more
        while not _not_awaited.issuperset(_core.unkept(participant())):
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)


@contextmanager
def moved_for_child(memories: dict[int, memoryview]) -> Iterator[list[_core.Shared]]:
    """Context in which a process is forked: the child can attach to inherited memory by address.

    The shares must exist as long as the child.
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


def was_started_here() -> bool:
    """True if this package, not the standard library or PyTorch, has started this process."""
    return _started_process == os.getpid()


def settings_for_child() -> bytes:
    """The settings that a process that is about to be started passes to `adopt`."""
    global _own
    if not settings.keeper and not _own.keeper:
        with suppress(Error):  # sending a tensor raises it again
            _own = Settings(participant().id, participant().domain, os.geteuid())
            _carriers.watch(rarely=False)
    return msgpack.encode(settings if settings.keeper else _own)


def adopt(encoded: bytes) -> None:
    """Sets the settings that the parent has passed to this new process."""
    global settings, _started_process
    settings = msgpack.decode(encoded, type=Settings)
    _started_process = os.getpid()


def set_ttl(seconds: float) -> None:
    """Deprecated, without effect: a message is kept until it is received, or cannot be received.

    Raises:
        InvalidArgument: `seconds` is not above 0.
    """
    global _deprecated_ttl
    if not seconds > 0:
        raise InvalidArgument(f"seconds={seconds!r}: expected a number above 0")
    _warn_of_ttl("set_ttl")
    _deprecated_ttl = float(seconds)


def get_ttl() -> float:
    """Deprecated: the last argument of `set_ttl`."""
    _warn_of_ttl("get_ttl")
    return _deprecated_ttl


def _warn_of_ttl(name: str) -> None:
    warnings.warn(
        f"{name}() has no effect any more: tensors wait to be received without a time limit",
        DeprecationWarning,
        stacklevel=3,
    )


class _Inherited:
    """Attaches to memory that the parent had moved; only once, on first use."""

    def __init__(self, moved: Moved) -> None:
        self._moved = moved
        self._indices = {address: index for index, address in enumerate(moved.addresses)}
        self._sample: _core.Sample | None = None
        self._attached_by = 0

    def borrow(self, address: int, size: int) -> _core.Memory:
        """Memory that this process has inherited by a fork, lent by its owner.

        Raises:
            Closed: the owner has freed it, or has ended.
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
    """The functions that borrow the memory that the parent had moved when it forked, by address."""
    borrow: dict[int, Callable[[int, int], _core.Memory]] = {}
    for moved in _forking.moved:
        borrow.update(dict.fromkeys(moved.addresses, _Inherited(moved).borrow))
    return borrow


def _forget_parent() -> None:
    """In a forked child: its keeper is the keeper of its parent; if there is none, its parent."""
    global settings, _own, _inheriting
    settings = settings if settings.keeper else _own
    _own = Settings()
    _forking.moved = []
    _inheriting = threading.Lock()
    _not_awaited.clear()


def _wait_at_exit(wait: Callable[[], None]) -> None:
    util.Finalize(None, wait, exitpriority=_AFTER_FEEDERS)


torch_sharing.lent_to_child = _inherited
os.register_at_fork(after_in_child=_forget_parent)  # runs after the handler of torch_sharing
util.register_after_fork(wait_until_kept, _wait_at_exit)  # in each started process
