"""Sends the answers of a service, without waiting for the clients."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tensorbus._base.errors import Closed, Error, OutOfMemory, Timeout
from tensorbus._base.participant import participant
from tensorbus._core import Outcome, Pending, Queue
from tensorbus._services.calls import Item
from tensorbus._services.watched_request import WatchedRequest

# Maximum of pending answers, and of cached client queues. A pending answer takes two descriptors.
# Above the maximum, the oldest answer is cancelled; it still arrives if the client's process has
# received it.
_MAX_PENDING = 128
# Seconds that the end of a service waits for pending answers.
_FINISH_TIMEOUT = 1.0


class Answers:
    """Sends answers without waiting for the clients, which may be stopped or dead.

    Any thread may use it.

    Args:
        domain: see `tensorbus.participant`.
        refused: called with the error if a client's queue refuses an answer, unless it is closed.
    """

    def __init__(self, domain: str | None, refused: Callable[[Error], object]) -> None:
        self._participant = participant(domain)
        self._refused = refused
        self._queues: dict[str, Queue] = {}  # of recent clients, by address
        self._ends: dict[str, Pending] = {}  # requests that end with these queues, see `has_gone`
        self._pending: deque[Pending] = deque()  # the oldest first
        self._lock = threading.Lock()

    def give(self, address: str, item: Item) -> None:
        """Sends an answer to the queue with this address.

        Raises:
            InvalidArgument: the address is not that of a queue.
            OutOfMemory: see `Queue.put`.
        """
        queue = self._queue_at(address)
        if queue.put_now(*item):
            if self._pending:
                self._update()
            return
        self._update(queue.start_put(*item))

    def has_gone(self, address: str) -> bool:
        """Whether the queue with this address is known to be closed: nobody waits for an answer.

        It is known of a queue that this method was called with before, and soon after its end: the
        first call sends a `join`, which ends with the queue, because clients never call
        `task_done`. If the queue has had no answer yet, the `join` ends at once, and the next call
        sends another.
        """
        with self._lock:
            end = self._ends.get(address)
            if end is not None and end.answered:
                del self._ends[address]
                outcome, end = _outcome(end), None
                if outcome is Outcome.CLOSED or isinstance(outcome, Closed):
                    return True
            if end is None:
                if len(self._ends) >= _MAX_PENDING:
                    self._forget_ends()
                with suppress(OutOfMemory):
                    self._ends[address] = self._queue_at(address).start_join()
            return False

    def _forget_ends(self) -> None:
        for end in self._ends.values():
            end.cancel()
        self._ends.clear()

    def _queue_at(self, address: str) -> Queue:
        queue = self._queues.get(address)
        if queue is None:
            queue = Queue.at(address, self._participant)
            if len(self._queues) >= _MAX_PENDING:
                self._queues.clear()
            self._queues[address] = queue
        return queue

    def _update(self, new: Pending | None = None) -> None:
        """Removes answers that are done, reports their errors, and adds a new one."""
        with self._lock:
            outcomes = [(each, _outcome(each)) for each in self._pending]
            self._pending = deque(
                each for each, outcome in outcomes if outcome is Outcome.TIMED_OUT
            )
            if new is not None:
                self._pending.append(new)
            while len(self._pending) > _MAX_PENDING:
                self._pending.popleft().cancel()
        for _, outcome in outcomes:
            if isinstance(outcome, Error):
                self._refused(outcome)

    async def finish(self) -> None:
        """Waits until the clients have their answers, for a second at most."""
        for request in self._remaining():
            with self._errors_reported():
                await request.answer()

    def finish_sync(self) -> None:
        """`finish` without an event loop."""
        for request in self._remaining():
            with self._errors_reported():
                request.answer_sync()

    def _remaining(self) -> Iterator[WatchedRequest]:
        with self._lock:
            self._forget_ends()
        deadline = time.monotonic() + _FINISH_TIMEOUT
        while (oldest := self._oldest()) is not None:
            yield WatchedRequest(oldest, deadline)

    def _oldest(self) -> Pending | None:
        with self._lock:
            return self._pending.popleft() if self._pending else None

    @contextmanager
    def _errors_reported(self) -> Iterator[None]:
        try:
            yield
        except (Closed, Timeout):
            pass  # the client has given up, or is stopped
        except Error as error:
            self._refused(error)


def _outcome(pending: Pending) -> object:
    try:
        return pending.take()
    except Error as error:
        return error
