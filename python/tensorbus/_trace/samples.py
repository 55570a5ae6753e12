"""The events of each sample, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tensorbus._trace.events import PARENT, PUBLISH, RECEIVE, RELEASE, USE, Event, SampleId


@dataclass
class Receipt:
    """A sample in a subscriber's process."""

    received: Event
    used: Event | None = None
    released: Event | None = None


@dataclass
class Traced:
    """A sample, as far as it was traced."""

    published: Event | None = None
    receipts: list[Receipt] = field(default_factory=list)  # in the order of their times
    parents: list[SampleId] = field(default_factory=list)
    children: list[SampleId] = field(default_factory=list)

    def children_of(
        self, process: int, samples: dict[SampleId, Traced]
    ) -> list[tuple[SampleId, Event]]:
        """What a process has made of it, and when it published that."""
        made = []
        for child in self.children:
            published = samples[child].published
            if published is not None and published.process == process:
                made.append((child, published))
        return made


def samples_of(events: Iterable[Event]) -> dict[SampleId, Traced]:
    """The samples, in the order of their first events.

    A process that receives a sample several times uses and releases it as often; which of its
    subscribers did which is not known, so they are taken in turn.
    """
    samples: dict[SampleId, Traced] = {}
    for event in sorted(events, key=lambda event: event.time_ns):
        traced = samples.setdefault(event.sample, Traced())
        if event.kind == PUBLISH:
            traced.published = event
        elif event.kind == RECEIVE:
            traced.receipts.append(Receipt(event))
        elif event.kind == PARENT:
            assert event.child is not None
            traced.children.append(event.child)
            samples.setdefault(event.child, Traced()).parents.append(event.sample)
        else:
            _end(traced, event)
    return samples


def _end(traced: Traced, event: Event) -> None:
    """Adds a use or a release to the first receipt of the process that has none."""
    for receipt in traced.receipts:
        if receipt.received.process != event.process:
            continue
        if event.kind == USE and receipt.used is None:
            receipt.used = event
            return
        if event.kind == RELEASE and receipt.released is None:
            receipt.released = event
            return
