"""Timers that follow a clock topic, as of a player."""

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
from tensorbus.nodes._subscription import Subscription
from tensorbus.nodes._timer import Timer

if TYPE_CHECKING:
    from tensorbus._topics.sample import Header


class ClockGrid:
    """Which ticks are due at a time of the clock. It begins anew where the clock goes back.

    Args:
        period_ns: between two ticks.
        skip: of several that are due at once only the last one comes.
        at_once: the first tick is due at the first time, and not one period later.

    >>> grid = ClockGrid(10)
    >>> grid.tell(100), grid.is_due()
    (None, False)
    >>> grid.tell(125), grid.is_due(), grid.advance(), grid.is_due(), grid.advance()
    (None, True, None, True, None)
    >>> grid.is_due(), grid.overruns
    (False, 1)
    >>> grid.tell(40), grid.is_due(), grid.tell(50), grid.is_due()
    (None, False, None, True)
    """

    def __init__(self, period_ns: int, *, skip: bool = False, at_once: bool = False) -> None:
        self._period = period_ns
        self._skip = skip
        self._first = 0 if at_once else 1
        self._start: int | None = None
        self._number = 0
        self.now = 0
        self.overruns = 0  # ticks that were due when the one before them came

    def tell(self, time_ns: int) -> None:
        """What the clock says."""
        if self._start is None or time_ns < self.now:
            self.begin(time_ns)
        self.now = time_ns

    def begin(self, time_ns: int) -> None:
        """Counts from this time on, as of another clock."""
        self._start, self._number, self.now = time_ns, self._first, time_ns

    def is_due(self) -> bool:
        """Is there a tick whose time has come?"""
        return self._start is not None and self._due() <= self.now

    def advance(self) -> None:
        """The tick that is due comes now; the next one is looked at."""
        assert self._start is not None
        self._number += 1
        if not self.is_due():
            return
        if not self._skip:
            self.overruns += 1
            return
        reached = (self.now - self._start) // self._period
        self.overruns += reached + 1 - self._number
        self._number = reached + 1

    def _due(self) -> int:
        assert self._start is not None
        return self._start + self._number * self._period


@dataclass(frozen=True)
class Clock:
    """A topic that says what time it is, as a node hears it."""

    topic: str
    node: str
    domain: str | None

    def subscriber(self) -> Subscriber[Any]:
        """Of the newest message alone; nobody waits for it."""
        return Subscriber(self.topic, depth=1, reliable=False, node=self.node, domain=self.domain)


class ClockTimer(Timer):
    """A timer whose time is that of a topic: its ticks come with the messages there."""

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
        self._grid = ClockGrid(period_ns, skip=skip, at_once=at_once)
        self._publisher = ""  # of the clock
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
        """Ticks that were due when the one before them came: the clock has made a larger step."""
        return self._grid.overruns

    @property
    def time_ns(self) -> int:
        """What the clock has said last, in nanoseconds since 1970; 0: nothing yet."""
        return self._grid.now

    def cancel(self) -> None:
        """No more ticks. In the loop's thread, or, of a synchronous one, from any."""
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
        self._tell(message, header)
        assert isinstance(self._executor, RateExecutor)
        while self._is_due():
            await self._executor._tick()
            self._grid.advance()
            if self._is_due():  # a callback that awaits nothing leaves the loop to others
                await asyncio.sleep(0)

    def _on_time_sync(self, message: Any, header: Header) -> None:
        self._tell(message, header)
        assert isinstance(self._executor, SyncRateExecutor)
        while self._is_due():
            self._executor._tick()
            self._grid.advance()

    def _is_due(self) -> bool:
        return self._grid.is_due() and not (self._cancelled or self._stop.is_set())

    def _tell(self, message: Any, header: Header) -> None:
        time_ns = message.get("time_ns") if isinstance(message, dict) else None
        if not isinstance(time_ns, int):
            raise InvalidArgument(
                f"topic {header.topic!r} is no clock: expected {{'time_ns': int, ...}}, and got "
                f"{message!r:.80}"
            )
        if header.publisher != self._publisher:
            self._publisher = header.publisher
            self._grid.begin(time_ns)
        self._grid.tell(time_ns)


def new_timer(clock: Clock | None, period: float, callback: Callback, **options: Any) -> Timer:
    """By the clock, or, without one, by the monotonic clock of the machine."""
    if clock is None:
        return Timer(period, callback, **options)
    return ClockTimer(period, callback, clock, **options)
