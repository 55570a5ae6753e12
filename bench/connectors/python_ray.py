"""Tensors from one Ray actor to another, beside Ray's object store.

`made`: one actor makes a tensor, another receives it and reads all of it. `passed`: the tensor
exists, and the other actor receives it and reads nothing. `born` tensors are made in memory of the
bus. Each figure is the time of one call of the driver, with its reply. The three ways take turns.
"""

from __future__ import annotations

import os
import time
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import ray
import torch

import tensorbus as tb
import tensorbus.ray
from harness.own_ray import start_ray
from harness.report import is_quick, percentile, progress, report

tensorbus.ray.register()
SIZES = {"64 B": 16, "1 MB": 250_000, "24.9 MB": 1080 * 1920 * 3, "100 MB": 25_000_000}
WAYS = ("object store", "TENSORBUS, copied", "TENSORBUS, born")


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Source:
    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.kept: Any = None

    def stored(self, elements: int) -> torch.Tensor:
        return torch.ones(elements)

    @ray.method(tensor_transport="TENSORBUS")
    def shared(self, elements: int) -> torch.Tensor:
        return torch.ones(elements)

    @ray.method(tensor_transport="TENSORBUS")
    def born(self, elements: int) -> torch.Tensor:
        return tb.empty((elements,), torch.float32).fill_(1)  # type: ignore[no-any-return]


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Receiver:
    def __init__(self) -> None:
        torch.set_num_threads(1)

    def read(self, tensor: torch.Tensor) -> float:
        return float(tensor.sum())

    def shape(self, tensor: torch.Tensor) -> int:
        return tensor.numel()


def main() -> None:
    rounds = 3 if is_quick(__doc__) else 30
    start_ray(object_store_memory=1 << 30)
    # Ray pickles tensors of an actor that has used a transport: each way has its actors.
    actors = {way: (Source.remote(), Receiver.remote()) for way in WAYS}
    made: dict[str, list[float]] = {}
    passed: dict[str, list[float]] = {}
    for size, elements in SIZES.items():
        progress(size)
        for number in range(rounds + 2):
            for way, (source, receiver) in actors.items():
                make = getattr(source, {WAYS[0]: "stored", WAYS[1]: "shared"}.get(way, "born"))
                begin = time.perf_counter_ns()
                assert ray.get(receiver.read.remote(make.remote(elements))) == elements
                between = time.perf_counter_ns()
                ref = make.remote(elements)
                ray.wait([ref], fetch_local=False)
                then = time.perf_counter_ns()
                assert ray.get(receiver.shape.remote(ref)) == elements
                end = time.perf_counter_ns()
                del ref
                if number >= 2:  # the first ones find memory
                    made.setdefault(f"{size}, {way}", []).append(between - begin)
                    passed.setdefault(f"{size}, {way}", []).append(end - then)
    ray.shutdown()
    for row in made:
        report(row, 0, made_ns=percentile(made[row], 0.5), passed_ns=percentile(passed[row], 0.5))


if __name__ == "__main__":
    main()
