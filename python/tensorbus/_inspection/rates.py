"""Rates of topics, from the counters of two inspections."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._base.public import public
from tensorbus._inspection.report import Inspection, ParticipantReport, PublisherReport

_Found = dict[tuple[str, int], tuple[ParticipantReport, PublisherReport]]


@public
@dataclass(frozen=True)
class PublisherRate:
    """A publisher's rates per second between two inspections."""

    participant: ParticipantReport
    publisher: PublisherReport
    """The report of the second inspection."""
    hz: float
    bytes_per_second: float
    dropped_per_second: float
    """Samples not queued or dropped, summed over all subscribers."""


@public
def rates(before: Inspection, after: Inspection) -> list[PublisherRate]:
    """The rates of all publishers that answered both times, sorted by topic and pid.

    The time between two answers comes from the participant's own age: silent processes delay an
    inspection, but not the answers of others.
    """
    first = _publishers(before)
    found = [
        _rate(first[name][1], participant, publisher, _seconds(first[name][0], participant))
        for name, (participant, publisher) in _publishers(after).items()
        if name in first
    ]
    return sorted(found, key=lambda rate: (rate.publisher.topic, rate.participant.pid))


def _publishers(inspection: Inspection) -> _Found:
    return {
        (participant.participant, publisher.number): (participant, publisher)
        for participant in inspection.participants
        for publisher in participant.publishers
    }


def _seconds(before: ParticipantReport, after: ParticipantReport) -> float:
    """At least 1 ns: a hostile participant may report any age, and then its rates mean nothing."""
    return max(after.age_ns - before.age_ns, 1) / 1e9


def _rate(
    before: PublisherReport,
    participant: ParticipantReport,
    after: PublisherReport,
    seconds: float,
) -> PublisherRate:
    return PublisherRate(
        participant,
        after,
        (after.stats.sent - before.stats.sent) / seconds,
        (after.bytes_sent - before.bytes_sent) / seconds,
        (after.stats.dropped - before.stats.dropped) / seconds,
    )
