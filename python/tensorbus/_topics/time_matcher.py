"""Which samples of several topics belong together, by their times."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic

from tensorbus._base.generics import T


@dataclass
class MatchedTopic(Generic[T]):
    """The samples of one topic that wait for partners, in the order of their times."""

    waiting: deque[tuple[int, T]] = field(default_factory=deque)
    newest: int | None = None  # time of the last accepted sample
    late_in_a_row: int = 0
    # Dropped samples, by reason.
    unmatched: int = 0
    overflowed: int = 0
    late: int = 0

    @property
    def first_time(self) -> int | None:
        """No sample of this topic in a later set is older than this; None if it had none yet."""
        return self.waiting[0][0] if self.waiting else self.newest

    def skip_to(self, count: int) -> None:
        """Drops the oldest samples, which have found no partners."""
        self.unmatched += count
        for _ in range(count):
            self.waiting.popleft()


class TimeMatcher(Generic[T]):
    """Combines samples of several topics into sets: one sample of each topic, with similar times.

    The same as `tensorbus::internal::TimeMatcher` in C++; both pass
    tests/public/time_matcher_cases.txt. Decision 45 explains it: the pivot of the approximate time
    policy of ROS (https://wiki.ros.org/message_filters/ApproximateTime), without its waits.

    Args:
        count: the number of topics.
        tolerance: the maximum difference between two times of a set, in ns.
        queue_size: the maximum of samples of one topic that wait for partners.
    """

    def __init__(self, count: int, tolerance: int, queue_size: int) -> None:
        self.topics: list[MatchedTopic[T]] = [MatchedTopic() for _ in range(count)]
        self.sets: int = 0  # so far
        self._tolerance = tolerance
        self._queue_size = queue_size

    def add(self, index: int, time: int, sample: T) -> list[T] | None:
        """Adds the next sample of a topic; returns the set that it completes, or None."""
        topic = self.topics[index]
        if topic.newest is not None and time < topic.newest:
            topic.late_in_a_row += 1
            if topic.late_in_a_row < self._queue_size:
                topic.late += 1
                return None
            topic.skip_to(len(topic.waiting))  # the time has stepped back
        topic.late_in_a_row = 0
        topic.newest = time
        if len(topic.waiting) == self._queue_size:
            topic.overflowed += 1
            topic.waiting.popleft()
        topic.waiting.append((time, sample))
        self._drop_unmatchable()
        if all(each.waiting for each in self.topics):
            return self._take(self._tightest())
        return None

    def clear(self) -> None:
        """Drops all samples that wait."""
        for topic in self.topics:
            topic.skip_to(len(topic.waiting))

    def _drop_unmatchable(self) -> None:
        """Drops each sample that is too old for any later set."""
        while True:
            times = [each.first_time for each in self.topics]
            low = max(time for time in times if time is not None) - self._tolerance
            dropped = 0
            for each in self.topics:
                count = 0
                while count < len(each.waiting) and each.waiting[count][0] < low:
                    count += 1
                each.skip_to(count)
                dropped += count
            if dropped == 0:
                return

    def _tightest(self) -> list[int]:
        """The places, in each topic, of the set with the least difference of times.

        The oldest samples of all topics are a set. The newest of them, the pivot, is in each
        candidate: each step replaces the oldest sample by the next one of its topic.
        """
        places = [0] * len(self.topics)
        times = [each.waiting[0][0] for each in self.topics]
        pivot = max(times)
        best, best_spread = list(places), pivot - min(times)
        while True:
            oldest = times.index(min(times))
            topic = self.topics[oldest]
            if times[oldest] == pivot or places[oldest] + 1 == len(topic.waiting):
                return best
            places[oldest] += 1
            times[oldest] = topic.waiting[places[oldest]][0]
            spread = max(times) - min(times)
            if spread < best_spread:
                best, best_spread = list(places), spread

    def _take(self, places: list[int]) -> list[T]:
        self.sets += 1
        taken = []
        for topic, place in zip(self.topics, places, strict=True):
            topic.skip_to(place)
            taken.append(topic.waiting.popleft()[1])
        return taken
