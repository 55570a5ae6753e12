"""``tensorbus trace``: records the times of samples in each process (docs/tracing.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorbus._base.signals import stop_signals
from tensorbus._base.text import json_text
from tensorbus._inspection.units import shown
from tensorbus._trace.durations import Durations, hops_of, paths_of, table_of
from tensorbus._trace.events import Source
from tensorbus._trace.perfetto import json_of
from tensorbus._trace.recording import Recording
from tensorbus._trace.samples import samples_of

PrintRecord = Callable[[str, Mapping[str, Any]], None]  # of a kind, and its fields

_HEAD = ("", "in", "samples", "p50 ms", "p99 ms")


def run(
    topics: Sequence[str] = (),
    output: str = "trace.json",
    seconds: float | None = None,
    domain: str | None = None,
    print_record: PrintRecord | None = None,
) -> int:
    """Records for `seconds`, or until Ctrl-C; then writes the file and prints the tables.

    Args:
        topics: names of topics; empty for all.
        output: the file.
        seconds: how long to record; `None`: until Ctrl-C.
        domain: see `tensorbus.participant`.
        print_record: called with a kind, "hop" or "path", and each row, instead of printing tables.

    Returns:
        The exit status: 1 if no process could be traced.

    Raises:
        OSError: the file cannot be written; nothing was recorded.
    """
    path = Path(output)
    is_new = not path.exists()
    with path.open("a"):
        pass  # checks that the file can be written; its content is kept until there are events
    recording = Recording(list(topics), domain)
    with stop_signals() as stopped:
        deadline = None if seconds is None else time.monotonic() + seconds
        print("tracing; Ctrl-C ends it", file=sys.stderr, flush=True)
        recording.run(
            lambda: bool(stopped) or (deadline is not None and time.monotonic() >= deadline)
        )
        recording.end()
    has_events = any(source.state in ("traced", "ended") for source in recording.sources)
    # The file is written before the tables are printed: the terminal may be gone.
    summary = _write(recording, path) if has_events else None
    if not has_events and is_new:
        path.unlink()
    for line in _troubles(recording.sources, full=recording.is_full):
        print(f"tensorbus: {shown(line)}", file=sys.stderr)
    if summary is not None:
        names = [source.name for source in recording.sources]
        if print_record is None:
            print(f"{_text_of(summary, names)}: {path}, for https://ui.perfetto.dev")
        else:
            _print_records(summary, names, print_record)
    return 0 if has_events else 1


class _Summary(NamedTuple):
    hops: list[Durations]
    paths: list[Durations]
    events: int


def _write(recording: Recording, path: Path) -> _Summary:
    """Writes the file and returns what is printed."""
    events = recording.events()
    samples = samples_of(events)
    trace = json_of(samples, recording.topic_of, recording.sources, recording.threads_of(events))
    path.write_text(json_text(trace))
    topic_of = recording.topic_of
    return _Summary(hops_of(samples, topic_of), paths_of(samples, topic_of), len(events))


def _text_of(summary: _Summary, names: Sequence[str]) -> str:
    tables = [
        "\n".join(_lines([(title, *_HEAD[1:]), *table_of(rows, names)]))
        for title, rows in (("hop", summary.hops), ("path", summary.paths))
    ]
    return "\n\n".join([*tables, f"{summary.events} events"])


def _print_records(summary: _Summary, names: Sequence[str], print_record: PrintRecord) -> None:
    for kind, rows in (("hop", summary.hops), ("path", summary.paths)):
        for row in rows:
            values = {
                kind: row.name,
                "process": names[row.process],
                "samples": len(row.times_ns),
                "p50_ns": row.percentile(50),
                "p99_ns": row.percentile(99),
            }
            print_record(kind, values)


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table: the first two columns are text, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield shown("  ".join(cells).rstrip())


def _troubles(sources: Sequence[Source], *, full: bool) -> Iterator[str]:
    if not sources:
        yield "there is no process in this domain"
    if full:
        yield "the trace has reached its limit of events and has ended early"
    for source in sources:
        if source.state == "refused":
            yield f"{source.name} cannot be traced: {source.why}"
        elif source.state == "asked":
            yield f"{source.name} does not answer: it is stopped, or very busy"
        if source.overwritten:
            yield f"{source.name}: {source.overwritten} events were lost: not read in time"
        if source.incomplete:
            yield f"{source.name}: {source.incomplete} events were not completed"
