"""Errors that say that something was used up for now: it is tried again."""

from __future__ import annotations

import errno
import os
import threading

_ERRORS = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC}


def is_shortage(error: BaseException) -> bool:
    """Returns True if processes, threads, memory or descriptors were used up.

    >>> is_shortage(BlockingIOError(errno.EAGAIN, "")), is_shortage(FileNotFoundError())
    (True, False)
    """
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    return isinstance(error, MemoryError) or "can't start new thread" in str(error)


def check_room_for_fork() -> None:
    """Raises what the start of a forked process would raise for want of descriptors or a task.

    `multiprocessing` leaves the two pipes open of a process that it could not fork.
    """
    opened: list[int] = []
    try:
        for _ in range(2):
            opened += os.pipe()
        thread = threading.Thread(target=opened.count, args=(0,))  # limits count it as a process
        thread.start()
        thread.join()
    finally:
        for descriptor in opened:
            os.close(descriptor)
