"""Shortages: errors of exhausted resources. The pool later tries again to start the worker."""

from __future__ import annotations

import errno
import os
import threading

_ERRORS = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC}


def is_shortage(error: BaseException) -> bool:
    """Whether the error means that no process, thread, memory or descriptor was left.

    >>> is_shortage(BlockingIOError(errno.EAGAIN, "")), is_shortage(FileNotFoundError())
    (True, False)
    """
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    return isinstance(error, MemoryError) or "can't start new thread" in str(error)


def check_room_for_fork() -> None:
    """Raises the error of a fork if too few descriptors or threads are left for it.

    Call it before the fork: if the fork fails, `multiprocessing` leaks the two pipes of the new
    process.
    """
    opened: list[int] = []
    try:
        for _ in range(2):
            opened += os.pipe()
        # The limits count a thread like a process.
        thread = threading.Thread(target=opened.count, args=(0,))
        thread.start()
        thread.join()
    finally:
        for descriptor in opened:
            os.close(descriptor)
