"""The bus beside its floors at a glance: the short tables of docs/performance.md."""

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


QUEUES = [
    Line(
        "`put` to `get`, 24.9 MB, a fresh tensor each time, made by `tb.empty`",
        "python_queue",
        "tensorbus Queue, 24.9 MB fresh by tb.empty",
        "p50_ns",
        "torch Queue, 24.9 MB fresh",
        "`torch.multiprocessing.Queue` with a fresh tensor",
    ),
    Line(
        "the same, any other fresh tensor: it is copied once",
        "python_queue",
        "tensorbus Queue, 24.9 MB fresh",
        "p50_ns",
        "torch Queue, 24.9 MB fresh",
        "the same",
    ),
    Line(
        "the same, a tensor that is shared already",
        "python_queue",
        "tensorbus Queue, 24.9 MB shared",
        "p50_ns",
        "torch Queue, 24.9 MB shared",
        "`torch.multiprocessing.Queue` with a shared tensor",
    ),
    Line(
        "64 B tensors through three processes, each of many",
        "python_relay",
        "64 B tensor, tensorbus Queue",
        "each_ns",
        "64 B tensor, torch Queue",
        "`torch.multiprocessing.Queue`",
    ),
    Line(
        "share, attach, release",
        "python_queue",
        "share, attach, release",
        "p50_ns",
        "eventfd, a round trip",
        "a round trip of two sleepers over eventfds",
    ),
    Line(
        "a node's callback, asyncio, `async def`, each of many",
        "python_nodes",
        "node, asyncio, async def",
        "each_ns",
        "pyzmq, asyncio",
        "pyzmq with asyncio",
    ),
]


def floor_table(results: dict[str, Rows], lines: list[Line] = LINES) -> Table:
    """Of what was measured."""

    def median(line: Line, row: str) -> str:
        return number(line.key, statistics.median(results[line.bench][row][line.key]))

    table = [["", "Tensorbus", "floor"]]
    for line in lines:
        if line.bench in results:
            floor = f"{median(line, line.floor)}, {line.floor_label}" if line.floor else ""
            table.append([line.label, median(line, line.row), floor])
    return table
