"""An event that signal handlers may set."""

from __future__ import annotations

import threading
import time

# Seconds between two checks for signals in the main thread.
_SIGNAL_SLICE = 0.1


class StopEvent(threading.Event):
    """A `threading.Event` that a signal handler may set.

    A signal handler runs in the main thread, even while that thread is in `wait`: therefore the
    event's lock is reentrant. The main thread waits in short slices: CPython does not call the
    handler of a signal that arrives after the check for signals and before the thread blocks.

    >>> event = StopEvent()
    >>> event.wait(0.01), event.set(), event.wait()
    (False, None, True)
    """

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())  # replaces the base class's

    def wait(self, timeout: float | None = None) -> bool:
        """True once the event is set; False after `timeout` seconds."""
        if threading.current_thread() is not threading.main_thread():
            return super().wait(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        while not super().wait(
            _SIGNAL_SLICE if end is None else min(_SIGNAL_SLICE, end - time.monotonic())
        ):
            if end is not None and time.monotonic() >= end:
                return self.is_set()  # a handler may have set it just before
        return True
