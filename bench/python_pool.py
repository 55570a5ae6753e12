"""A worker pool's items: each goes there, is looked at, and its result comes back, in order.

One worker on the other core, many items at once, so that it is a rate; beside PyTorch's pool.
Tensors are made for each item anew, off the clock.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import torch.multiprocessing

import tensorbus as tb
from harness.cores import core_pair, pin_to
from harness.report import is_quick, report

LARGE = 1 << 20


def pin() -> None:
    torch.set_num_threads(1)
    pin_to(int(os.environ["TENSORBUS_BENCH_WORKER_CORE"]))


def look(tensor: torch.Tensor) -> int:
    return tensor.numel()


def look_when_pinned(_: None, tensor: torch.Tensor) -> int:
    """Of the bus's pool, which passes on what its initializer returned."""
    return look(tensor)


def timed(pool: Any, items: list[Any], size: int) -> float:
    begin = time.perf_counter_ns()
    results = pool.map(look, items) if not isinstance(pool, tb.WorkerPool) else pool.map(items)
    end = time.perf_counter_ns()
    if results != [size] * len(items):
        raise RuntimeError("the results are not what they should be")
    return (end - begin) / len(items)


def tensors(count: int, size: int) -> list[torch.Tensor]:
    return [torch.zeros(size, dtype=torch.uint8) for _ in range(count)]


def main() -> None:
    quick = is_quick(__doc__)
    small, large = (200, 20) if quick else (5_000, 200)
    torch.set_num_threads(1)
    cores = core_pair()
    os.environ["TENSORBUS_BENCH_WORKER_CORE"] = str(cores.receiver)
    fork = torch.multiprocessing.get_context("fork")
    with (
        tb.WorkerPool(look_when_pinned, workers=1, initializer=pin, context="fork") as ours,
        fork.Pool(1, initializer=pin) as theirs,
    ):
        pin_to(cores.sender)
        pools = {"torch Pool": theirs, "tb.WorkerPool": ours}
        for pool in pools.values():
            timed(pool, tensors(4, 64), 64)  # all have started
        for repetition in range(2 if quick else 5):
            for label, count, size in (("64 B", small, 64), ("1 MB", large, LARGE)):
                for name, pool in pools.items():
                    each = timed(pool, tensors(count, size), size)
                    report(f"{label}: {name}", repetition, each_ns=each)


if __name__ == "__main__":
    main()
