"""The trace as a file for https://ui.perfetto.dev: the JSON of the Trace Event Format.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorbus._trace.durations import Samples, TopicOf
from tensorbus._trace.events import Event, Source
from tensorbus._trace.samples import Receipt, Traced

_SLICE_US = 1  # length of the slice that shows an instant: flows begin and end in slices
_UNKNOWN_PID = 1 << 30  # first number for processes of other PID namespaces


def json_of(
    samples: Samples,
    topic_of: TopicOf,
    sources: Sequence[Source],
    threads: Mapping[tuple[int, int], str],
) -> dict[str, Any]:
    """The trace as JSON.

    Each process has its threads, with their publishes, receives and first uses, and a row for each
    topic with the samples that the process holds. Arrows lead from a publish to each receive, and
    from a receive to the publish of each child of the sample.

    Args:
        samples: the samples with their events.
        topic_of: the topic of a sample.
        sources: the processes.
        threads: known names of threads, by index of the source and thread number.
    """
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [*_names(samples, sources, threads), *_events(samples, topic_of, sources)],
    }


def _events(samples: Samples, topic_of: TopicOf, sources: Sequence[Source]) -> Iterator[Any]:
    writer = _Writer(sources, _begin(samples))
    for sample, traced in samples.items():
        name = topic_of(sample)
        if traced.published is not None:
            yield writer.point("publish", name, sample.sequence, traced.published)
        for receipt in traced.receipts:
            yield from _receipt(writer, name, sample.sequence, traced, receipt)
            for child, published in traced.children_of(receipt.received.process, samples):
                yield from writer.arrow(f"to {topic_of(child)}", receipt.received, published)


def _receipt(
    writer: _Writer, topic: str, sequence: int, traced: Traced, receipt: Receipt
) -> Iterator[Any]:
    yield writer.point("receive", topic, sequence, receipt.received)
    if receipt.used is not None:
        yield writer.point("first use", topic, sequence, receipt.used)
    if receipt.released is not None:
        yield from writer.span(topic, sequence, receipt.received, receipt.released)
    if traced.published is not None:
        yield from writer.arrow(topic, traced.published, receipt.received)


class _Writer:
    def __init__(self, sources: Sequence[Source], begin_ns: int) -> None:
        self._pids = pids_of(sources)
        self._begin_ns = begin_ns
        self._last_id = 0

    def point(self, what: str, topic: str, sequence: int, event: Event) -> dict[str, Any]:
        return {
            **self._at(event),
            "ph": "X",
            "dur": _SLICE_US,
            "cat": what,
            "name": f"{what} {topic}",
            "args": {"sequence": sequence},
        }

    def span(self, topic: str, sequence: int, begin: Event, end: Event) -> Iterator[Any]:
        """A span on a row of the process, not of the thread: a thread's spans may overlap."""
        common = {"cat": "held", "name": f"held {topic}", "id": self._next()}
        yield {**self._at(begin), **common, "ph": "b", "args": {"sequence": sequence}}
        yield {**self._at(end), **common, "ph": "e"}

    def arrow(self, name: str, begin: Event, end: Event) -> Iterator[Any]:
        common = {"cat": "flow", "name": name, "id": self._next()}
        yield {**self._at(begin), **common, "ph": "s"}
        yield {**self._at(end), **common, "ph": "f", "bp": "e"}

    def _next(self) -> int:
        self._last_id += 1
        return self._last_id

    def _at(self, event: Event) -> dict[str, Any]:
        ts = (event.time_ns - self._begin_ns) / 1000
        return {"pid": self._pids[event.process], "tid": event.thread, "ts": ts}


def _names(
    samples: Samples, sources: Sequence[Source], threads: Mapping[tuple[int, int], str]
) -> Iterator[Any]:
    pids = pids_of(sources)
    for process in sorted({event.process for event in _all(samples)}):
        name = {"name": sources[process].process or sources[process].participant[:8]}
        yield {"ph": "M", "name": "process_name", "pid": pids[process], "args": name}
    for (process, thread), text in threads.items():
        at = {"pid": pids[process], "tid": thread}
        yield {"ph": "M", "name": "thread_name", **at, "args": {"name": text}}


def pids_of(sources: Sequence[Source]) -> list[int]:
    """A number for each source: its pid, which participants of one process share."""
    return [source.pid or _UNKNOWN_PID + number for number, source in enumerate(sources)]


def _begin(samples: Samples) -> int:
    return min((event.time_ns for event in _all(samples)), default=0)


def _all(samples: Samples) -> Iterator[Event]:
    for traced in samples.values():
        if traced.published is not None:
            yield traced.published
        for receipt in traced.receipts:
            yield receipt.received
            yield from (event for event in (receipt.used, receipt.released) if event is not None)
