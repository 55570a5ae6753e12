"""The bus beside its floors at a glance: the short table of the README."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from tables import Rows, Table, number


class Line(NamedTuple):
    label: str
    bench: str
    row: str
    key: str
    floor: str = ""
    floor_label: str = ""


LINE = ("line, half a round trip", "a cache line from core to core")
WORD = ("line, polled in Python", "a word in shared memory, polled in Python")
LINES = [
    Line("one way, C++, polled, 24.9 MB loan", "polled_latency", "24.9 MB loan", "p50_ns", *LINE),
    Line("the same, 64 bytes", "polled_latency", "64 B loan", "p50_ns", *LINE),
    Line(
        "one way, C++, the receiver sleeps",
        "blocking_latency",
        "64 B loan, asleep",
        "p50_ns",
        "futex",
        "a futex",
    ),
    Line(
        "publishing 24.9 MB that are not in the bus's memory",
        "copied_publish",
        "24.9 MB: publish() with a copy",
        "p50_ns",
        "24.9 MB: memcpy to a memfd",
        "a warm `memcpy`",
    ),
    Line(
        "one way, Python, polled, 24.9 MB loan, torch tensor in hand",
        "python_latency",
        "24.9 MB torch loan",
        "p50_ns",
        *WORD,
    ),
    Line("the same, 64 bytes", "python_latency", "bytes 64", "p50_ns", *WORD),
    Line(
        "the same, a dict of 100 torch tensors, for each of them",
        "python_latency",
        "100-tensor dict",
        "per_tensor_ns",
    ),
    Line(
        "one way into asyncio, 64 bytes",
        "python_asyncio",
        "asyncio: 64 bytes",
        "p50_ns",
        "asyncio: eventfd",
        "an eventfd in the same loop",
    ),
    Line(
        "`import tensorbus`, with the interpreter's start",
        "python_import",
        "import tensorbus",
        "wall_ns",
        "import numpy",
        "`import numpy`",
    ),
    Line("1,000 topics: until all are connected", "scale", "1000 topics", "discovery_ns"),
]


def floor_table(results: dict[str, Rows]) -> Table:
    """Of what was measured."""

    def median(line: Line, row: str) -> str:
        return number(line.key, statistics.median(results[line.bench][row][line.key]))

    table = [["", "Tensorbus", "floor"]]
    for line in LINES:
        if line.bench in results:
            floor = f"{median(line, line.floor)}, {line.floor_label}" if line.floor else ""
            table.append([line.label, median(line, line.row), floor])
    return table
