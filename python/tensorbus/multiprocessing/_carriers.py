"""Carriers: the pipes and sockets through which messages are sent.

The inode of its reading end identifies a carrier: it is the same number in all processes of a
machine while one of them has it open. When no process has a carrier open for reading, its messages
cannot be received, and the process that keeps them releases them.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from contextlib import suppress
from multiprocessing import forkserver

from tensorbus import _core
from tensorbus._base.errors import Error
from tensorbus._base.participant import has_participant, participant

# Seconds between two checks. Messages are released if their carrier is unreadable in two checks.
# One check is not enough: a descriptor that is being sent to another process is open in no process.
_PAUSE = 10.0
# The interval after a connection was closed in this process.
_SHORT_PAUSE = 2.0
# The interval while a fork server is used: descriptors are in its socket while it imports modules.
_LONG_PAUSE = 60.0
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

# Wakes the thread. It is not an Event: the garbage collector may close a connection in any thread,
# at any moment, so that the call must be reentrant, as SimpleQueue.put is.
_wake: queue.SimpleQueue[None] = queue.SimpleQueue()
_woken = False  # there is an entry in _wake
_rarely = False
_watching = 0  # the pid of the process whose thread runs
_first: dict[int, object] = {}  # the token of the call that started the thread, by pid


def inode_of(descriptor: int) -> int:
    """The carrier of a reading end. A pipe's writing end has the same inode."""
    return os.fstat(descriptor).st_ino


def watch(*, rarely: bool) -> None:
    """Starts the thread that releases unreadable messages that this process shares or keeps.

    Args:
        rarely: use the long interval: a fork server of another process may be about to receive
            descriptors.
    """
    global _watching, _rarely
    process, token = os.getpid(), object()
    if _watching != process and _first.setdefault(process, token) is token:
        _watching, _rarely = process, rarely
        threading.Thread(target=_run, name="tensorbus-carriers", daemon=True).start()


def closed_one() -> None:
    """Wakes the thread after a connection was closed: its messages may have become unreadable."""
    global _woken
    if _watching == os.getpid() and not _woken:
        _woken = True
        _wake.put(None)


def drop(*carriers: int) -> None:
    """Releases the messages of carriers that no process will read."""
    if has_participant():
        for carrier in carriers:
            _core.close_carried_by(carrier, participant())


def _unreadable(open_for: float) -> set[int]:
    """The carriers that no process can read, of messages kept for at least `open_for` seconds."""
    if not has_participant():
        return set()
    suspects = set(_core.carriers(open_for, participant()))
    return suspects - _readable() if suspects else suspects


def _readable() -> set[int]:
    """The inodes of all pipes and sockets that a process of this user has open for reading.

    Raises:
        PermissionError: a process that may have inherited a pipe hides its descriptors.
    """
    found: set[int] = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
            try:
                found |= _readable_by(f"/proc/{process}")
            except PermissionError:
                if _is_of_this_program(int(process)):
                    raise
    return found


def _is_of_this_program(process: int) -> bool:
    """True if the process is of this session and user, and so may have inherited a pipe.

    A process that is not dumpable (`prctl(PR_SET_DUMPABLE)`) hides its descriptors.
    """
    with open(f"/proc/{process}/status") as status:
        users = next(line for line in status if line.startswith("Uid:")).split()[1:]
    return str(os.getuid()) in users and os.getsid(process) == os.getsid(0)


def _readable_by(process: str) -> set[int]:
    found = set()
    for number in os.listdir(f"{process}/fd"):
        with suppress(OSError):
            link = os.readlink(f"{process}/fd/{number}")
            kind, _, inode = link.partition(":[")
            if kind == "socket" or (kind == "pipe" and _is_read(f"{process}/fdinfo/{number}")):
                found.add(int(inode[:-1]))
    return found


def _is_read(path: str) -> bool:
    with open(path) as info:
        flags = next(line for line in info if line.startswith("flags:"))
    return int(flags.split()[1], 8) & _ACCESS != os.O_WRONLY


def _wait_for_close(pause: float) -> bool:
    """Waits for at most `pause` seconds; True if a connection was closed here meanwhile."""
    global _woken
    if pause == _LONG_PAUSE:
        time.sleep(pause)
        return False
    try:
        _wake.get(timeout=pause)
    except queue.Empty:
        return False
    _woken = False
    return True


def _pause() -> float:
    server = getattr(forkserver, "_forkserver", None)
    is_used = getattr(server, "_forkserver_pid", None) is not None
    return _LONG_PAUSE if is_used or _rarely else _PAUSE


def _run() -> None:
    before: set[int] = set()
    while True:
        pause = _pause()
        hurried = _wait_for_close(pause) and _pause() == pause
        with suppress(OSError, Error):
            if hurried:
                before = _unreadable(0.0)
                time.sleep(_SHORT_PAUSE)
            now = _unreadable(0.0 if hurried else pause)
            drop(*(now & before))
            before = now


def _after_fork() -> None:
    global _wake, _woken, _watching
    _wake, _woken, _watching = queue.SimpleQueue(), False, 0
    _first.clear()


os.register_at_fork(after_in_child=_after_fork)
