"""Small tensors through three Python processes, beside torch.multiprocessing.

A puts items into a queue; B gets each, and puts it into another; C gets them there, and sees to it
that all have come, in their order, with what A put into them. The time for each item: from just
before A puts the first to the moment at which C has seen the last, divided by their number.

Every item is new: 64 bytes that hold its number. At most 256 wait in a queue. The floor is 64 bytes
that are no tensor through queues of the standard library, which writes them into a pipe.
"""

from __future__ import annotations

import gc
import multiprocessing
import operator
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.multiprocessing as torch_multiprocessing

import tensorbus as tb
from harness.report import is_quick, report

WAITING = 256
PATIENCE = 60.0  # seconds; only a failure takes as long

fork = torch_multiprocessing.get_context("fork")


def tensor_of(number: int) -> torch.Tensor:
    return torch.full((8,), number)


def bytes_of(number: int) -> bytes:
    return number.to_bytes(64, "little")


class Row(NamedTuple):
    name: str
    queue: Callable[[], Any]
    item: Callable[[int], Any]
    same: Callable[[Any, Any], bool]
    items: int


ROWS = [
    Row(
        "64 bytes, multiprocessing.Queue",
        lambda: multiprocessing.get_context("fork").Queue(WAITING),
        bytes_of,
        operator.eq,
        50_000,
    ),
    Row(
        "64 B tensor, torch Queue",
        lambda: fork.Queue(WAITING),
        tensor_of,
        torch.equal,
        5_000,  # each takes many times as long
    ),
    Row(
        "64 B tensor, tensorbus Queue",
        lambda: tb.Queue(maxsize=WAITING),
        tensor_of,
        torch.equal,
        100_000,
    ),
]


def pass_on(arrivals: Any, departures: Any, items: int, done: Any) -> None:
    """B. It stays until C is done: PyTorch's tensors come from who sent them, when they are got."""
    torch.set_num_threads(1)
    for _ in range(items):
        departures.put(arrivals.get(timeout=PATIENCE), timeout=PATIENCE)
    done.wait(PATIENCE)


def check(row: Row, arrivals: Any, items: int, end: Any) -> None:
    """C. Says when it was done, or what was wrong."""
    torch.set_num_threads(1)
    for number in range(items):
        item = arrivals.get(timeout=PATIENCE)
        if not row.same(item, row.item(number)):
            end.send(f"{row.name}: {item} came as number {number}")
            return
    when = time.perf_counter_ns()
    end.send(when if arrivals.empty() else f"{row.name}: more came than {items}")


def relay(row: Row, items: int) -> float:
    """A. Nanoseconds for each of so many."""
    first, second = row.queue(), row.queue()
    end, there = fork.Pipe(duplex=False)
    done = fork.Event()
    others = [
        fork.Process(target=pass_on, args=(first, second, items, done), daemon=True),
        fork.Process(target=check, args=(row, second, items, there), daemon=True),
    ]
    for other in others:
        other.start()
    begin = time.perf_counter_ns()
    for number in range(items):
        first.put(row.item(number), timeout=PATIENCE)
    if not end.poll(PATIENCE):
        raise RuntimeError(f"{row.name}: the last never came")
    when = end.recv()
    if isinstance(when, str):
        raise RuntimeError(when)
    done.set()
    for other in others:
        other.join()
    for queue in (first, second):
        queue.close()
    return float(when - begin) / items


def main() -> None:
    quick = is_quick(__doc__)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    gc.disable()
    for repetition in range(1 if quick else 3):
        for row in ROWS:
            items = row.items // 40 if quick else row.items
            each = relay(row, items)
            report(row.name, repetition, each_ns=each, items_per_second=1e9 / each, items=items)


if __name__ == "__main__":
    main()
