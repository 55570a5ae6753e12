"""A node's callbacks for the samples of several topics."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from tensorbus._aio.callbacks import RAISED, Callback, Mode, is_cancelled, outcome_of
from tensorbus._aio.failures import Failures
from tensorbus._base.errors import Closed, Error, MessageError, TypeMismatch
from tensorbus._topics.parents import Parents
from tensorbus._topics.time_synchronizer import Samples, TimeSynchronizer
from tensorbus.nodes._subscription import RETRY_INTERVAL, TURN

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass

Topics = Mapping[str, "MessageClass[Any] | None"] | Iterable[str]


def types_by_topic(topics: Topics) -> dict[str, MessageClass[Any] | None]:
    """The topics of a synchronizer with their message types.

    Raises:
        TypeError: it is a single topic.
    """
    if isinstance(topics, str):
        raise TypeError(f"topics={topics!r}: expected several, as a list or a dict with types")
    return dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics)


class SynchronizedCallback:
    """Calls a callback with the sets of a synchronizer: a piece of a node's work."""

    parallel = 1

    def __init__(
        self, synchronizer: TimeSynchronizer, callback: Callback, mode: Mode, failures: Failures
    ) -> None:
        self.mode = mode
        self.label = f"topics {', '.join(map(repr, synchronizer.topics))}"
        self._synchronizer = synchronizer
        self._callback = callback
        self._failures = failures
        self._stuck: type[Error] | None = None  # reported since the last set

    async def work(self, stop: threading.Event) -> None:
        busy = 0.0
        while not stop.is_set():
            try:
                samples = await self._synchronizer.receive_async()
            except Closed:
                self.close()  # also at the end of a stream: no publisher must wait for it
                return
            except Exception as error:
                await asyncio.sleep(self._reported(error))
                continue
            self._stuck = None
            begin = time.perf_counter()
            try:
                with _parents(samples):
                    await outcome_of(self._callback(*samples))
            except asyncio.CancelledError as error:
                if is_cancelled():
                    raise
                self._failures.report(error, self.label)
            except Exception as error:
                self._failures.report(error, self.label)
            del samples  # holds no sample while it waits for the next ones
            busy += time.perf_counter() - begin
            if busy > TURN:
                busy = 0.0
                await asyncio.sleep(0)

    def work_sync(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                samples = self._synchronizer.receive()
            except Closed:
                self.close()
                return
            except Exception as error:
                stop.wait(self._reported(error))
                continue
            self._stuck = None
            try:
                with _parents(samples):
                    self._callback(*samples)
            except RAISED as error:
                self._failures.report(error, self.label)
            del samples

    async def finish(self) -> None:
        pass  # callbacks leave nothing unfinished

    def close(self) -> None:
        self._synchronizer.close()

    def _reported(self, error: Exception) -> float:
        """Reports why there is no set. Returns seconds until the next try.

        An error that stays, such as `HoldLimit`, is reported once. The others are reported each
        time: a sample without a valid time is dropped, and a publisher is refused once.
        """
        if not isinstance(error, Error) or isinstance(error, MessageError | TypeMismatch):
            self._failures.report(error, self.label)
            return 0
        if self._stuck is not type(error):
            self._stuck = type(error)
            self._failures.report(error, self.label)
        return RETRY_INTERVAL


def _parents(samples: Samples) -> AbstractContextManager[None]:
    return Parents(samples) if any(each._core.traced for each in samples) else nullcontext()
