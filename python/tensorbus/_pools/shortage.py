"""Errors that say that something was used up for now: it is tried again."""

from __future__ import annotations

import errno

_ERRORS = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC}


def is_shortage(error: BaseException) -> bool:
    """Returns True if processes, threads, memory or descriptors were used up.

    >>> is_shortage(BlockingIOError(errno.EAGAIN, "")), is_shortage(FileNotFoundError())
    (True, False)
    """
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    return isinstance(error, MemoryError) or "can't start new thread" in str(error)
