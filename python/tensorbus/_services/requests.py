"""Taking the requests of a service from its queue: one by one, or in batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensorbus._aio.loop_poller import Wait
from tensorbus._base.errors import Closed, Error
from tensorbus._core import Outcome, Pending, Sample
from tensorbus._pools.batches import Limits
from tensorbus._queues.pending import checked, result_of
from tensorbus._queues.queue import Queue


class Requests:
    """Takes up to a batch of requests at once. Tasks and threads that take them take turns.

    Args:
        queue: the queue of the service, which is made in this process.
        limits: of a batch.
        failed: called with an error that prevents the next request of a batch from being taken.
    """

    def __init__(self, queue: Queue, limits: Limits, failed: Callable[[Error], object]) -> None:
        self._queue = queue
        self._size = limits.size or 1
        self._max_wait = limits.max_wait
        self._failed = failed
        self._turn = asyncio.Lock()
        self._turn_of_threads = threading.Lock()

    async def take(self) -> list[Sample]:
        """Waits for a request, and for further ones until the batch is full or `max_wait` is over.

        Raises:
            Closed: the queue was closed.
            Error: the first request cannot be taken.
        """
        if self._size == 1:
            return [await self._first()]
        async with self._turn:
            samples = [await self._first()]
            end = time.monotonic() + self._max_wait
            while len(samples) < self._size:
                sample = None
                with self._errors_reported():
                    sample = self._next(0) or await self._next_before(end)
                if sample is None:
                    break
                samples.append(sample)
            return samples

    def take_sync(self) -> list[Sample]:
        """`take` without an event loop."""
        if self._size == 1:
            return [self._queue._take_sample(None)]
        with self._turn_of_threads:
            samples = [self._queue._take_sample(None)]
            end = time.monotonic() + self._max_wait
            while len(samples) < self._size:
                sample = None
                with self._errors_reported():
                    sample = self._next(max(end - time.monotonic(), 0.0))
                if sample is None:
                    break
                samples.append(sample)
            return samples

    @contextmanager
    def _errors_reported(self) -> Iterator[None]:
        try:
            yield
        except Closed:
            raise
        except Error as error:
            self._failed(error)

    async def _first(self) -> Sample:
        result = await result_of(self._queue._here.start_get())
        if isinstance(result, Sample):
            return result
        raise Error(f"unexpected outcome of a get: {result}")

    def _next(self, timeout: float) -> Sample | None:
        return _sample(self._queue._here.get(timeout))

    async def _next_before(self, end: float) -> Sample | None:
        left = end - time.monotonic()
        return None if left <= 0 else await _result_within(self._queue._here.start_get(), left)


async def _result_within(pending: Pending, timeout: float) -> Sample | None:
    """The result of a get; None after the timeout: it has then taken no item."""
    try:
        with Wait(pending.fileno(), timeout) as wait:
            while (outcome := pending.take()) is Outcome.TIMED_OUT and not wait.over:
                await wait.woken()
    except BaseException:
        pending.cancel()
        raise
    if outcome is Outcome.TIMED_OUT:
        pending.cancel()
    return _sample(outcome)


def _sample(outcome: Sample | Outcome) -> Sample | None:
    if isinstance(outcome, Sample):
        return outcome
    if outcome is not Outcome.TIMED_OUT:
        checked(outcome)
    return None
