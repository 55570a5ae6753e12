"""The flows between processes and topics, with their rates, from two inspections."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from tensorbus._inspection.rates import rates
from tensorbus._inspection.report import (
    Inspection,
    LinkReport,
    ParticipantReport,
)
from tensorbus._inspection.troubles import is_blocked

End = tuple[str, str]
"""A participant's id and the name of one of its nodes; "": none."""


@dataclass
class Flow:
    """The flow from a process to a topic, or from a topic to a process."""

    hz: float | None = None
    """Samples per second; None: the flow is in only one inspection."""
    bytes_per_second: float = 0.0
    dropped_per_second: float = 0.0
    blocked: bool = False
    """A publisher has waited for this subscriber for a long time."""

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
    """The flows. Without the inspection `before`, they have no rates."""
    found = Traffic()
    for participant in after.participants:
        if participant.error:  # only the names of its topics are known
            for topic in participant.topics:
                _ = found.sent[(participant.participant, ""), topic]
        for publisher in participant.publishers:
            _ = found.sent[(participant.participant, publisher.node), publisher.topic]
            for link in publisher.links:
                flow = found.received[publisher.topic, end_of(link)]
                flow.blocked = flow.blocked or is_blocked(link)
        for subscriber in participant.subscribers:
            _ = found.received[subscriber.topic, (participant.participant, subscriber.node)]
    if before is not None:
        _add_rates(found, before, after)
    return found


def end_of(link: LinkReport) -> End:
    """The end of a subscriber. If its participant is unknown, its pid identifies it."""
    return link.subscriber.participant or f"pid {link.subscriber.pid}", link.node


def without(process: int, inspection: Inspection) -> Inspection:
    """The inspection without a process, its subscribers and its leases."""
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
    first, last = _counters(before), _counters(after)
    for participant in after.participants:
        for publisher in participant.publishers:
            for end in {end_of(link): None for link in publisher.links}:
                key = participant.participant, publisher.number, end
                if key not in first:
                    continue
                # As in `rates`: the time between both reports, by the participant's clock.
                seconds = max(participant.age_ns - ages[participant.participant], 1) / 1e9
                # A counter falls when a subscriber was closed or opened again.
                delivered, dropped = (
                    max(now - then, 0) / seconds
                    for now, then in zip(last[key], first[key], strict=True)
                )
                found.received[publisher.topic, end].add(delivered, dropped=dropped)
                sender = participant.participant, publisher.node
                found.sent[sender, publisher.topic].dropped_per_second += dropped


def _counters(inspection: Inspection) -> dict[tuple[str, int, End], tuple[int, int]]:
    """How many samples each publisher has delivered to each end, and dropped for it.

    The counters of several subscribers with the same end are added.
    """
    found: dict[tuple[str, int, End], tuple[int, int]] = {}
    for participant in inspection.participants:
        for publisher in participant.publishers:
            for link in publisher.links:
                key = participant.participant, publisher.number, end_of(link)
                delivered, dropped = found.get(key, (0, 0))
                found[key] = delivered + link.delivered, dropped + link.dropped
    return found
