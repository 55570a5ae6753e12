"""Retries after shortages of descriptors, memory, disk space and threads, which end some time."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from typing import TypeVar

logger = logging.getLogger("tensorbus.bridge")

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds between tries
WHEN_ROOM = 1.0  # max. seconds until the next try after something was given back
_TURN = 0.02  # seconds that make_all() runs at a time
_NO_THREAD = "can't start new thread"
_ERRORS = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOBUFS,
    errno.ENOSPC,
    errno.EDQUOT,
}

# The types of a shortage. is_shortage() distinguishes it from other errors of these types.
SHORTAGES = (MemoryError, OSError, RuntimeError)

Entry = TypeVar("Entry")
Log = Callable[..., object]  # like `Logger.warning`


def is_shortage(error: BaseException) -> bool:
    """Returns True if the same call can succeed later, when a resource is free again."""
    if isinstance(error, MemoryError):  # `OutOfMemory` is one
        return True
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    return isinstance(error, RuntimeError) and str(error) == _NO_THREAD


def require_shortage(error: BaseException) -> None:
    """Raises the error again unless it is a shortage."""
    if not is_shortage(error):
        raise error


class Backoff:
    """The delays between tries, and one log line at the start and the end of a shortage.

    Args:
        what: a sentence that says what is not done while the shortage lasts.
        log: writes the lines.
    """

    def __init__(self, what: str, log: Log = logger.warning) -> None:
        self._what = what
        self._log = log
        self._delay = 0.0

    def failed(self, error: BaseException) -> float:
        """Returns the seconds until the next try."""
        if not self._delay:
            self._log("%s for now: %s", self._what, error)
        self._delay = min(max(2 * self._delay, FIRST_WAIT), LONGEST_WAIT)
        return self._delay

    def succeeded(self) -> None:
        if self._delay:
            self._delay = 0.0
            self._log("%s: this is over", self._what)


class Again:
    """Calls a function, and calls it again while a shortage makes it fail. In the event loop.

    The function does all pending work. If it raises, all work that is not done stays pending. It
    may return True to leave work for a call that follows soon, so that other callbacks can run.

    Args:
        what: see `Backoff`.
        function: called without arguments.
        log: writes the lines.
    """

    def __init__(
        self, what: str, function: Callable[[], object], log: Log = logger.warning
    ) -> None:
        self._function = function
        self._backoff = Backoff(what, log)
        self._timer: asyncio.Handle | None = None
        self._when = 0.0  # time of the timer in the loop; not all handles of uvloop provide it

    def __call__(self) -> None:
        """Calls the function now, instead of the scheduled call."""
        self.cancel()
        try:
            more = self._function()
        except SHORTAGES as error:
            require_shortage(error)
            self.after(self._backoff.failed(error))
        else:
            if more is True:
                self.after(0)
            else:
                self._backoff.succeeded()

    def after(self, delay: float) -> None:
        """Schedules a call in `delay` seconds, instead of the scheduled call."""
        self.cancel()
        loop = asyncio.get_running_loop()
        self._when = loop.time() + delay
        self._timer = loop.call_at(self._when, self)

    def within(self, delay: float) -> None:
        """Schedules a call in `delay` seconds at the latest."""
        loop = asyncio.get_running_loop()
        if self._timer is None or self._when > loop.time() + delay:
            self.after(delay)

    @property
    def due(self) -> bool:
        """Whether a call is scheduled."""
        return self._timer is not None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def make_all(unmade: dict[str, Entry], make: Callable[[Entry], object]) -> bool:
    """Calls `make` for the entries and removes them, for a limited time.

    If a shortage interrupts `make`, the entry moves to the end of `unmade`. Returns True if the
    time was over before all entries were tried.

    Raises:
        MemoryError, OSError, RuntimeError: the shortage that interrupted `make` for an entry.
    """
    shortage: BaseException | None = None
    until = time.monotonic() + _TURN
    for key, entry in list(unmade.items()):
        if time.monotonic() > until:
            break
        try:
            make(entry)
        except SHORTAGES as error:
            require_shortage(error)
            shortage = error
            unmade[key] = unmade.pop(key)
        else:
            unmade.pop(key, None)
    if shortage is not None:
        raise shortage
    return bool(unmade)


class Watch:
    """Calls a function when a descriptor is readable. In the event loop.

    While the loop cannot watch the descriptor, the function is called periodically instead: it
    must check itself whether there is something to do.

    Args:
        fileno: returns the descriptor.
        function: called without arguments.
    """

    def __init__(self, fileno: Callable[[], int], function: Callable[[], object]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._descriptor = -1
        self._timer: asyncio.TimerHandle | None = None
        self._begin(fileno)

    def close(self) -> None:
        """Stops watching. Call it before the descriptor is closed.

        It drops the function, so that no reference cycle keeps the owner alive.
        """
        self._function = _do_nothing
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._descriptor = -1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, fileno: Callable[[], int]) -> None:
        self._timer = None
        try:
            descriptor = fileno()
            self._loop.add_reader(descriptor, self._function)
        except SHORTAGES as error:
            require_shortage(error)
            self._timer = self._loop.call_later(FIRST_WAIT, self._look, fileno)
        else:
            self._descriptor = descriptor

    def _look(self, fileno: Callable[[], int]) -> None:
        self._begin(fileno)
        self._function()


def _do_nothing() -> None:
    pass
