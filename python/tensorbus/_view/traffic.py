"""Who sends what to whom, and how quickly: two inspections as edges of a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tensorbus._inspection.rates import rates
from tensorbus._inspection.report import (
    Inspection,
    LinkReport,
    ParticipantReport,
    PublisherReport,
)

End = tuple[str, str]
"""A participant and a node of it; "": its process itself."""


@dataclass
class Flow:
    """What goes from a process to a topic, or from a topic to a process."""

    hz: float | None = None
    """Samples a second; None: only one inspection knows of it."""
    bytes_per_second: float = 0.0
    dropped_per_second: float = 0.0
    blocked: bool = False
    """A publisher waits for this subscriber."""

    def add(self, hz: float, bytes_per_second: float = 0.0, dropped: float = 0.0) -> None:
        self.hz = (self.hz or 0.0) + hz
        self.bytes_per_second += bytes_per_second
        self.dropped_per_second += dropped


@dataclass
class Traffic:
    """All flows between two inspections."""

    sent: dict[tuple[End, str], Flow] = field(default_factory=lambda: defaultdict(Flow))
    """From a process to a topic."""
    received: dict[tuple[str, End], Flow] = field(default_factory=lambda: defaultdict(Flow))
    """From a topic to a process."""


def traffic(before: Inspection | None, after: Inspection) -> Traffic:
    """The flows; without a first inspection, they have no rates."""
    found = Traffic()
    for participant in after.participants:
        if participant.error:  # only the names of its topics are known
            for topic in participant.topics:
                _ = found.sent[(participant.participant, ""), topic]
        for publisher in participant.publishers:
            _ = found.sent[(participant.participant, publisher.node), publisher.topic]
            for link in publisher.links:
                flow = found.received[publisher.topic, end_of(link)]
                flow.blocked = flow.blocked or link.blocked_ns > 0
        for subscriber in participant.subscribers:
            _ = found.received[subscriber.topic, (participant.participant, subscriber.node)]
    if before is not None:
        _add_rates(found, before, after)
    return found


def end_of(link: LinkReport) -> End:
    """The subscriber's; one whose participant is not known goes by its pid."""
    return link.subscriber.participant or f"pid {link.subscriber.pid}", link.node


def without(process: int, inspection: Inspection) -> Inspection:
    """The domain as it would be without a process: that which looks at it."""
    return replace(
        inspection,
        participants=tuple(
            _without(process, participant)
            for participant in inspection.participants
            if participant.pid != process
        ),
    )


def _without(process: int, participant: ParticipantReport) -> ParticipantReport:
    publishers = tuple(
        replace(
            publisher,
            links=tuple(link for link in publisher.links if link.subscriber.pid != process),
        )
        for publisher in participant.publishers
    )
    memory = participant.memory
    if memory is not None:
        lent = tuple(lent for lent in memory.lent if lent.peer.pid != process)
        memory = replace(memory, lent=lent)
    return replace(participant, publishers=publishers, memory=memory)


def _add_rates(found: Traffic, before: Inspection, after: Inspection) -> None:
    for rate in rates(before, after):
        end = rate.participant.participant, rate.publisher.node
        found.sent[end, rate.publisher.topic].add(rate.hz, rate.bytes_per_second)
    ages = {participant.participant: participant.age_ns for participant in before.participants}
    first = {_name(*links): _counted(links[2]) for links in _links(before)}
    for participant, publisher, link in _links(after):
        if (known := first.get(_name(participant, publisher, link))) is None:
            continue
        # As `rates`: the time between its two answers, by the clock of the participant.
        seconds = max(participant.age_ns - ages[participant.participant], 1) / 1e9
        delivered, dropped = _counted(link)
        lost = (dropped - known[1]) / seconds
        found.received[publisher.topic, end_of(link)].add(
            (delivered - known[0]) / seconds, dropped=lost
        )
        end = participant.participant, publisher.node
        found.sent[end, publisher.topic].dropped_per_second += lost


def _links(
    inspection: Inspection,
) -> Iterator[tuple[ParticipantReport, PublisherReport, LinkReport]]:
    for participant in inspection.participants:
        for publisher in participant.publishers:
            for link in publisher.links:
                yield participant, publisher, link


def _name(participant: ParticipantReport, publisher: PublisherReport, link: LinkReport) -> object:
    return participant.participant, publisher.number, end_of(link), link.depth, link.reliable


def _counted(link: LinkReport) -> tuple[int, int]:
    return link.delivered, link.dropped
