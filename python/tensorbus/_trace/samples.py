"""Events grouped by sample."""

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
    """The traced events of a sample."""

    published: Event | None = None
    receipts: list[Receipt] = field(default_factory=list)  # in the order of their times
    parents: list[SampleId] = field(default_factory=list)
    children: list[SampleId] = field(default_factory=list)

    def children_of(
        self, process: int, samples: dict[SampleId, Traced]
    ) -> list[tuple[SampleId, Event]]:
        """The children of this sample that a process has published, with their publish events."""
        made = []
        for child in self.children:
            published = samples[child].published
            if published is not None and published.process == process:
                made.append((child, published))
        return made


def samples_of(events: Iterable[Event]) -> dict[SampleId, Traced]:
    """The samples, in the order of their first events.

    A process may receive, use and release a sample several times. Events do not name the
    subscriber, so uses and releases are assigned to receipts in order.
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
    """Adds a use or a release to the first receipt in its process that has none yet."""
    for receipt in traced.receipts:
        if receipt.received.process != event.process:
            continue
        if event.kind == USE and receipt.used is None:
            receipt.used = event
            return
        if event.kind == RELEASE and receipt.released is None:
            receipt.released = event
            return
