"""Receiving in an event loop, for both kinds of subscribers."""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol
from weakref import ref

from tensorbus._aio.loop_poller import Wait
from tensorbus._base.arguments import seconds
from tensorbus._base.errors import Closed, Timeout
from tensorbus._base.generics import T
from tensorbus._topics.sample import Sample

# After so many samples that were there already, the other tasks of the loop have a turn.
_IN_A_ROW = 64


class Source(Protocol[T]):
    """What it uses of a `Subscriber`."""

    def fileno(self) -> int: ...
    def receive(self, timeout: float | None = None) -> Sample[T]: ...
    def try_receive(self) -> Sample[T] | None: ...
    def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]: ...
    def try_receive_many(self, max_count: int) -> list[Sample[T]]: ...
    def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> bool: ...


class AsyncReceiver(Generic[T]):
    """Awaits what a subscriber blocks for, and is the iterator of `async for`.

    A sample is taken in the last step of a coroutine, never before: what is cancelled took none.

    Args:
        subscriber: to be received from in no other way while anybody is in `wait_for_publishers`.
        timeout: as a subscriber's.
        spin: seconds to look before the task waits; the loop stands still for that time.
        end_of_stream: iteration ends with the stream, and not with the timeout.
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
        self._in_a_row = 0
        # Weak: the tasks of a loop that was closed over them are to go.
        self._joining: set[ref[Wait]] = set()

    async def receive(self, timeout: float | None = None) -> Sample[T]:
        timeout = await self._begun(timeout)
        sample = self._spun(timeout) if self._spin > 0 else self.try_receive()
        if sample is not None:
            return sample
        with self._wait(timeout) as wait:
            await wait.woken()
            while not wait.over:
                sample = self.try_receive()
                if sample is not None:
                    return sample
                await wait.woken()
        return self._last_look()

    async def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]:
        timeout = await self._begun(timeout)
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
            self._pass_on()

    def _wait(self, timeout: float | None) -> Wait:
        self._in_a_row = 0
        return Wait(self._descriptor, timeout, self._subscriber)

    # Whoever finds something every time gives the other tasks a turn now and then.
    async def _begun(self, timeout: float | None) -> float | None:
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        return seconds("timeout", self._timeout if timeout is None else timeout)

    def try_receive_many(self, max_count: int) -> list[Sample[T]]:
        samples = self._subscriber.try_receive_many(max_count)
        if not samples:
            self._pass_on()
        return samples

    def try_receive(self) -> Sample[T] | None:
        sample = self._subscriber.try_receive()
        if sample is None:
            self._pass_on()
        return sample

    async def wait_for_publishers(self, count: int, timeout: float | None) -> bool:
        with Wait(self._descriptor, seconds("timeout", timeout), self._subscriber) as wait:
            joining = ref(wait, self._joining.discard)
            self._joining.add(joining)
            try:
                while not self._subscriber.wait_for_publishers(count, 0):
                    if wait.over:
                        return False
                    await wait.woken()
                return True
            finally:
                self._joining.discard(joining)

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

    def _spun(self, timeout: float | None) -> Sample[T] | None:
        try:
            return self._subscriber.receive(
                self._spin if timeout is None else min(self._spin, timeout)
            )
        except Timeout:
            return None
        finally:
            self._pass_on()

    # Raises the Timeout in the subscriber's words.
    def _last_look(self) -> Sample[T]:
        try:
            return self._subscriber.receive(0)
        finally:
            self._pass_on()

    # Who finds nothing has cleared the descriptor, which may have told of a publisher.
    def _pass_on(self) -> None:
        if not self._joining:
            return
        for joining in list(self._joining):  # a copy at one moment, also without a GIL
            wait = joining()
            if wait is not None:
                wait.wake_soon()
