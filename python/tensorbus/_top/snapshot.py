"""Snapshots: an inspection, with rates since the previous inspection and usage from the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tensorbus._inspection.rates import PublisherRate, rates
from tensorbus._inspection.report import Inspection, ParticipantReport, PeerName
from tensorbus._inspection.troubles import (
    Trouble,
    find_troubles,
    peer_name,
    process_name,
    silent,
)
from tensorbus._top.pipelines import pipeline_troubles
from tensorbus._top.usage import Usage, cpu_percent, usage_of
from tensorbus._up.running import PipelineReport, running_pipelines


@dataclass(frozen=True)
class Moment:
    """An inspection, the usage of its processes, and the pipelines, at one time."""

    inspection: Inspection
    usage: Mapping[int, Usage] = field(default_factory=dict)
    """By pid."""
    pipelines: tuple[PipelineReport, ...] = ()


def take_moment(source: Callable[[], Inspection]) -> Moment:
    """Inspects the domain and its pipelines, and reads the usage of its processes."""
    inspection = source()
    pids = {participant.pid for participant in inspection.participants} - {0}
    found = {pid: usage_of(pid) for pid in pids}
    usage = {pid: usage for pid, usage in found.items() if usage}
    return Moment(inspection, usage, running_pipelines(inspection.domain))


class Total(NamedTuple):
    """The summed rates of publishers; None: there is no earlier inspection to compare with."""

    hz: float | None = None
    bytes_per_second: float | None = None
    dropped_per_second: float | None = None


@dataclass(frozen=True)
class Snapshot:
    """The data of all tables: a moment, and the previous moment."""

    before: Moment | None
    after: Moment

    @property
    def participants(self) -> tuple[ParticipantReport, ...]:
        """The participants, sorted by pid."""
        return self.after.inspection.participants

    @cached_property
    def names(self) -> dict[str, str]:
        """The names of the processes in tables, by participant."""
        return {known.participant: process_name(known) for known in self.participants}

    @cached_property
    def rates(self) -> dict[tuple[str, int], PublisherRate]:
        """The rates by participant and number of the publisher."""
        if self.before is None:
            return {}
        return {
            (rate.participant.participant, rate.publisher.number): rate
            for rate in rates(self.before.inspection, self.after.inspection)
        }

    @cached_property
    def troubles(self) -> list[Trouble]:
        """All troubles, the worst first: those of pipelines say the most."""
        return [*pipeline_troubles(self.after.pipelines), *find_troubles(self.after.inspection)]

    @cached_property
    def why_process(self) -> dict[str, str]:
        """The worst trouble of each participant."""
        return {trouble.process: trouble.words for trouble in reversed(self.troubles)}

    @cached_property
    def why_topic(self) -> dict[tuple[str, str], str]:
        """The worst trouble of each topic of a machine."""
        return {
            (trouble.topic, trouble.machine): str(trouble) for trouble in reversed(self.troubles)
        }

    @cached_property
    def why_queue(self) -> dict[tuple[str, int] | None, str]:
        """The trouble of each queue, by participant and number."""
        return {trouble.queue: trouble.words for trouble in reversed(self.troubles)}

    @cached_property
    def why_silent(self) -> dict[str, str]:
        """The sentence about each process that did not reply, with the reason, by participant."""
        return {each.participant: str(silent(each)) for each in self.participants if each.error}

    def total(self, publishers: Iterable[tuple[str, int]]) -> Total:
        """The sum of the rates of publishers, by participant and number, if they have rates."""
        found = [self.rates[name] for name in publishers if name in self.rates]
        if not found:
            return Total()
        return Total(
            sum(rate.hz for rate in found),
            sum(rate.bytes_per_second for rate in found),
            sum(rate.dropped_per_second for rate in found),
        )

    def cpu(self, pid: int) -> float | None:
        """The CPU time of a process, in percent of one processor."""
        if self.before is None:
            return None
        return cpu_percent(self.before.usage.get(pid), self.after.usage.get(pid))

    def peer(self, peer: PeerName, node: str = "") -> str:
        """The name in tables of a process at the other end of a connection."""
        return peer_name(peer, self.names, node)
