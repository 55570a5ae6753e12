"""Values of expectations, from one inspection after the other."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator

from tensorbus._inspection.report import Inspection, LinkReport, PublisherReport
from tensorbus._up.expectation import Expectation

_MIN_WINDOW = 2.0  # seconds in which samples are counted for a rate
_SAMPLES = 4  # that the window of a rate has room for, if the limit is kept
_MAX_TICKS = 1000


class Measures:
    """The counters of one domain over time. A stopped process counts as publishing nothing."""

    def __init__(self, topics: Iterable[str]) -> None:
        """
        Args:
            topics: those whose samples are counted.
        """
        self._topics = frozenset(topics)
        self._sent: dict[tuple[str, int], int] = {}
        # Per topic: the time of each inspection, and the samples since the one before.
        self._ticks: dict[str, deque[tuple[float, int]]] = {}
        self._last: dict[str, float] = {}
        self._before: float | None = None
        self._now: Inspection | None = None

    def add(self, inspection: Inspection, now: float) -> None:
        """Takes the next inspection; `now` in seconds of a clock that never goes back."""
        listed = {each.participant for each in inspection.participants}
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] in listed}
        published = dict.fromkeys(self._ticks, 0)
        for participant in inspection.participants:
            for publisher in participant.publishers:
                key, topic = (participant.participant, publisher.number), publisher.topic
                if topic not in self._topics:
                    continue
                before = self._sent.get(key, publisher.stats.sent)
                self._sent[key] = publisher.stats.sent
                self._last.setdefault(topic, now)
                published[topic] = published.get(topic, 0) + publisher.stats.sent - before
        for topic, count in published.items():
            self._ticks.setdefault(topic, deque(maxlen=_MAX_TICKS)).append((now, count))
            if count:
                self._last[topic] = now
        self._before, self._now = now, inspection

    def value(self, expected: Expectation) -> float | None:
        """The value of the measure now; None: the topic, queue or service is not there."""
        if self._now is None:
            return None
        name = expected.subject
        if expected.measure == "rate":
            return self._rate(name, max(_MIN_WINDOW, _SAMPLES / max(expected.limit, 0.001)))
        if expected.measure == "age":
            last = self._last.get(name)
            return None if last is None or self._before is None else self._before - last
        if expected.measure in ("lag", "held"):
            links = [link for each in publishers_of(self._now, name) for link in each.links]
            counts = [_count(link, expected.measure) for link in links]
            return max(counts, default=0.0)
        items = [
            queue.stats.items
            for participant in self._now.participants
            for queue in participant.queues
            if name in (f"queue:{queue.name}", f"service:{queue.service}")
        ]
        return float(sum(items)) if items else None

    def _rate(self, topic: str, window: float) -> float | None:
        ticks = self._ticks.get(topic)
        if ticks is None or self._before is None:
            return None
        recent = [tick for tick in ticks if tick[0] >= self._before - window]
        elapsed = recent[-1][0] - recent[0][0]
        # The samples of the first tick were published before it.
        return sum(count for _, count in recent[1:]) / elapsed if elapsed > 0 else math.nan


def publishers_of(inspection: Inspection, topic: str) -> Iterator[PublisherReport]:
    """The publishers of a topic in processes that replied."""
    for participant in inspection.participants:
        yield from (each for each in participant.publishers if each.topic == topic)


def _count(link: LinkReport, measure: str) -> float:
    return float(link.waiting if measure == "lag" else link.held)
