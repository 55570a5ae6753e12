"""What messages are sent through: pipes and sockets, and whether anybody can still read them.

A carrier is named by the inode of what is read, which is one number in all processes of a machine
while any of them has it open. A message whose carrier no process has open for reading can be
received by nobody: the process that keeps it lets go of it.
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

# Seconds from one look to the next, and to the second when something was closed here. What was
# unreadable both times is let go of: a descriptor on its way to another process is open in neither.
_PAUSE = 10.0
_SHORT_PAUSE = 2.0
# The same where a fork server is used: what it has not accepted yet waits while it imports modules.
_LONG_PAUSE = 60.0
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

# Not an event: the garbage collector may close a connection in any thread, at any moment.
_look: queue.SimpleQueue[None] = queue.SimpleQueue()
_asked = False  # is there something in it?
_rarely = False
_watching = 0  # the process whose thread runs
_first: dict[int, object] = {}  # by process: of the call that started it


def inode_of(descriptor: int) -> int:
    """The carrier that is read by this descriptor; of a pipe also the one that is written."""
    return os.fstat(descriptor).st_ino


def watch(*, rarely: bool) -> None:
    """Looks after the messages that this process shares or keeps, from now on.

    rarely: a fork server of another process, unknown here, may be about to take descriptors.
    """
    global _watching, _rarely
    process, ours = os.getpid(), object()
    if _watching != process and _first.setdefault(process, ours) is ours:
        _watching, _rarely = process, rarely
        threading.Thread(target=_run, name="tensorbus-carriers", daemon=True).start()


def closed_one() -> None:
    """A connection was closed here: what was sent through it may have become unreadable."""
    global _asked
    if _watching == os.getpid() and not _asked:
        _asked = True
        _look.put(None)


def drop(*carriers: int) -> None:
    """Nobody will read these any more: lets go of what was sent through them."""
    if has_participant():
        for carrier in carriers:
            _core.close_carried_by(carrier, participant())


def _unreadable(open_for: float) -> set[int]:
    """The carriers of what is kept here for so long that no process can read now."""
    if not has_participant():
        return set()
    suspects = set(_core.carriers(open_for, participant()))
    return suspects - _readable() if suspects else suspects


def _readable() -> set[int]:
    """The inodes of all pipes and sockets that a process of this user has open for reading.

    Raises:
        PermissionError: a process of this program does not show what it has open.
    """
    found: set[int] = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            try:
                found |= _readable_by(f"/proc/{process}")
            except PermissionError:
                if _is_of_this_program(int(process)):
                    raise
    return found


def _is_of_this_program(process: int) -> bool:
    """May it have inherited a pipe? It is in this session, and of this user.

    Such a process hides its descriptors if it is not dumpable (`prctl(PR_SET_DUMPABLE)`).
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


def _is_asked(pause: float) -> bool:
    """Waits for the next look; is it since something was closed?"""
    global _asked
    if pause == _LONG_PAUSE:
        time.sleep(pause)
        return False
    try:
        _look.get(timeout=pause)
    except queue.Empty:
        return False
    _asked = False
    return True


def _pause() -> float:
    server = getattr(forkserver, "_forkserver", None)
    is_used = getattr(server, "_forkserver_pid", None) is not None
    return _LONG_PAUSE if is_used or _rarely else _PAUSE


def _run() -> None:
    before: set[int] = set()
    while True:
        pause = _pause()
        hurried = _is_asked(pause) and _pause() == pause
        with suppress(OSError, Error):
            if hurried:
                before = _unreadable(0.0)
                time.sleep(_SHORT_PAUSE)
            now = _unreadable(0.0 if hurried else pause)
            drop(*(now & before))
            before = now


def _after_fork() -> None:
    global _look, _asked, _watching
    _look, _asked, _watching = queue.SimpleQueue(), False, 0
    _first.clear()


os.register_at_fork(after_in_child=_after_fork)
