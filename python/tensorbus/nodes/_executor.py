"""Executors call a function repeatedly: at a rate, or as fast as possible."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from numbers import Real

from tensorbus._aio.callbacks import (
    RAISED,
    Callback,
    called,
    checked_callback,
    is_cancelled,
    outcome_of,
)
from tensorbus._aio.failures import log
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._base.stop_event import StopEvent
from tensorbus.nodes._grid import Grid

OnException = Callable[[BaseException], None]

# Seconds. uvloop rounds to whole milliseconds, so that less than half a millisecond is no wait.
_MIN_SLEEP = 0.0006


def period_of(rate_hz: float) -> float:
    """Seconds from one call to the next.

    >>> period_of(50)
    0.02
    """
    return 1 / positive("rate_hz", rate_hz)


def positive(name: str, value: float) -> float:
    """Checks that a number, in seconds or hertz, is finite and above 0."""
    if not isinstance(value, Real) or not 0 < value < math.inf:
        raise InvalidArgument(f"{name}={value!r}: expected a number above 0")
    return float(value)


@public
class AsyncExecutor:
    """Calls a function, plain or `async def`, repeatedly in an event loop until `stop`.

    Other tasks of the loop run after each call.

    Args:
        callback: a function without arguments.
        on_error: called with each exception; by default it is logged. The calls continue.

    Raises:
        TypeError: the callback is not callable.

    >>> calls = []
    >>> def work():
    ...     calls.append(1)
    ...     if len(calls) == 3:
    ...         executor.stop()
    >>> executor = AsyncExecutor(work)
    >>> asyncio.run(executor.run())
    >>> len(calls)
    3
    """

    def __init__(self, callback: Callback, *, on_error: OnException | None = None) -> None:
        self._callback = checked_callback(callback, "async")
        self._on_error = on_error or _logged(callback)
        self._stopped = False
        self._wait: asyncio.Future[None] | None = None
        self.ticks: int = 0  # calls so far

    async def run(self) -> None:
        """Calls the function until `stop`, or until the task is cancelled."""
        while not self._stopped:
            await self._tick()
            await asyncio.sleep(0)

    def stop(self) -> None:
        """Ends `run` after the current call. It cannot run again. Only for the loop's thread."""
        self._stopped = True
        if self._wait is not None and not self._wait.done():
            self._wait.set_result(None)

    async def _tick(self) -> None:
        self.ticks += 1
        try:
            await outcome_of(self._callback())
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            self._on_error(error)
        except Exception as error:
            self._on_error(error)


@public
class RateExecutor(AsyncExecutor):
    """Calls a function, plain or `async def`, at a rate in an event loop.

    The calls are on a fixed grid of the monotonic clock, which does not depend on their duration. A
    call that is due before the previous call has ended is late, or is left out with `skip=True`;
    `overruns` counts both. The first call is made one period after `run` begins.

    Args:
        rate_hz: calls per second.
        callback: a function without arguments.
        skip: leave out calls that are late.
        at_once: make the first call when `run` begins.
        on_error: called with each exception; by default it is logged. The calls continue.

    Raises:
        InvalidArgument: `rate_hz` is not a number above 0.
        TypeError: the callback is not callable.
    """

    def __init__(
        self,
        rate_hz: float,
        callback: Callback,
        *,
        skip: bool = False,
        at_once: bool = False,
        on_error: OnException | None = None,
    ) -> None:
        super().__init__(callback, on_error=on_error)
        self._period = period_of(rate_hz)
        self._skip = skip
        self._at_once = at_once
        self._grid: Grid | None = None

    @property
    def overruns(self) -> int:
        """Calls in this run that were due before the previous call had ended."""
        return 0 if self._grid is None else self._grid.overruns

    async def run(self) -> None:
        """Calls the function until `stop`, or until the task is cancelled."""
        grid = self._grid = Grid(
            self._period, time.monotonic(), skip=self._skip, at_once=self._at_once
        )
        while not self._stopped:
            await self._until(grid)
            if self._stopped:
                return
            await self._tick()
            if grid.advance(time.monotonic()):
                await asyncio.sleep(0)  # the next call is late, but other tasks get a turn

    async def _until(self, grid: Grid) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped and (left := grid.due - time.monotonic()) > 0:
            self._wait = wait = loop.create_future()
            handle = loop.call_later(max(left, _MIN_SLEEP), _done, wait)
            try:
                await wait
            finally:
                handle.cancel()


@public
class SyncRateExecutor:
    """A `RateExecutor` without an event loop: `run` blocks its thread and needs a plain function.

    Args:
        rate_hz, skip, at_once, on_error: see `RateExecutor`.
        callback: a plain function without arguments.
        stop_event: an event that ends `run`, as `stop` does.

    Raises:
        InvalidArgument: `rate_hz` is not a number above 0.
        TypeError: the callback is not callable, or is a coroutine function.

    >>> def work():
    ...     if executor.ticks == 3:
    ...         executor.stop()
    >>> executor = SyncRateExecutor(1000, work)
    >>> executor.run()
    >>> executor.ticks
    3
    """

    def __init__(
        self,
        rate_hz: float,
        callback: Callback,
        *,
        skip: bool = False,
        at_once: bool = False,
        on_error: OnException | None = None,
        stop_event: threading.Event | None = None,
    ) -> None:
        self._callback = checked_callback(callback, "sync")
        self._on_error = on_error or _logged(callback)
        self._period = period_of(rate_hz)
        self._skip = skip
        self._at_once = at_once
        self._stop = stop_event or StopEvent()
        self._grid: Grid | None = None
        self.ticks: int = 0  # calls so far

    @property
    def overruns(self) -> int:
        """Calls in this run that were due before the previous call had ended."""
        return 0 if self._grid is None else self._grid.overruns

    def run(self, timeout: float | None = None) -> None:
        """Calls the function until `stop`, or for `timeout` seconds."""
        start = time.monotonic()
        end = math.inf if timeout is None else start + timeout
        grid = self._grid = Grid(self._period, start, skip=self._skip, at_once=self._at_once)
        while grid.due <= end:
            if self._stop.wait(max(grid.due - time.monotonic(), 0)):
                return
            self._tick()
            grid.advance(time.monotonic())
        self._stop.wait(max(end - time.monotonic(), 0))

    def stop(self) -> None:
        """Ends `run` after the current call; `run` cannot start again. Any thread may call it."""
        self._stop.set()

    def _tick(self) -> None:
        self.ticks += 1
        try:
            self._callback()
        except RAISED as error:
            self._on_error(error)


def _done(wait: asyncio.Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)


def _logged(callback: Callback) -> OnException:
    def report(error: BaseException) -> None:
        log.error("%s raised %s", called(callback), type(error).__name__, exc_info=error)

    return report
