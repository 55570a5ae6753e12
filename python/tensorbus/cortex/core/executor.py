"""Cortex's executors, over those of `tensorbus.nodes`."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from functools import partial, update_wrapper
from typing import Any

from tensorbus._aio.callbacks import Callback, checked_callback
from tensorbus._base.stop_event import StopEvent
from tensorbus.nodes import AsyncExecutor as OurAsyncExecutor
from tensorbus.nodes import RateExecutor as OurRateExecutor
from tensorbus.nodes import SyncRateExecutor as OurSyncRateExecutor
from tensorbus.nodes._executor import period_of

__all__ = ["AsyncExecutor", "BaseAsyncExecutor", "RateExecutor", "SyncRateExecutor"]


class BaseAsyncExecutor(ABC):
    """Calls `func` in an event loop until `stop`. It may run again after that.

    A subclass defines `_run_impl`, which makes calls while `running` is True.

    Args:
        func: `async def` or plain. Its exceptions are logged, and the calls continue.
    """

    def __init__(self, func: Callback) -> None:
        self.func = func
        self._running = False

    @property
    def running(self) -> bool:
        """True from `start` or `run` until `stop`."""
        return self._running

    def start(self) -> None:
        """Sets `running`, as `run` does."""
        self._running = True

    def stop(self) -> None:
        """Ends `run` after the current call. Call it in the loop's thread."""
        self._running = False

    async def run(self, *args: Any, **kwargs: Any) -> None:
        """Calls `func(*args, **kwargs)` until `stop`, or until the task is cancelled.

        If the task is cancelled, it returns normally, as in Cortex.
        """
        self.start()
        try:
            await self._run_impl(*args, **kwargs)
        except asyncio.CancelledError:
            pass
        finally:
            self.stop()

    @abstractmethod
    async def _run_impl(self, *args: Any, **kwargs: Any) -> None:
        """Makes the calls."""


class AsyncExecutor(BaseAsyncExecutor):
    """Calls `func` as fast as possible.

    >>> calls = []
    >>> async def work(item):
    ...     calls.append(item)
    ...     if len(calls) == 3:
    ...         executor.stop()
    >>> executor = AsyncExecutor(work)
    >>> asyncio.run(executor.run("item"))
    >>> calls
    ['item', 'item', 'item']
    """

    def __init__(self, func: Callback) -> None:
        super().__init__(func)
        self._runs: set[OurAsyncExecutor] = set()

    def stop(self) -> None:
        """Ends every `run` after the current call. Call it in the loop's thread."""
        super().stop()
        for run in list(self._runs):
            run.stop()

    async def _run_impl(self, *args: Any, **kwargs: Any) -> None:
        run = self._new_executor(_with_arguments(self.func, args, kwargs))
        self._runs.add(run)
        try:
            await run.run()
        finally:
            self._runs.discard(run)

    def _new_executor(self, call: Callback) -> OurAsyncExecutor:
        return OurAsyncExecutor(call)


class RateExecutor(AsyncExecutor):
    """Calls `func` at once, then `rate_hz` times per second on a fixed grid.

    A call that is due before the previous call has ended is late; no call is left out.

    Args:
        func: `async def` or plain.
        rate_hz: calls per second.

    Raises:
        ValueError: `rate_hz` is not a number above 0.
    """

    def __init__(self, func: Callback, rate_hz: float) -> None:
        super().__init__(func)
        self.interval: float = period_of(rate_hz)

    def _new_executor(self, call: Callback) -> OurAsyncExecutor:
        return OurRateExecutor(1 / self.interval, call, at_once=True)


class SyncRateExecutor:
    """A `RateExecutor` without an event loop: `run` blocks its thread and needs a plain function.

    Args:
        func: a plain function.
        rate_hz: calls per second.

    Raises:
        TypeError: `func` is a coroutine function.
        ValueError: `rate_hz` is not a number above 0.

    >>> calls = []
    >>> def work(item):
    ...     calls.append(item)
    ...     executor.stop()
    >>> executor = SyncRateExecutor(work, rate_hz=1000)
    >>> for item in (1, 2):
    ...     executor.run(item)
    >>> calls, executor.running
    ([1, 2], False)
    """

    def __init__(self, func: Callback, rate_hz: float) -> None:
        self.func: Callback = checked_callback(func, "sync")
        self.interval: float = period_of(rate_hz)
        self._stop = StopEvent()  # shared by all runs since `start`; if set, they are stopped
        self._stop.set()
        self._starting = threading.Lock()

    @property
    def running(self) -> bool:
        """True from `start` or `run` until `stop`."""
        return not self._stop.is_set()

    def start(self) -> None:
        """Sets `running`, as `run` does."""
        with self._starting:
            if self._stop.is_set():
                self._stop = StopEvent()

    def stop(self) -> None:
        """Ends every `run` after the current call. Call it from any thread."""
        self._stop.set()

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Calls `func(*args, **kwargs)` until `stop`."""
        self.start()
        stop = self._stop
        call = _with_arguments(self.func, args, kwargs)
        try:
            OurSyncRateExecutor(1 / self.interval, call, at_once=True, stop_event=stop).run()
        finally:
            stop.set()


def _with_arguments(func: Callback, args: Any, kwargs: Any) -> Callback:
    """`func` with bound arguments, and with its own name for the log."""
    return update_wrapper(partial(func, *args, **kwargs), func)
