"""Whether the publishers of a subscriber still live, and publish in time."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorbus import _core
from tensorbus._base.arguments import positive_limit, positive_seconds
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._core import Outcome

R = TypeVar("R")

# Minimum of seconds for the first sample by default: publishers may load a model before they begin.
FIRST_SAMPLE_TIME = 5.0


@public
@dataclass(frozen=True)
class PublisherLost:
    """A publisher that was connected has ended, and all its samples were received.

    >>> from tensorbus import Publisher, Subscriber
    >>> with Subscriber("doc/lost", timeout=0.1, on_publisher_lost=print) as subscriber:
    ...     with Publisher("doc/lost") as publisher:
    ...         subscriber.wait_for_publishers(timeout=10)
    ...     list(subscriber)  # doctest: +ELLIPSIS
    True
    PublisherLost(topic='doc/lost', publisher='...', pid=..., closed=True)
    []
    """

    topic: str
    """The name of the topic."""
    publisher: str
    """Its name, as in `SubscriberReport.publishers`."""
    pid: int
    """Its process. For a publisher of another machine, the bridge's process."""
    closed: bool
    """It was closed in order. False: its process died, or the connection to it was lost."""


@public
@dataclass(frozen=True)
class DeadlineMissed:
    """No sample arrived within `expect_every` seconds, or no first one within `expect_first`.

    >>> from tensorbus import Publisher, Subscriber
    >>> late = []
    >>> with Publisher("doc/late", history=1) as publisher:
    ...     publisher.publish(7)
    ...     with Subscriber(
    ...         "doc/late", timeout=0.2, expect_every=0.05, on_deadline_missed=late.append
    ...     ) as subscriber:
    ...         [sample.data for sample in subscriber]
    0
    [7]
    >>> late[0].topic, late[0].silence >= 0.05
    ('doc/late', True)
    """

    topic: str
    """The name of the topic."""
    missed: int
    """The number of deadlines missed since the subscriber was made."""
    silence: float
    """Seconds since the last sample arrived, or since the subscriber was made."""
    first: bool = False
    """No sample has ever arrived: the deadline was that of `expect_first`."""


Event = PublisherLost | DeadlineMissed
OnPublisherLost = Callable[[PublisherLost], Any]
OnDeadlineMissed = Callable[[DeadlineMissed], Any]


class Liveliness:
    """Calls the callbacks of one subscriber, in the thread that receives.

    A deadline begins when the subscriber is made and when a sample is received, and again each time
    that it is missed. Several threads may receive.

    Args:
        core: the core's subscriber.
        topic: its topic.
        expect_every, expect_first: see `Subscriber`.

    Raises:
        InvalidArgument: one of these is not positive, or both are missing.
    """

    def __init__(
        self,
        core: _core.Subscriber,
        topic: str,
        expect_every: float | None,
        expect_first: float | None,
        on_deadline_missed: OnDeadlineMissed | None,
        on_publisher_lost: OnPublisherLost | None,
    ) -> None:
        if on_deadline_missed is not None and expect_every is expect_first is None:
            raise InvalidArgument(
                "on_deadline_missed: needs expect_every or expect_first, the time of a deadline"
            )
        self._period = math.inf
        self._step = math.inf  # the time of the present deadline
        if expect_every is not None:
            self._period = positive_seconds("expect_every", expect_every)
            self._step = max(self._period, FIRST_SAMPLE_TIME)
        if expect_first is not None:
            self._step = positive_limit("expect_first", expect_first) or math.inf
        self.missed = 0
        self._core = core
        self._topic = topic
        self._on_deadline_missed = on_deadline_missed
        self._on_publisher_lost = on_publisher_lost
        self._lock = threading.Lock()  # for the times and the count
        self._lost: deque[PublisherLost] = deque()  # not reported yet
        self._is_first = True  # no sample has been received
        self._since = time.monotonic()  # when the last sample was received
        self._due = self._since + self._step  # when the next deadline is missed
        if on_publisher_lost is not None:
            core.watch_publisher_ends()

    def receive(self, take: Callable[[float | None], R], timeout: float | None) -> R | Outcome:
        """Calls `take` with parts of a timeout until it returns a sample, or ends.

        Args:
            take: a receive of the core, which returns an `Outcome` if there is no sample.
            timeout: seconds; `None` for no limit.

        Raises:
            Exception: a callback raised it; no sample was taken.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            self._report_lost()
            left = min(end, self._due) - time.monotonic()
            result = take(None if math.isinf(left) else max(left, 0.0))
            if result is Outcome.INTERRUPTED:
                self._collect_lost()
                continue
            if result is not Outcome.TIMED_OUT:
                if not isinstance(result, Outcome):
                    self._begin_deadline()
                return result
            self._report_missed()
            if time.monotonic() >= end:
                return result

    def seconds_left(self) -> float:
        """Seconds until the next deadline is missed; infinite if there is none."""
        return max(self._due - time.monotonic(), 0.0)

    def _begin_deadline(self) -> None:
        if self._is_first or not math.isinf(self._period):
            with self._lock:
                self._is_first = False
                self._step = self._period
                self._since = time.monotonic()
                self._due = self._since + self._step

    def _report_missed(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._due:
                return
            periods = int((now - self._due) / self._step) + 1  # the program may have been busy
            self.missed += periods
            self._due += periods * self._step
            event = DeadlineMissed(self._topic, self.missed, now - self._since, self._is_first)
        if self._on_deadline_missed is not None:
            self._on_deadline_missed(event)

    def _collect_lost(self) -> None:
        for publisher, pid, closed in self._core.take_publisher_ends():
            self._lost.append(PublisherLost(self._topic, publisher, pid, closed))

    def _report_lost(self) -> None:
        """Reports the ends of publishers, each once, even if a callback raises."""
        while self._lost:
            try:
                lost = self._lost.popleft()
            except IndexError:  # another thread reports it
                return
            assert self._on_publisher_lost is not None
            self._on_publisher_lost(lost)
