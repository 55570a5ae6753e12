"""Samples of several topics, combined by their times."""

from __future__ import annotations

import math
import select
from collections.abc import AsyncIterator, Iterable, Iterator
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any

from tensorbus._base.arguments import MAX_DEPTH, seconds, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._base.public import public
from tensorbus._topics.sample import Sample
from tensorbus._topics.sample_time import TimeOf, time_reader
from tensorbus._topics.subscriber import Subscriber
from tensorbus._topics.time_matcher import TimeMatcher

if TYPE_CHECKING:
    from tensorbus._base.stats import TimeSynchronizerStats

Samples = tuple[Sample[Any], ...]

# Seconds of one poll: signals that do not interrupt it are handled after this time.
_SIGNAL_SLICE = 0.1
# Sets in a row that an event loop's task may get without a wait; then other tasks get a turn.
_MAX_READY_IN_A_ROW = 64
# Samples that are taken without a look at the deadline.
_MAX_TAKEN = 64


@public
class TimeSynchronizer(Closing):
    """Combines samples of several topics: one of each, whose times differ by at most `tolerance`.

    A set is returned as soon as each topic has a sample for it. Each sample is in one set at most,
    and the times of a topic never go back from one set to the next. Samples without partners are
    dropped and counted in `stats`. docs/topics.md explains which samples are combined.

    Any thread may use it, and each set goes to one of them. Receive from the subscribers only
    through this object; it closes them.

    Args:
        subscribers: one `Subscriber` for each topic, at least two.
        tolerance: the maximum difference between two times of a set, in seconds. 0: equal times.
        queue_size: how many samples of each topic wait for partners; a further sample replaces the
            oldest. They count as held: `max_held` of each subscriber must be larger.
        time: the time of a sample. `None`: when it was published (`header.timestamp_ns`). A str:
            this field of the message, or key of a dict. Or a function of the sample. Whole numbers
            are nanoseconds, floats are seconds.
        timeout: seconds that `receive` and iteration wait; `None` for no limit.

    Raises:
        TypeError: a subscriber was passed instead of a list, or a timeout is not a number.
        InvalidArgument: there are less than two subscribers, one is passed twice or is not a
            `Subscriber`, its `max_held` is too small, or an option is out of range.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/left", history=8) as left, Publisher("doc/right", history=8) as right:
    ...     for number in range(3):
    ...         _ = left.publish({"stamp": number * 0.1})
    ...         _ = right.publish({"stamp": number * 0.1 + 0.002})
    ...     subscribers = [Subscriber("doc/left"), Subscriber("doc/right")]
    ...     with TimeSynchronizer(subscribers, tolerance=0.01, time="stamp") as pairs:
    ...         for _ in range(3):
    ...             left_sample, right_sample = pairs.receive(timeout=10)
    ...             print(left_sample.data["stamp"], right_sample.data["stamp"])
    0.0 0.002
    0.1 0.10200000000000001
    0.2 0.202
    """

    _in_a_child = "open the topics in the child"

    def __init__(
        self,
        subscribers: Iterable[Subscriber[Any]],
        *,
        tolerance: float,
        queue_size: int = 8,
        time: TimeOf = None,
        timeout: float | None = None,
    ) -> None:
        self._tolerance = _checked_tolerance(tolerance)
        self._queue_size = whole_number("queue_size", queue_size, low=1, high=MAX_DEPTH)
        self._subscribers = _checked_subscribers(subscribers, self._queue_size)
        self._time_of = time_reader(time)
        self._timeout = seconds("timeout", timeout)
        count = len(self._subscribers)
        self._matcher: TimeMatcher[Sample[Any]] = TimeMatcher(
            count, round(self._tolerance * 1e9), self._queue_size
        )
        self._received = [0] * count
        self._invalid = [0] * count
        self._end_of_stream = any(each._end_of_stream for each in self._subscribers)
        self._closed = False
        self._ready_in_a_row = 0
        self._lock = RLock()  # reentrant: a signal handler may close this object
        self._ended: dict[int, str] = {}  # streams that have ended, closed subscribers; why
        self._watched: set[int] = set()
        self._epoll = select.epoll()
        for index in range(count):
            self._watch(index, True)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics, in the order of the subscribers."""
        return tuple(each.topic for each in self._subscribers)

    def receive(self, timeout: float | None = None) -> Samples:
        """The next set, a sample of each subscriber in their order; waits up to `timeout` seconds.

        Raises:
            Timeout: no set was complete in time; the text names the topics without samples.
            Closed: it is closed; or no further set can be complete, because a subscriber is closed
                or, with `end_of_stream`, has reached the end of its stream.
            MessageError: a sample's time is missing, or is not a number. The sample is dropped.
            TypeMismatch, HoldLimit, OutOfMemory: see `Subscriber.receive`.
        """
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        deadline = None if limit is None else monotonic() + limit
        while True:
            found, more = self._next()
            if found is not None:
                return found
            left = _SIGNAL_SLICE if deadline is None else deadline - monotonic()
            if left <= 0:
                raise self._timed_out()
            if not more:
                self._epoll.poll(min(left, _SIGNAL_SLICE), 1)

    def try_receive(self) -> Samples | None:
        """The next set if it is complete. Raises like `receive`, but not `Timeout`."""
        more = True
        while more:
            found, more = self._next()
            if found is not None:
                return found
        return None

    async def receive_async(self, timeout: float | None = None) -> Samples:
        """`receive` for an event loop. A cancelled call has taken no set."""
        # Imported here: asyncio takes longer to import than all of Tensorbus.
        import asyncio

        from tensorbus._aio.loop_poller import Wait

        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        self._ready_in_a_row += 1
        if self._ready_in_a_row >= _MAX_READY_IN_A_ROW:
            self._ready_in_a_row = 0
            await asyncio.sleep(0)
        found, more = self._next()
        if found is not None:
            return found
        self._ready_in_a_row = 0
        with Wait(self._epoll.fileno(), limit, self) as wait:
            while True:
                await (asyncio.sleep(0) if more else wait.woken())
                found, more = self._next()
                if found is not None:
                    return found
                if wait.over:
                    raise self._timed_out()

    def __iter__(self) -> Iterator[Samples]:
        """The next sets. Iteration ends after the timeout, or when `receive` would raise `Closed`.

        If a subscriber has `end_of_stream`, a timeout raises `Timeout`.
        """
        while True:
            try:
                yield self.receive()
            except Closed:
                return
            except Timeout:
                if self._end_of_stream:
                    raise
                return

    async def __aiter__(self) -> AsyncIterator[Samples]:
        """Iterates with `async for`; see `__iter__`."""
        while True:
            try:
                yield await self.receive_async()
            except Closed:
                return
            except Timeout:
                if self._end_of_stream:
                    raise
                return

    def fileno(self) -> int:
        """A descriptor for `select` and event loops: readable when `try_receive` may find a set."""
        return self._epoll.fileno()

    @property
    def stats(self) -> TimeSynchronizerStats:
        """How many sets were complete, and which samples were dropped, since it was made."""
        from tensorbus._base.stats import TimeSynchronizerStats

        with self._lock:
            topics = self._matcher.topics
            return TimeSynchronizerStats(
                sets=self._matcher.sets,
                received=tuple(self._received),
                unmatched=tuple(each.unmatched for each in topics),
                overflowed=tuple(each.overflowed for each in topics),
                late=tuple(each.late for each in topics),
                invalid=tuple(self._invalid),
                waiting=tuple(len(each.waiting) for each in topics),
            )

    def close(self) -> None:
        """Closes the subscribers, ends waiting calls, and drops the samples that wait.

        Returned samples stay valid. Any thread may call it. A second call does nothing.
        """
        self._closed = True
        for each in self._subscribers:
            each.close()
        with self._lock:
            self._matcher.clear()

    def _next(self) -> tuple[Samples | None, bool]:
        """Takes samples until a set is complete, from the topic first whose times are most behind.

        Returns:
            The set, or None; and whether more samples may be there.
        """
        with self._lock:
            if self._closed:
                raise Closed("the synchronizer is closed")
            left = list(range(len(self._subscribers)))  # those that may have more
            for _ in range(_MAX_TAKEN):
                if not left:
                    break
                index = min(left, key=self._newest)
                sample = self._taken(index)
                if sample is None:
                    left.remove(index)
                    continue
                found = self._matcher.add(index, self._read_time(index, sample), sample)
                if found is not None:
                    return tuple(found), True
            else:
                return None, True
            for index, text in self._ended.items():
                if not self._matcher.topics[index].waiting:
                    raise Closed(text)
            for index in self._ended:  # before a wait, which their descriptors would end
                self._watch(index, False)
            return None, False

    def _newest(self, index: int) -> float:
        newest = self._matcher.topics[index].newest
        return -math.inf if newest is None else newest

    def _taken(self, index: int) -> Sample[Any] | None:
        try:
            sample = self._subscribers[index].try_receive()
        except Closed as error:
            self._ended[index] = str(error)
            return None
        if sample is not None:
            self._received[index] += 1
        if index in self._ended:  # another publisher has begun the stream again
            del self._ended[index]
            self._watch(index, True)
        return sample

    def _watch(self, index: int, watched: bool) -> None:
        if watched == (index in self._watched):
            return
        descriptor = self._subscribers[index].fileno()
        if watched:
            self._epoll.register(descriptor, select.EPOLLIN)
            self._watched.add(index)
        else:
            self._watched.discard(index)
            self._epoll.unregister(descriptor)

    def _read_time(self, index: int, sample: Sample[Any]) -> int:
        try:
            return self._time_of(sample)
        except BaseException:
            self._invalid[index] += 1
            raise

    def _timed_out(self) -> Timeout:
        pairs = zip(self.topics, self.stats.waiting, strict=True)
        missing = ", ".join(repr(topic) for topic, waiting in pairs if not waiting)
        return Timeout(f"no set of samples was complete in time; no sample waits on {missing}")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"sets={self._matcher.sets}"
        return f"<tensorbus.TimeSynchronizer {', '.join(map(repr, self.topics))} {state}>"


def _checked_tolerance(tolerance: object) -> float:
    number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
    if not number or not 0 <= tolerance < 1e9:  # type: ignore[operator]
        raise InvalidArgument(f"tolerance={tolerance!r}: expected seconds, at least 0")
    return float(tolerance)  # type: ignore[arg-type]


def _checked_subscribers(
    subscribers: Iterable[Subscriber[Any]], queue_size: int
) -> tuple[Subscriber[Any], ...]:
    # A subscriber is iterable, too, but iteration would take its samples.
    if isinstance(subscribers, Closing) or not isinstance(subscribers, Iterable):
        raise TypeError(
            f"TimeSynchronizer({type(subscribers).__name__}): expected a list of subscribers"
        )
    checked = tuple(subscribers)
    if len(checked) < 2 or len(set(map(id, checked))) < len(checked):
        raise InvalidArgument("subscribers: expected at least two different ones")
    for each in checked:
        if not isinstance(each, Subscriber):
            raise InvalidArgument(
                f"{type(each).__name__} is no Subscriber; with asyncio, pass Subscribers, and use "
                "receive_async or async for"
            )
        if each._max_held <= queue_size:
            raise InvalidArgument(
                f"max_held={each._max_held} of the subscriber of {each.topic!r}: expected more "
                f"than queue_size={queue_size} samples, which wait for partners"
            )
    return checked
