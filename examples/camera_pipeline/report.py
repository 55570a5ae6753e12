"""The table, and the progress before it."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from records import read_arrivals, read_stats


class Progress:
    """Shows how many frames are done: on one line of a terminal, else every few seconds."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._terminal = sys.stdout.isatty()
        self._next = 0.0 if self._terminal else time.monotonic() + 3
        self._finished = False

    def show(self, done: int) -> None:
        """Call it as often as you like."""
        if self._finished or (done < self._total and time.monotonic() < self._next):
            return
        self._finished = done == self._total
        self._next = time.monotonic() + (0.1 if self._terminal else 3)
        end = "\r" if self._terminal and not self._finished else "\n"
        print(f"   {self._title:<24}{done:>4} of {self._total} frames", end=end, flush=True)


def measures(results: Path, paced: int) -> list[tuple[str, str]]:
    """What the table says about one pipeline, row by row."""
    model, sink = read_arrivals(results / "model.txt"), read_arrivals(results / "sink.txt")
    _, sent, arrived = sink.T
    seconds = (arrived[-1] - arrived[paced]) / 1e9
    # A frame that comes before the features of the last one went out has to wait for the network.
    unqueued = np.flatnonzero(model[1:paced, 1] > sent[: paced - 1]) + 1
    frames, features = model[unqueued], sink[:paced]
    stats = [read_stats(results / name) for name in ("camera.json", "model.json")]
    copied = sum(stat["bytes_copied"] for stat in stats)
    return [
        ("frames", f"{len(sink)}"),
        ("frames/s", f"{(len(sink) - paced - 1) / seconds:.1f}"),
        ("frames that found the model idle", f"{len(frames)} of {paced - 1}"),
        ("camera to model, p50", _latency(frames, 50)),
        ("camera to model, p99", _latency(frames, 99)),
        ("model to sink, p50", _latency(features, 50)),
        ("model to sink, p99", _latency(features, 99)),
        ("bytes copied per frame", f"{copied / len(sink):,.0f}"),
    ]


def _latency(arrivals: np.ndarray, percent: int) -> str:
    if len(arrivals) == 0:
        return "-"
    _, sent, arrived = arrivals.T
    return f"{np.percentile(arrived - sent, percent) / 1e6:.3f} ms"


def table(columns: dict[str, Sequence[tuple[str, str]]]) -> str:
    """Rows of the same names side by side, under the names of the columns."""
    names = [name for name, _ in next(iter(columns.values()))]
    cells = [["", *columns]]
    for row, name in enumerate(names):
        cells.append([name, *(values[row][1] for values in columns.values())])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = []
    for first, *rest in cells:
        numbers = [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(["  " + first.ljust(widths[0]), *numbers]))
    lines.insert(1, "  " + "-" * (len(lines[0]) - 2))
    return "\n".join(lines)
