"""Queues that outlive the programs that use them, for ``tensorbus queue keep``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorbus._core import Outcome
from tensorbus._queues.pending import outcome_of
from tensorbus._queues.queue import Queue


class KeptQueue:
    """A queue that is made anew when a program has shut it down and its items are taken.

    Args:
        make: makes the queue, each time with the same name and options.
    """

    def __init__(self, make: Callable[[], Queue[Any]]) -> None:
        self._make = make
        self._queue = make()

    async def wait_for_shutdown(self) -> None:
        """Waits until a program has shut the queue down, and no item is left, or may come back."""
        drained = self._queue._here.start_call("drain", 1)
        if await outcome_of(drained) is not Outcome.DONE:
            raise RuntimeError("the kept queue was closed")

    def renew(self) -> None:
        """Closes the queue and makes the next one.

        Raises:
            InvalidArgument: another process has made a queue of this name meanwhile.
        """
        self._queue._discard()
        self._queue = self._make()

    def close(self) -> int:
        """Closes the queue. Returns the number of items in it, which are dropped."""
        items = self._queue.stats.items
        self._queue._discard()
        return items
