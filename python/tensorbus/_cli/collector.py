"""The metrics of `tensorbus metrics`, as Prometheus collects them."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tensorbus._cli.bridge_status import LOST, Status
from tensorbus._inspection.report import (
    DeviceReport,
    Inspection,
    MemoryReport,
    ParticipantReport,
    PublisherReport,
    QueueReport,
    SubscriberReport,
)
from tensorbus._up.running import PipelineReport, running_pipelines

_PREFIX = "tensorbus_"
_MAX_SERIES = 2000  # sets of labels of one metric; values of further sets are summed under OTHER
OTHER = "(other)"

Labels = tuple[str, ...]
Source = tuple[str, ...]  # identifies a counter; begins with the id of its process


class _Kind(NamedTuple):
    what: Literal["counter", "sum", "max"]  # a counter, or how values of several sources combine
    labels: Labels
    help: str


_TOPIC = ("topic", "process", "machine")
_QUEUE = ("queue", "process", "machine")
_PIPELINE = ("pipeline", "process")
_PEER = ("topic", "peer", "direction")

METRICS: dict[str, _Kind] = {
    "published_samples": _Kind("counter", _TOPIC, "Samples published."),
    "published_bytes": _Kind("counter", _TOPIC, "Bytes of tensors and fields published."),
    "copied_bytes": _Kind(
        "counter", _TOPIC, "Bytes of tensors copied because they were not in shared memory."
    ),
    "delivered_samples": _Kind("counter", _TOPIC, "Samples put into subscribers' queues."),
    "dropped_samples": _Kind(
        "counter", (*_TOPIC, "reason"), "Samples dropped, counted for each subscriber."
    ),
    "publish_timeouts": _Kind("counter", _TOPIC, "Publish calls that timed out waiting for room."),
    "cut_off_subscribers": _Kind("counter", _TOPIC, "How often subscribers were cut off."),
    "publishers": _Kind("sum", _TOPIC, "Open publishers."),
    "waiting_samples": _Kind("sum", _TOPIC, "Samples in the queues of subscribers."),
    "held_samples": _Kind("sum", _TOPIC, "Samples received and not released."),
    "held_bytes": _Kind("sum", _TOPIC, "Bytes of samples that wait or are held."),
    "oldest_held_seconds": _Kind("max", _TOPIC, "Age of the oldest held sample."),
    "blocked_seconds": _Kind("max", _TOPIC, "Time for which a subscriber's queue has had no room."),
    "received_samples": _Kind("counter", _TOPIC, "Samples received."),
    "missed_samples": _Kind("counter", _TOPIC, "Samples missing in received sequences."),
    "subscribers": _Kind("sum", _TOPIC, "Open subscribers."),
    "queue_items": _Kind("sum", _QUEUE, "Waiting items; requests of a service."),
    "queue_bytes": _Kind("sum", _QUEUE, "Bytes of waiting items."),
    "queue_in_hand": _Kind("sum", _QUEUE, "Items that clients have got and not finished."),
    "queue_lost": _Kind("counter", _QUEUE, "Items lost when the processes that had got them died."),
    "queue_redelivered": _Kind("counter", _QUEUE, "Items redelivered after a process died."),
    "memory_used_bytes": _Kind("sum", ("process", "device"), "Memory in loans and held samples."),
    "memory_reserved_bytes": _Kind("sum", ("process", "device"), "Memory taken from the machine."),
    "memory_budget_bytes": _Kind("sum", ("process", "device"), "Limit of reserved memory."),
    "memory_lent_bytes": _Kind("sum", ("process", "holder"), "Memory that other processes hold."),
    "memory_leases": _Kind("sum", ("process", "holder"), "Leases that other processes hold."),
    "oldest_lease_seconds": _Kind("max", ("process", "holder"), "Age of the oldest lease."),
    "processes": _Kind("sum", ("process",), "Processes of the domain that answered."),
    "silent_processes": _Kind("sum", ("process",), "Processes that did not answer."),
    "pipeline_processes": _Kind(
        "sum", (*_PIPELINE, "state"), "Processes of `tensorbus up`, by their state."
    ),
    "pipeline_restarts": _Kind("counter", _PIPELINE, "Restarts after exits."),
    "pipeline_unmet_expectations": _Kind("sum", _PIPELINE, "Expectations that are not met."),
    "bridge_up": _Kind("sum", (), "1 if a bridge of this domain is running."),
    "bridge_connected": _Kind("max", ("peer",), "1 if the bridge is connected to the machine."),
    "bridge_clock_offset_seconds": _Kind(
        "max", ("peer",), "The peer's clock minus this machine's."
    ),
    "bridge_clock_uncertainty_seconds": _Kind("max", ("peer",), "Uncertainty of the clock offset."),
    "bridge_samples": _Kind("counter", _PEER, "Samples transferred."),
    "bridge_bytes": _Kind("counter", _PEER, "Bytes transferred."),
    "bridge_lost_samples": _Kind("counter", _PEER, "Samples lost."),
}


@dataclass(frozen=True)
class Figure:
    """The value of one source for one metric."""

    metric: str
    labels: Labels
    source: Source
    value: float


class Totals:
    """Sums of counters by their labels, over sources that start and end. A sum never falls.

    A plain sum over two processes would fall when one of them ends, and Prometheus would interpret
    that as a restart of both.
    """

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._last: dict[Source, float] = {}
        self._labels: dict[Source, Labels] = {}
        self._sums: dict[Labels, float] = {}

    def update(self, figures: Iterable[Figure], silent: set[str]) -> dict[Labels, float]:
        """The current sums.

        Args:
            figures: the values of one metric, from all sources that replied.
            silent: ids of processes that run and did not reply.
        """
        kept = {source: labels for source, labels in self._labels.items() if source[0] in silent}
        last = {source: self._last[source] for source in kept}
        known = {figure.source: figure for figure in figures}
        for source, figure in known.items():
            last[source] = figure.value
            if source in self._labels:
                kept[source] = self._labels[source]
        wanted = {figure.labels for source, figure in known.items() if source not in kept}
        self._make_room(len(wanted - self._sums.keys()), {*kept.values(), *wanted})
        for source, figure in known.items():
            labels = kept.setdefault(source, self._room_for(figure.labels))
            before = self._last.get(source, 0.0)
            grown = figure.value - before if figure.value >= before else figure.value
            self._sums[labels] = self._sums.get(labels, 0.0) + grown
        self._last, self._labels = last, kept
        return self._sums

    def _make_room(self, count: int, living: set[Labels]) -> None:
        if len(self._sums) + count > self._max_series:
            self._sums = {labels: value for labels, value in self._sums.items() if labels in living}

    def _room_for(self, labels: Labels) -> Labels:
        fits = labels in self._sums or len(self._sums) < self._max_series
        return labels if fits else _other(labels)


def _other(labels: Labels) -> Labels:
    """The labels of the sum over all label sets beyond the limit."""
    return (OTHER, *labels[1:])


class BusCollector(Collector):
    """Collects the metrics of a domain's processes, bridge and pipelines at each scrape.

    Args:
        source: inspects the domain.
        bridge: returns the bridge's status; None if there is no bridge, or its last status is old.
        max_series: limit of label sets for one metric.
    """

    def __init__(
        self,
        source: Callable[[], Inspection],
        bridge: Callable[[], Status | None],
        max_series: int = _MAX_SERIES,
    ) -> None:
        self._source = source
        self._bridge = bridge
        self._bridge_id = ""
        self._max_series = max_series
        self._lock = threading.Lock()  # serializes scrapes
        self._totals: dict[str, Totals] = {}

    def describe(self) -> list[Metric]:
        """The metrics without values; no process is inspected."""
        return [_family(name) for name in METRICS]

    def collect(self) -> Iterator[Metric]:
        """The current metrics."""
        with self._lock:
            inspection, status = self._source(), self._bridge()
            if status is not None:
                self._bridge_id = status["bridge"]
            pipelines = running_pipelines(inspection.domain)
            silent = {each.participant for each in inspection.participants if each.error}
            silent.update(each.name for each in pipelines if each.error)
            if status is None:
                silent.add(self._bridge_id)
            found: dict[str, list[Figure]] = {name: [] for name in METRICS}
            for figure in (
                *figures_of(inspection),
                *bridge_figures_of(status),
                *pipeline_figures_of(pipelines),
            ):
                found[figure.metric].append(figure)
            families = [self._of(name, figures, silent) for name, figures in found.items()]
        yield from families

    def _of(self, name: str, figures: list[Figure], silent: set[str]) -> Metric:
        family = _family(name)
        if METRICS[name].what == "counter":
            totals = self._totals.setdefault(name, Totals(self._max_series))
            values = totals.update(figures, silent)
        else:
            values = self._joined(figures, max if METRICS[name].what == "max" else operator.add)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family

    def _joined(
        self, figures: list[Figure], join: Callable[[float, float], float]
    ) -> dict[Labels, float]:
        values: dict[Labels, float] = {}
        for figure in figures:
            labels = figure.labels
            if labels not in values and len(values) >= self._max_series:
                labels = _other(labels)
            known = values.get(labels)
            values[labels] = figure.value if known is None else join(known, figure.value)
        return values


def _family(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    kind = METRICS[name]
    family = CounterMetricFamily if kind.what == "counter" else GaugeMetricFamily
    return family(_PREFIX + name, kind.help, labels=kind.labels)


def figures_of(inspection: Inspection) -> Iterator[Figure]:
    """The figures of the processes."""
    for process in inspection.participants:
        name = "silent_processes" if process.error else "processes"
        yield Figure(name, (process.process,), (process.participant,), 1)
        for publisher in process.publishers:
            yield from _of_publisher(process, publisher)
        seen: dict[str, int] = {}
        for subscriber in process.subscribers:
            number = seen[subscriber.topic] = seen.get(subscriber.topic, -1) + 1
            yield from _of_subscriber(process, subscriber, number)
        for queue in process.queues:
            yield from _of_queue(process, queue)
        if process.memory is not None:
            yield from _of_memory(process, process.memory)


def _of_publisher(process: ParticipantReport, publisher: PublisherReport) -> Iterator[Figure]:
    labels = (publisher.topic, process.process, publisher.machine)
    source = (process.participant, str(publisher.number))
    stats, links = publisher.stats, publisher.links
    values: dict[str, float] = {
        "published_samples": stats.sent,
        "published_bytes": publisher.bytes_sent,
        "copied_bytes": stats.bytes_copied,
        "delivered_samples": stats.delivered,
        "publish_timeouts": stats.timed_out,
        "cut_off_subscribers": stats.cut_off,
        "publishers": 1,
        "waiting_samples": sum(link.waiting for link in links),
        "held_samples": sum(link.held for link in links),
        "held_bytes": sum(link.held_bytes for link in links),
        "oldest_held_seconds": max((link.oldest_held_ns for link in links), default=0) / 1e9,
        "blocked_seconds": max((link.blocked_ns for link in links), default=0) / 1e9,
    }
    yield from (Figure(name, labels, source, value) for name, value in values.items())
    dropped = {
        "depth": stats.dropped_depth,
        "held": stats.dropped_held,
        "unsent": stats.dropped_unsent,
    }
    for reason, value in dropped.items():
        yield Figure("dropped_samples", (*labels, reason), (*source, reason), value)


def _of_subscriber(
    process: ParticipantReport, subscriber: SubscriberReport, number: int
) -> Iterator[Figure]:
    labels = (subscriber.topic, process.process, "")
    source = (process.participant, subscriber.topic, str(number))
    yield Figure("received_samples", labels, source, subscriber.stats.received)
    yield Figure("missed_samples", labels, source, subscriber.stats.missed)
    yield Figure("subscribers", labels, source, 1)


def _of_queue(process: ParticipantReport, queue: QueueReport) -> Iterator[Figure]:
    name = f"service:{queue.service}" if queue.service else queue.name
    labels = (name, process.process, queue.machine)
    source = (process.participant, str(queue.number))
    yield Figure("queue_items", labels, source, queue.stats.items)
    yield Figure("queue_bytes", labels, source, queue.stats.bytes)
    yield Figure("queue_in_hand", labels, source, queue.in_hand)
    yield Figure("queue_lost", labels, source, queue.stats.lost)
    yield Figure("queue_redelivered", labels, source, queue.redelivered)


def _of_memory(process: ParticipantReport, memory: MemoryReport) -> Iterator[Figure]:
    source = (process.participant,)
    kinds: list[tuple[str, MemoryReport | DeviceReport]] = [("cpu", memory)]
    kinds += ((each.device, each) for each in memory.devices)
    for device, held in kinds:
        labels = (process.process, device)
        yield Figure("memory_used_bytes", labels, source, held.used_bytes)
        yield Figure("memory_reserved_bytes", labels, source, held.reserved_bytes)
        yield Figure("memory_budget_bytes", labels, source, held.budget_bytes)
    for lent in memory.lent:
        labels = (process.process, lent.peer.process)
        yield Figure("memory_lent_bytes", labels, source, lent.bytes)
        yield Figure("memory_leases", labels, source, lent.leases)
        yield Figure("oldest_lease_seconds", labels, source, lent.oldest_ns / 1e9)


def pipeline_figures_of(pipelines: Iterable[PipelineReport]) -> Iterator[Figure]:
    """The figures of the processes of each `tensorbus up`."""
    for pipeline in pipelines:
        for process in pipeline.processes:
            labels = source = (pipeline.name, process.process)
            yield Figure("pipeline_processes", (*labels, process.state), source, 1)
            yield Figure("pipeline_restarts", labels, source, process.restarts)
            yield Figure("pipeline_unmet_expectations", labels, source, len(process.unmet))


def bridge_figures_of(status: Status | None) -> Iterator[Figure]:
    """The figures of the bridge."""
    if status is None:
        yield Figure("bridge_up", (), (), 0)
        return
    bridge: str = status["bridge"]
    yield Figure("bridge_up", (), (bridge,), 1)
    for peer in status["peers"]:
        labels, source = (peer["machine"],), (bridge, peer["bridge"])
        yield Figure("bridge_connected", labels, source, peer["connected"])
        if peer["clock_uncertainty_ns"] is not None:
            offset, off = peer["clock_offset_ns"] / 1e9, peer["clock_uncertainty_ns"] / 1e9
            yield Figure("bridge_clock_offset_seconds", labels, source, offset)
            yield Figure("bridge_clock_uncertainty_seconds", labels, source, off)
        for direction in ("sending", "receiving"):
            for stream in peer[direction]:
                yield from _of_stream(labels[0], direction, source, stream)


def _of_stream(
    peer: str, direction: str, bridges: Source, stream: dict[str, object]
) -> Iterator[Figure]:
    labels = (str(stream["topic"]), peer, direction)
    source = (*bridges, direction, str(stream["publisher"]))
    values = {
        "bridge_samples": ("samples",),
        "bridge_bytes": ("bytes",),
        "bridge_lost_samples": LOST[direction],
    }
    for metric, keys in values.items():
        yield Figure(metric, labels, source, sum(float(str(stream[key])) for key in keys))
