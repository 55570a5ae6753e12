"""Rates of topics, from the counters of two inspections."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._base.public import public
from tensorbus._inspection.report import Inspection, ParticipantReport, PublisherReport

_Found = dict[tuple[str, int], tuple[ParticipantReport, PublisherReport]]


@public
@dataclass(frozen=True)
class PublisherRate:
    """A publisher's rates between two inspections."""

    participant: ParticipantReport
    """The participant of the publisher, in the second inspection."""
    publisher: PublisherReport
    """The report of the second inspection."""
    hz: float
    """Published samples per second."""
    bytes_per_second: float
    """Bytes of tensors and fields in these samples, per second."""
    dropped_per_second: float
    """Samples that were dropped or not queued, per second, summed over all subscribers."""


@public
def rates(before: Inspection, after: Inspection) -> list[PublisherRate]:
    """The rates of all publishers that are in both inspections, sorted by topic and pid.

    The time between the two reports of a participant is the difference of its ages. A process that
    does not reply delays an inspection, but not the reports of other processes.

    >>> import tensorbus as tb
    >>> with tb.Publisher("doc/rates", domain="doc-rates") as publisher:
    ...     before = tb.inspect("doc-rates")
    ...     publisher.publish(7)
    ...     [rate.hz > 0 for rate in rates(before, tb.inspect("doc-rates"))]
    0
    [True]
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
    """The time between two reports, at least 1 ns: a hostile participant may report any age."""
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
