"""A node's subscribers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Generic

from tensorbus._aio.callbacks import RAISED, Callback, Mode, is_cancelled, outcome_of
from tensorbus._aio.failures import Failures
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Error, Timeout, TypeMismatch
from tensorbus._base.generics import T
from tensorbus._base.public import public
from tensorbus._base.stats import SubscriberStats
from tensorbus._topics.liveliness import Event
from tensorbus._topics.parents import Parents
from tensorbus._topics.sample import Sample
from tensorbus._topics.subscriber import Subscriber

# Seconds of callbacks in a row after which the task yields to other tasks of the loop.
TURN = 0.001
# Seconds until the next attempt after an error of receiving.
RETRY_INTERVAL = 0.01


class Happened(Exception):
    """An event of a subscriber, raised out of a receive: its callback may have to be awaited."""

    def __init__(self, event: Event) -> None:
        super().__init__(event)
        self.event = event


def raise_event(event: Event) -> None:
    """The callback of a node's subscriber."""
    raise Happened(event)


def _end_of(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(end: float | None) -> float | None:
    return None if end is None else max(end - time.monotonic(), 0.0)


@public
class Subscription(Closing, Generic[T]):
    """A node's subscriber, with a callback or for `receive`. Made by `Node.create_subscriber`.

    If a slow callback makes the queue full, the oldest samples are dropped, and counted in
    `dropped_count`.
    """

    _in_a_child = "make the node in the child"

    parallel = 1

    def __init__(
        self,
        subscriber: Subscriber[T],
        callback: Callback | None,
        *,
        mode: Mode,
        failures: Failures,
        topic_timeout: float | None,
        strict: bool = False,
        on_event: dict[type[Event], Callback] | None = None,
    ) -> None:
        """`on_event`: the callbacks for the events that the subscriber raises as `Happened`."""
        self.mode = mode
        self.callback = callback
        self.topic: str = subscriber.topic
        self.label: str = f"topic {self.topic!r}"
        self.receive_count: int = 0
        self.last_receive_time: float | None = None  # from time.time()
        self.running: bool = False
        self._subscriber = subscriber
        self._receiver = subscriber._async_receiver(None) if mode == "async" else None
        self._on_event = on_event or {}
        self._failures = failures
        self._topic_timeout = topic_timeout
        self._strict = strict
        self._stuck: type[Error] | None = None  # reported since the last sample
        self._last_stats: SubscriberStats | None = None

    async def receive(self, timeout: float | None = None) -> Sample[T]:
        """The next sample, see `AsyncSubscriber.receive`. For subscribers without a callback.

        Raises:
            Timeout, TypeMismatch, Closed, HoldLimit: see `Subscriber.receive`.
            RuntimeError: the subscriber has `mode="sync"`.
        """
        if self._receiver is None:
            raise RuntimeError(f"the subscriber of {self.topic!r} has mode='sync'")
        sample = await self._receive(timeout)
        self._count()
        return sample

    async def __aiter__(self) -> AsyncIterator[Sample[T]]:
        """Yields samples until the subscriber is closed."""
        while True:
            try:
                yield await self.receive()
            except Closed:
                return

    @property
    def dropped_count(self) -> int:
        """How many samples were missed, usually because the queue was full."""
        return self.stats.missed

    @property
    def deadlines_missed(self) -> int:
        """How many deadlines were missed, see `Subscriber.deadlines_missed`."""
        return self._subscriber.deadlines_missed

    @property
    def is_connected(self) -> bool:
        """True while there is a publisher."""
        return bool(self.stats.publishers)

    @property
    def stats(self) -> SubscriberStats:
        """See `Subscriber.stats`; after `close`, the last counters."""
        return self._subscriber.stats if self._last_stats is None else self._last_stats

    def close(self) -> None:
        """Closes the subscriber, which ends waiting calls. A second call does nothing.

        Any thread may call it.
        """
        if self._last_stats is None:
            self._last_stats = replace(self._subscriber.stats, publishers=0)
        self._subscriber.close()

    async def finish(self) -> None:
        pass  # callbacks leave nothing unfinished

    async def work(self, stop: threading.Event) -> None:
        """Calls the callback with samples in the event loop, until `stop` or `close`."""
        if self.callback is None:
            return
        self.running = True
        try:
            await self._deliver(self.callback, stop)
        finally:
            self.running = False

    def work_sync(self, stop: threading.Event) -> None:
        """Calls the callback with samples in this thread, until `stop` or `close`."""
        assert self.callback is not None
        self.running = True
        try:
            self._deliver_sync(self.callback, stop)
        finally:
            self.running = False

    async def _deliver(self, callback: Callback, stop: threading.Event) -> None:
        busy = 0.0
        while not stop.is_set():
            try:
                sample = await self._receive(self._topic_timeout)
            except Closed:
                self.close()  # also at the end of a stream: no publisher must wait for it
                return
            except Error as error:
                await asyncio.sleep(self._reported(error))
                continue
            self._count()
            begin = time.perf_counter()
            await self._call(callback, sample)
            del sample  # holds no sample while it waits for the next one
            busy += time.perf_counter() - begin
            if busy > TURN:
                busy = 0.0
                await asyncio.sleep(0)

    async def _receive(self, timeout: float | None) -> Sample[T]:
        """The next sample; calls the callbacks for events that happen meanwhile."""
        assert self._receiver is not None
        end = _end_of(timeout)
        while True:
            try:
                return await self._receiver.receive(_left(end))
            except Happened as happened:
                event = happened.event
            await self._report_event(event)  # not in the context of the exception

    def _receive_sync(self, timeout: float | None) -> Sample[T]:
        end = _end_of(timeout)
        while True:
            try:
                return self._subscriber.receive(_left(end))
            except Happened as happened:
                event = happened.event
            try:
                self._on_event[type(event)](event)
            except RAISED as error:
                self._failures.report(error, self.label)

    async def _report_event(self, event: Event) -> None:
        try:
            await outcome_of(self._on_event[type(event)](event))
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            self._failures.report(error, self.label)
        except Exception as error:
            self._failures.report(error, self.label)

    async def _call(self, callback: Callback, sample: Sample[T]) -> None:
        try:
            if sample._core.traced:
                with Parents((sample,)):
                    await outcome_of(callback(sample.data, sample.header))
                return
            result = callback(sample.data, sample.header)
            if result is not None:
                await outcome_of(result)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            self._failures.report(error, self.label, sample.header.sequence)
        except Exception as error:
            self._failures.report(error, self.label, sample.header.sequence)

    def _deliver_sync(self, callback: Callback, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                sample = self._receive_sync(self._topic_timeout)
            except Closed:
                self.close()  # also at the end of a stream: no publisher must wait for it
                return
            except Error as error:
                stop.wait(self._reported(error))
                continue
            self._count()
            try:
                if sample._core.traced:
                    with Parents((sample,)):
                        callback(sample.data, sample.header)
                else:
                    callback(sample.data, sample.header)
            except RAISED as error:
                self._failures.report(error, self.label, sample.header.sequence)
            del sample

    def _count(self) -> None:
        self.receive_count += 1
        self.last_receive_time = time.time()
        self._stuck = None
        self._topic_timeout = None

    def _reported(self, error: Error) -> float:
        """Reports why no sample arrives, once for each kind. Returns seconds until the next try."""
        if isinstance(error, Timeout):
            self._topic_timeout, waited = None, self._topic_timeout
            if waited is not None and not self.is_connected:
                silence = Timeout(f"topic {self.topic!r} had no publisher in {waited} s")
                self._failures.report(silence, self.label)
            return 0
        if isinstance(error, TypeMismatch) and self._strict:
            self._failures.end_with(error)
        elif isinstance(error, TypeMismatch) or self._stuck is not type(error):
            self._stuck = type(error)
            self._failures.report(error, self.label)
        return RETRY_INTERVAL

    def __repr__(self) -> str:
        return (
            f"<tensorbus.Subscription {self.topic!r} received={self.receive_count} "
            f"dropped={self.dropped_count}>"
        )
