"""The processes below this one: adopting, finding and killing them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Found(NamedTuple):
    """A process, as /proc shows it."""

    pid: int
    ended: bool
    """It was not reaped yet."""
    parent: int
    session: int
    started: str
    """With the pid, it identifies the process."""


def adopt_orphans() -> None:
    """Makes this process the parent of all descendants whose own parents end."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def signal_at_death_of(parent: int, number: signal.Signals) -> bool:
    """Has the kernel send a signal when the parent ends; False if it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent


def descendants() -> list[Found]:
    """All descendants of this process. Those that have ended, and were not reaped, are included."""
    children: dict[int, list[Found]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := look_at(int(name))):
            children.setdefault(found.parent, []).append(found)
    below, parents = [], [os.getpid()]
    while parents:
        for child in children.pop(parents.pop(), ()):
            below.append(child)
            parents.append(child.pid)
    return below


def left_by(session: int, mark: str) -> list[Found]:
    """The living descendants that belong to a process which has ended, with their descendants.

    Args:
        session: the pid of that process, which led a session.
        mark: a variable `NAME=value` in its environment, for those that left its session.
    """
    found: dict[int, Found] = {}
    for each in descendants():  # parents come before their children
        belongs = each.session == session or each.parent in found
        if belongs or mark.encode() in _environment(each.pid):
            found[each.pid] = each
    return [each for each in found.values() if not each.ended]


def kill(found: Iterable[Found]) -> bool:
    """Sends SIGKILL to processes that may end, and whose pids may be used again, meanwhile.

    Returns:
        False if none of them may be killed, for example because they run as another user.
    """
    sent = False
    for each in found:
        with suppress(OSError):
            descriptor = os.pidfd_open(each.pid)
            try:
                if (now := look_at(each.pid)) and now.started == each.started:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                sent = True
            except ProcessLookupError:
                sent = True  # it has just ended
            finally:
                os.close(descriptor)
    return sent


def end_all() -> None:
    """Kills and reaps all descendants that may be killed."""
    while kill(each for each in descendants() if not each.ended):
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
    for _ in reap():
        pass


def reap() -> Iterator[tuple[int, int]]:
    """The pids and exit codes of children that have ended; negative codes are signals."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def exit_text(code: int) -> str:
    """An exit code as text.

    >>> exit_text(3), exit_text(-9)
    ('exit 3', 'killed by SIGKILL')
    """
    if code >= 0:
        return f"exit {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-code}"


def look_at(pid: int) -> Found | None:
    """The process of a pid; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    ended = fields[0] in (b"Z", b"X")
    return Found(pid, ended, int(fields[1]), int(fields[3]), fields[19].decode())


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
