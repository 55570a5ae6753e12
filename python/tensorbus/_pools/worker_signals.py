"""Signals to the group of a pool and its workers, from a terminal or a service manager."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait
from types import FrameType


def leave_signals_to_the_pool() -> None:
    """Has the pool's process decide what SIGINT and SIGTERM mean for this worker.

    They are not ignored (SIG_IGN), because programs that the worker starts would ignore them, too.
    Its forked children have the default for SIGTERM, by which `terminate()` ends them. Python drops
    signals that arrive in a child until its hooks run: SIGTERM is blocked until then.
    """
    signal.signal(signal.SIGINT, _ignore)
    signal.siginterrupt(signal.SIGINT, False)  # no call in C fails with EINTR
    # It interrupts calls in C: the handler must run although such a call may wait for ever.
    signal.signal(signal.SIGTERM, _end_with_the_pool)
    os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_restore)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _end_with_the_pool(number: int, frame: FrameType | None) -> None:
    """Goes on with the task, until the pool's process has ended."""
    threading.Thread(target=_end_after_the_pool, daemon=True).start()


def _end_after_the_pool() -> None:
    pool = parent_process()
    if pool is not None and pool.pid is not None:
        try:
            # Not the sentinel, which other workers may keep open.
            wait([os.pidfd_open(pool.pid)])
        except ProcessLookupError:
            pass
        except OSError:  # a kernel before 5.3, or a sandbox
            wait([pool.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


class _Forking(threading.local):
    blocks: bool = False
    """Whether this thread has blocked SIGTERM, which it had not blocked before it forks."""


_forking = _Forking()


def _block() -> None:
    # pthread_sigmask() runs handlers of other signals, which may raise, after it has set the mask.
    was_blocked = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    _forking.blocks = not was_blocked
    if not was_blocked:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _unblock() -> None:
    if _forking.blocks:
        _forking.blocks = False
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _restore() -> None:
    try:
        if signal.getsignal(signal.SIGTERM) is _end_with_the_pool:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    finally:
        _unblock()
