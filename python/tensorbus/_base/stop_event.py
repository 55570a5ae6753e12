"""An event that handlers of signals may set."""

from __future__ import annotations

import threading
import time

# How long the main thread waits before it looks for signals.
_LOOK = 0.1


class StopEvent(threading.Event):
    """The `threading.Event` of something that a signal is to end.

    A handler of a signal runs in the main thread, also while that waits here. So the event's lock
    is reentrant. And the main thread does not wait for long at a time: CPython calls no handler for
    a signal that comes after it has looked for signals and before its thread is blocked.

    >>> event = StopEvent()
    >>> event.wait(0.01), event.set(), event.wait()
    (False, None, True)
    """

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())  # in the place of the event's own

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set: True; False after `timeout` seconds."""
        if threading.current_thread() is not threading.main_thread():
            return super().wait(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        while not super().wait(_LOOK if end is None else min(_LOOK, end - time.monotonic())):
            if end is not None and time.monotonic() >= end:
                return self.is_set()  # by a handler, perhaps, just before it waited
        return True
