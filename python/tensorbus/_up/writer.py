"""A thread that writes events, so that a slow reader or disk does not delay the supervisor."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable

from tensorbus._up.events import Event

_MAX_WAITING = 16 << 20  # bytes of memory
_EVENT_BYTES = 500  # what an event takes besides its text
_LAST_WRITE = 2.0  # seconds


class Writer:
    """Writes events in their order. An event for which there is no room is dropped."""

    def __init__(self, name: str, write: Callable[[Event | None, int], None]) -> None:
        """
        Args:
            name: of the thread.
            write: is called there with each event, and with how many were dropped just before it.
                At the end it is called with None if events were dropped after the last one.
        """
        self._write = write
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Writes the event later, or drops it."""
        size = _size_of(event)
        with self._changed:
            if self._bytes + size > _MAX_WAITING:
                self._dropped += 1
                return
            self._waiting.append((event, self._dropped))
            self._bytes += size
            self._dropped = 0
            self._changed.notify()

    def close(self) -> bool:
        """Writes what is waiting. False: it takes longer than 2 s, and is given up."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_LAST_WRITE)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    break
                event, dropped = self._waiting.popleft()
                self._bytes -= _size_of(event)
            self._write(event, dropped)
        if self._dropped:
            self._write(None, self._dropped)


def _size_of(event: Event) -> int:
    return sys.getsizeof(event.text) + _EVENT_BYTES
