"""Two inspections and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tensorbus._inspection.rates import PublisherRate, rates
from tensorbus._inspection.report import Inspection, ParticipantReport, PeerName
from tensorbus._top.troubles import Trouble, find_troubles, peer_name, process_name
from tensorbus._top.usage import Usage, cpu_percent, usage_of


@dataclass(frozen=True)
class Moment:
    """What the participants and the kernel said at one time."""

    inspection: Inspection
    usage: Mapping[int, Usage] = field(default_factory=dict)
    """By pid."""


def look(source: Callable[[], Inspection]) -> Moment:
    """Asks the participants, and then the kernel."""
    inspection = source()
    pids = {participant.pid for participant in inspection.participants} - {0}
    found = {pid: usage_of(pid) for pid in pids}
    return Moment(inspection, {pid: usage for pid, usage in found.items() if usage})


@dataclass(frozen=True)
class Total:
    """What some publishers did in a second; None: there is no inspection to compare with."""

    hz: float | None = None
    bytes_per_second: float | None = None
    dropped_per_second: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """What tables show: a moment, and the rates since the one before."""

    before: Moment | None
    after: Moment

    @property
    def participants(self) -> tuple[ParticipantReport, ...]:
        """By pid."""
        return self.after.inspection.participants

    @cached_property
    def names(self) -> dict[str, str]:
        """What people call the participants."""
        return {known.participant: process_name(known) for known in self.participants}

    @cached_property
    def rates(self) -> dict[tuple[str, int], PublisherRate]:
        """By participant and number of the publisher."""
        if self.before is None:
            return {}
        return {
            (rate.participant.participant, rate.publisher.number): rate
            for rate in rates(self.before.inspection, self.after.inspection)
        }

    @cached_property
    def troubles(self) -> list[Trouble]:
        """The worst first."""
        return find_troubles(self.after.inspection)

    @cached_property
    def why_process(self) -> dict[str, str]:
        """How participants hold others up: the worst of each."""
        return {trouble.process: trouble.words for trouble in reversed(self.troubles)}

    @cached_property
    def why_topic(self) -> dict[tuple[str, str], str]:
        """What holds up a topic of a machine: the worst of each."""
        return {
            (trouble.topic, trouble.machine): str(trouble) for trouble in reversed(self.troubles)
        }

    @cached_property
    def why_queue(self) -> dict[tuple[str, int] | None, str]:
        """What holds up a queue, by participant and number."""
        return {trouble.queue: trouble.words for trouble in reversed(self.troubles)}

    def total(self, publishers: Iterable[tuple[str, int]]) -> Total:
        """Of the publishers that are in both inspections, by participant and number."""
        found = [self.rates[name] for name in publishers if name in self.rates]
        if not found:
            return Total()
        return Total(
            sum(rate.hz for rate in found),
            sum(rate.bytes_per_second for rate in found),
            sum(rate.dropped_per_second for rate in found),
        )

    def cpu(self, pid: int) -> float | None:
        """In percent of one processor."""
        if self.before is None:
            return None
        return cpu_percent(self.before.usage.get(pid), self.after.usage.get(pid))

    def peer(self, peer: PeerName, node: str = "") -> str:
        """What people call a process at the other end of a connection."""
        return peer_name(peer, self.names, node)
