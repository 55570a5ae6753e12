"""Timers that follow a clock topic, for example the clock of a `Player`."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorbus._aio.callbacks import Callback, Mode
from tensorbus._aio.failures import Failures
from tensorbus._base.errors import InvalidArgument
from tensorbus._topics.subscriber import Subscriber
from tensorbus.nodes._executor import RateExecutor, SyncRateExecutor
from tensorbus.nodes._grid import Grid
from tensorbus.nodes._subscription import Subscription
from tensorbus.nodes._timer import Timer

if TYPE_CHECKING:
    from tensorbus._topics.sample import Header


@dataclass(frozen=True)
class Clock:
    """A topic whose messages carry the time, and the node that subscribes to it."""

    topic: str
    node: str
    domain: str | None

    def subscriber(self) -> Subscriber[Any]:
        """A subscriber with only the newest message. No publisher waits for it: not `reliable`."""
        return Subscriber(self.topic, depth=1, reliable=False, node=self.node, domain=self.domain)


class ClockTimer(Timer):
    """A timer whose time comes from a topic: each message may cause ticks.

    The grid of ticks begins again when the clock goes back, or when another publisher publishes it.
    """

    def __init__(
        self,
        period: float,
        callback: Callback,
        clock: Clock,
        *,
        skip: bool,
        at_once: bool,
        mode: Mode,
        failures: Failures,
    ) -> None:
        super().__init__(period, callback, skip=skip, at_once=at_once, mode=mode, failures=failures)
        period_ns = max(round(self.period * 1e9), 1)
        self._grid = Grid(period_ns, 0, skip=skip, at_once=at_once)
        self._now = 0  # nanoseconds since 1970 in the clock's last message; 0: no message yet
        self._publisher: str | None = None  # of the clock's last message
        self._cancelled = False
        self._clock: Subscription[Any] = Subscription(
            clock.subscriber(),
            self._on_time if mode == "async" else self._on_time_sync,
            mode=mode,
            failures=failures,
            topic_timeout=None,
            strict=False,
        )

    @property
    def overruns(self) -> int:
        """Ticks that were already due at the tick before them: the clock made a larger step."""
        return self._grid.overruns

    @property
    def time_ns(self) -> int:
        """The time in the clock's last message, in nanoseconds since 1970; 0: no message yet."""
        return self._now

    def cancel(self) -> None:
        """Ends the ticks. Call it in the loop's thread; with mode "sync", in any thread."""
        self._cancelled = True
        self._clock.close()

    close = cancel

    async def work(self, stop: threading.Event) -> None:
        self._stop = stop
        await self._clock.work(stop)

    def work_sync(self, stop: threading.Event) -> None:
        self._stop = stop
        self._clock.work_sync(stop)

    async def _on_time(self, message: Any, header: Header) -> None:
        self._set_time(message, header)
        assert isinstance(self._executor, RateExecutor)
        while self._is_due():
            await self._executor._tick()
            self._grid.advance(self._now)
            if self._is_due():  # the callback may await nothing: other tasks get a turn here
                await asyncio.sleep(0)

    def _on_time_sync(self, message: Any, header: Header) -> None:
        self._set_time(message, header)
        assert isinstance(self._executor, SyncRateExecutor)
        while self._is_due():
            self._executor._tick()
            self._grid.advance(self._now)

    def _is_due(self) -> bool:
        return self._grid.due <= self._now and not (self._cancelled or self._stop.is_set())

    def _set_time(self, message: Any, header: Header) -> None:
        time_ns = message.get("time_ns") if isinstance(message, dict) else None
        if not isinstance(time_ns, int):
            raise InvalidArgument(
                f"topic {header.topic!r} is not a clock: expected {{'time_ns': int, ...}}, got "
                f"{message!r:.80}"
            )
        if header.publisher != self._publisher or time_ns < self._now:
            self._publisher = header.publisher
            self._grid.restart(time_ns)
        self._now = time_ns


def new_timer(clock: Clock | None, period: float, callback: Callback, **options: Any) -> Timer:
    """A timer that follows the clock topic, or the machine's monotonic clock without one."""
    if clock is None:
        return Timer(period, callback, **options)
    return ClockTimer(period, callback, clock, **options)
