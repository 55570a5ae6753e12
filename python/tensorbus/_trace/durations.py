"""Durations of hops and paths."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tensorbus._trace.events import Event, SampleId
from tensorbus._trace.samples import Receipt, Traced

# Limits for the chains of parents of one sample: records of a hostile process may have cycles.
_MAX_CHAINS = 64
_MAX_LENGTH = 64


class Durations(NamedTuple):
    """Durations of a hop or a path."""

    name: str
    process: int  # index of the source in which it ends
    times_ns: list[int]  # sorted

    def percentile(self, percent: float) -> int:
        """Nanoseconds, by nearest rank.

        >>> Durations("a", 0, [10, 20, 30, 40]).percentile(50)
        20
        >>> Durations("a", 0, [10, 20, 30, 40]).percentile(99)
        40
        """
        return self.times_ns[max(math.ceil(percent / 100 * len(self.times_ns)), 1) - 1]


Samples = dict[SampleId, Traced]
TopicOf = Callable[[SampleId], str]


def hops_of(samples: Samples, topic_of: TopicOf) -> list[Durations]:
    """The times between two events of a sample, by topic and process."""
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for sample, traced in samples.items():
        topic = topic_of(sample)
        for receipt in traced.receipts:
            process = receipt.received.process
            for name, begin, end in _steps(traced, receipt):
                found[f"{topic}: {name}", process].append(end.time_ns - begin.time_ns)
            for child, published in traced.children_of(process, samples):
                name = f"{topic}: receive → publish {topic_of(child)}"
                found[name, process].append(published.time_ns - receipt.received.time_ns)
    return _sorted(found)


def _steps(traced: Traced, receipt: Receipt) -> Iterator[tuple[str, Event, Event]]:
    received = receipt.received
    if traced.published is not None:
        yield "publish → receive", traced.published, received
    if receipt.used is not None:
        yield "receive → first use", received, receipt.used
    if receipt.released is not None:
        yield "receive → release", received, receipt.released


def paths_of(samples: Samples, topic_of: TopicOf) -> list[Durations]:
    """The times from the first publish of a chain of parents to its last receive.

    A receive is the last of a chain if its process publishes no child of the sample.
    """
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for sample, traced in samples.items():
        for receipt in traced.receipts:
            received = receipt.received
            if traced.published is None or traced.children_of(received.process, samples):
                continue
            for chain in _chains_to(sample, samples, topic_of):
                begin = samples[chain[0]].published
                assert begin is not None
                name = " → ".join(map(topic_of, chain))
                found[name, received.process].append(received.time_ns - begin.time_ns)
    return _sorted(found)


def _chains_to(sample: SampleId, samples: Samples, topic_of: TopicOf) -> list[list[SampleId]]:
    """The chains of parents that end with this sample, oldest sample first.

    A chain has each topic once, even if topics form a loop.
    """
    ended: list[list[SampleId]] = []
    growing = [[sample]]
    while growing and len(ended) + len(growing) <= _MAX_CHAINS:
        chain = growing.pop()
        topics = set(map(topic_of, chain))
        parents = [
            parent
            for parent in dict.fromkeys(samples[chain[0]].parents)
            if samples[parent].published is not None and topic_of(parent) not in topics
        ]
        if parents and len(chain) < _MAX_LENGTH:
            growing += [[parent, *chain] for parent in parents]
        else:
            ended.append(chain)
    return ended


def _sorted(found: dict[tuple[str, int], list[int]]) -> list[Durations]:
    return [Durations(name, process, sorted(times)) for (name, process), times in found.items()]


def table_of(durations: Sequence[Durations], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows of text: name, process, count, median and 99th percentile in ms.

    >>> table_of([Durations("a: publish → receive", 0, [1_000_000, 3_000_000])], ["sink (7)"])
    [('a: publish → receive', 'sink (7)', '2', '1.000', '3.000')]
    """
    return [
        (
            each.name,
            names[each.process],
            str(len(each.times_ns)),
            f"{each.percentile(50) / 1e6:.3f}",
            f"{each.percentile(99) / 1e6:.3f}",
        )
        for each in durations
    ]
