"""Answers on their way to clients. The service that gives them waits for none of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensorbus._base.errors import Closed, Error, Timeout
from tensorbus._base.participant import participant
from tensorbus._core import Outcome, Pending, Queue
from tensorbus._services.asked import Asked
from tensorbus._services.calls import Item

# Answers that are waited for, each with two descriptors. One that is given up arrives all the same,
# if the client's process was reached before.
_MOST = 128
# Seconds that the end of a service waits for the last ones.
_AT_THE_END = 1.0


class Answers:
    """Gives answers without waiting for the clients, which may be stopped, or dead. In any thread.

    Args:
        domain: see `tensorbus.participant`.
        refused: is handed why a client's queue did not take an answer; not that it is gone.
    """

    def __init__(self, domain: str | None, refused: Callable[[Error], object]) -> None:
        self._participant = participant(domain)
        self._refused = refused
        self._queues: dict[str, Queue] = {}  # of clients that were answered lately
        self._under_way: deque[Pending] = deque()  # the oldest first
        self._lock = threading.Lock()

    def give(self, address: str, item: Item) -> None:
        """Sends it to the queue of that address.

        Raises:
            InvalidArgument: it is none.
            OutOfMemory: see `Queue.put`.
        """
        queue = self._queue_at(address)
        if queue.put_now(*item):
            if self._under_way:
                self._look()
            return
        self._look(queue.start_put(*item))

    def _queue_at(self, address: str) -> Queue:
        queue = self._queues.get(address)
        if queue is None:
            queue = Queue.at(address, self._participant)
            if len(self._queues) >= _MOST:
                self._queues.clear()
            self._queues[address] = queue
        return queue

    def _look(self, giving: Pending | None = None) -> None:
        """At what became of earlier answers; and adds one."""
        with self._lock:
            outcomes = [(each, _outcome(each)) for each in self._under_way]
            self._under_way = deque(
                each for each, outcome in outcomes if outcome is Outcome.TIMED_OUT
            )
            if giving is not None:
                self._under_way.append(giving)
            while len(self._under_way) > _MOST:
                self._under_way.popleft().cancel()
        for _, outcome in outcomes:
            if isinstance(outcome, Error):
                self._refused(outcome)

    async def finish(self) -> None:
        """Waits until the clients have what was given, but not for long."""
        for asked in self._last():
            with self._told():
                await asked.answer()

    def finish_sync(self) -> None:
        """The same, without an event loop."""
        for asked in self._last():
            with self._told():
                asked.answer_sync()

    def _last(self) -> Iterator[Asked]:
        deadline = time.monotonic() + _AT_THE_END
        while (oldest := self._oldest()) is not None:
            yield Asked(oldest, deadline)

    def _oldest(self) -> Pending | None:
        with self._lock:
            return self._under_way.popleft() if self._under_way else None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (Closed, Timeout):
            pass  # the client gave up, or is stopped
        except Error as error:
            self._refused(error)


def _outcome(pending: Pending) -> object:
    try:
        return pending.take()
    except Error as error:
        return error
