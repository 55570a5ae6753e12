"""A node's timers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from tensorbus._aio.callbacks import Callback, Mode, called, outcome_of
from tensorbus._aio.failures import Failures
from tensorbus._base.public import public
from tensorbus._base.stop_event import StopEvent
from tensorbus.nodes._executor import RateExecutor, SyncRateExecutor, positive


@public
class Timer:
    """Calls a function every `period` seconds while its node runs. Made by `Node.create_timer`."""

    parallel = 1

    def __init__(
        self,
        period: float,
        callback: Callback,
        *,
        skip: bool,
        at_once: bool,
        mode: Mode,
        failures: Failures,
    ) -> None:
        self.period: float = positive("period", period)
        self.mode = mode
        self.label: str = f"timer {called(callback)}"
        self._failures = failures
        self._callback = callback
        self._stop: threading.Event = StopEvent()  # the node's event once the node runs
        kind, call = (
            (RateExecutor, self._call) if mode == "async" else (SyncRateExecutor, self._call_sync)
        )
        self._new_executor: Callable[..., RateExecutor | SyncRateExecutor] = partial(
            kind, 1 / period, call, skip=skip, at_once=at_once, on_error=self._failed
        )
        self._executor = self._new_executor()

    @property
    def ticks(self) -> int:
        """How often the callback was called."""
        return self._executor.ticks

    @property
    def overruns(self) -> int:
        """How many ticks were due before the previous tick had ended."""
        return self._executor.overruns

    @property
    def time_ns(self) -> int:
        """The time in nanoseconds since 1970: of the node's clock topic, or else the wall clock."""
        return time.time_ns()

    def cancel(self) -> None:
        """Ends the ticks. Call it in the loop's thread; with mode "sync", in any thread."""
        self._executor.stop()

    close = cancel

    async def finish(self) -> None:
        pass  # callbacks leave nothing unfinished

    async def work(self, stop: threading.Event) -> None:
        self._stop = stop
        assert isinstance(self._executor, RateExecutor)
        await self._executor.run()

    def work_sync(self, stop: threading.Event) -> None:
        self._stop = stop
        assert isinstance(self._executor, SyncRateExecutor)
        self._executor.run()

    async def _call(self) -> None:
        try:
            if not self._stop.is_set():
                await outcome_of(self._callback())
        finally:
            if self._stop.is_set():  # the callback may have swallowed its cancellation
                self._executor.stop()

    def _call_sync(self) -> None:
        if not self._stop.is_set():
            self._callback()

    def _failed(self, error: BaseException) -> None:
        self._failures.report(error, self.label)

    def __repr__(self) -> str:
        return f"<tensorbus.Timer period={self.period} ticks={self.ticks} overruns={self.overruns}>"
