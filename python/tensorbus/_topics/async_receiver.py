"""Receiving in an event loop, for `Subscriber` and `AsyncSubscriber`."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from tensorbus._aio.loop_poller import Wait
from tensorbus._base.arguments import seconds
from tensorbus._base.errors import Closed, Timeout
from tensorbus._base.generics import T
from tensorbus._topics.sample import Sample

R = TypeVar("R")

# Calls in a row that may return without a wait; the next call yields to other tasks of the loop.
_MAX_READY_IN_A_ROW = 64


class Source(Protocol[T]):
    """The methods of a `Subscriber` that `AsyncReceiver` calls."""

    def fileno(self) -> int: ...
    def receive(self, timeout: float | None = None) -> Sample[T]: ...
    def try_receive(self) -> Sample[T] | None: ...
    def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]: ...
    def try_receive_many(self, max_count: int) -> list[Sample[T]]: ...
    def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> bool: ...


class AsyncReceiver(Generic[T]):
    """Asynchronous versions of a subscriber's calls, and the iterator of `async for`.

    A coroutine takes samples only in its last step: a cancelled call has taken none.

    Args:
        subscriber: while a task is in `wait_for_publishers`, receive through this object only.
        timeout: default timeout, like the subscriber's.
        spin: seconds to spin before the task waits; the event loop is blocked meanwhile.
        end_of_stream: iteration ends with the stream; a timeout raises `Timeout`.
    """

    def __init__(
        self,
        subscriber: Source[T],
        timeout: float | None,
        spin: float = 0,
        *,
        end_of_stream: bool = False,
    ) -> None:
        self._subscriber = subscriber
        self._timeout = timeout
        self._spin = spin
        self._end_of_stream = end_of_stream
        self._descriptor = subscriber.fileno()
        self._ready_in_a_row = 0
        # Weak, so that tasks of a loop that was closed before they ended can be freed.
        self._publisher_waits: set[ref[Wait]] = set()

    async def receive(self, timeout: float | None = None) -> Sample[T]:
        timeout = await self._begin(timeout)
        sample = self._receive_spinning(timeout) if self._spin > 0 else self.try_receive()
        if sample is not None:
            return sample
        with self._wait(timeout) as wait:
            await wait.woken()
            while not wait.over:
                sample = self.try_receive()
                if sample is not None:
                    return sample
                await wait.woken()
        return self._receive_now()

    async def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]:
        timeout = await self._begin(timeout)
        samples = self.try_receive_many(max_count)
        if samples:
            return samples
        with self._wait(timeout) as wait:
            await wait.woken()
            while not wait.over:
                samples = self.try_receive_many(max_count)
                if samples:
                    return samples
                await wait.woken()
        try:
            return self._subscriber.receive_many(max_count, 0)
        finally:
            self._wake_publisher_waits()

    def _wait(self, timeout: float | None) -> Wait:
        self._ready_in_a_row = 0
        return Wait(self._descriptor, timeout, self._subscriber)

    async def _begin(self, timeout: float | None) -> float | None:
        """Returns the checked timeout; yields to the loop after many calls without a wait."""
        self._ready_in_a_row += 1
        if self._ready_in_a_row >= _MAX_READY_IN_A_ROW:
            self._ready_in_a_row = 0
            await asyncio.sleep(0)
        return seconds("timeout", self._timeout if timeout is None else timeout)

    def try_receive_many(self, max_count: int) -> list[Sample[T]]:
        samples = self._subscriber.try_receive_many(max_count)
        if not samples:
            self._wake_publisher_waits()
        return samples

    def try_receive(self) -> Sample[T] | None:
        sample = self._subscriber.try_receive()
        if sample is None:
            self._wake_publisher_waits()
        return sample

    async def wait_for_publishers(self, count: int, timeout: float | None) -> bool:
        with Wait(self._descriptor, seconds("timeout", timeout), self._subscriber) as wait:
            reference = ref(wait, self._publisher_waits.discard)
            self._publisher_waits.add(reference)
            try:
                while not self._subscriber.wait_for_publishers(count, 0):
                    if wait.over:
                        return False
                    await wait.woken()
                return True
            finally:
                self._publisher_waits.discard(reference)

    def __aiter__(self) -> AsyncReceiver[T]:
        return self

    async def __anext__(self) -> Sample[T]:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None
        except Timeout:
            if self._end_of_stream:
                raise
            raise StopAsyncIteration from None

    def _receive_spinning(self, timeout: float | None) -> Sample[T] | None:
        try:
            return self._subscriber.receive(
                self._spin if timeout is None else min(self._spin, timeout)
            )
        except Timeout:
            return None
        finally:
            self._wake_publisher_waits()

    def _receive_now(self) -> Sample[T]:
        """The last attempt, which raises the subscriber's own `Timeout`."""
        try:
            return self._subscriber.receive(0)
        finally:
            self._wake_publisher_waits()

    def _wake_publisher_waits(self) -> None:
        """Called after each receive, which may have cleared the notification of a new publisher."""
        if not self._publisher_waits:
            return
        for reference in list(self._publisher_waits):  # an atomic copy, also without a GIL
            wait = reference()
            if wait is not None:
                wait.wake_soon()


class ExpectingReceiver(AsyncReceiver[T]):
    """An `AsyncReceiver` of a subscriber with deadlines: a call also wakes when one is missed.

    Args:
        seconds_left: returns the seconds until the next deadline; infinite if there is none.
    """

    def __init__(
        self,
        subscriber: Source[T],
        timeout: float | None,
        spin: float,
        seconds_left: Callable[[], float],
        *,
        end_of_stream: bool = False,
    ) -> None:
        super().__init__(subscriber, timeout, spin, end_of_stream=end_of_stream)
        self._seconds_left = seconds_left

    async def receive(self, timeout: float | None = None) -> Sample[T]:
        return await self._by_deadlines(super().receive, timeout)

    async def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]:
        receive_many = super().receive_many
        return await self._by_deadlines(lambda left: receive_many(max_count, left), timeout)

    async def _by_deadlines(
        self, receive: Callable[[float | None], Coroutine[Any, Any, R]], timeout: float | None
    ) -> R:
        limit = seconds("timeout", self._timeout if timeout is None else timeout)
        end = math.inf if limit is None else time.monotonic() + limit
        while True:
            left = max(min(end - time.monotonic(), self._seconds_left()), 0.0)
            try:
                return await receive(None if math.isinf(left) else left)
            except Timeout:  # the last attempt of the call has reported a missed deadline
                if time.monotonic() >= end:
                    raise
