"""How many tensors on a GPU go from one Python process to another, beside torch.multiprocessing.

Each row sends as fast as it can and ends when the last one has arrived. "one": the same tensor
again and again; "fresh": a new one of 1 MiB each time. The queues hold 64 items. PyTorch's queue is
measured in the same run; where PyTorch has no GPU (over the tests' stand-in for the driver) only
Tensorbus's are, with the bare memory.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as torch_multiprocessing

import tensorbus as tb
from harness.cores import core_pair, pin_to
from harness.report import is_quick, report

HAS_TORCH = torch.cuda.is_available()
IMAGE = (1920, 1080, 3)  # of float32: 24.9 MB
FRESH = (1 << 18,)
spawn = multiprocessing.get_context("spawn")


def new_in_bus(shape: Any) -> Any:
    until = time.monotonic() + 30
    while True:
        try:
            return tb.empty(shape, torch.float32 if HAS_TORCH else "float32", device="cuda")
        except tb.OutOfMemory:  # what was sent before may still be on its way back
            if time.monotonic() > until:
                raise
            time.sleep(0.001)


def new_of_torch(shape: Any) -> Any:
    return torch.empty(shape, dtype=torch.float32, device="cuda")


# name: where it goes through, what makes a tensor, shape, whether each is a new one
ROWS: dict[str, tuple[str, Callable[[Any], Any], Any, bool]] = {
    "torch Queue, one 24.9 MB": ("torch", new_of_torch, IMAGE, False),
    "tensorbus Queue, one 24.9 MB": ("tensorbus", new_in_bus, IMAGE, False),
    "tensorbus topic, one 24.9 MB": ("topic", new_in_bus, IMAGE, False),
    "torch Queue, fresh": ("torch", new_of_torch, FRESH, True),
    "tensorbus Queue, fresh": ("tensorbus", new_in_bus, FRESH, True),
    "tensorbus Queue, fresh of PyTorch's": ("tensorbus", new_of_torch, FRESH, True),
    "tensorbus topic, fresh": ("topic", new_in_bus, FRESH, True),
}


def consume(link: Any, queues: dict[str, Any]) -> None:
    """The other process: takes what it is told to, and says when it has it."""
    pin_to(core_pair().receiver)
    with tb.Subscriber("frames", domain=queues["domain"], max_held=64) as subscriber:
        link.send("ready")
        while (told := link.recv()) is not None:
            which, count = told
            if which == "topic":
                for _ in range(count):
                    tensor = subscriber.receive(60).data
                    del tensor
            else:
                for _ in range(count):
                    tensor = queues[which].get()
                    del tensor
            link.send("done")


def measure(link: Any, send: Callable[[Any], object], row: Any, count: int) -> float:
    which, make, shape, anew = row
    tensor = make(shape)
    link.send((which, count))
    begin = time.perf_counter_ns()
    for _ in range(count):
        if anew:
            tensor = make(shape)
        send(tensor)
    link.recv()
    return (time.perf_counter_ns() - begin) / count


def main() -> None:
    quick = is_quick(__doc__)
    count = 200 if quick else 2_000
    queues: dict[str, Any] = {
        "tensorbus": tb.Queue(maxsize=64),
        "domain": tb.participant().domain,
    }
    if HAS_TORCH:
        queues["torch"] = torch_multiprocessing.get_context("spawn").Queue(64)
    here, there = spawn.Pipe()
    other = spawn.Process(target=consume, args=(there, queues), daemon=True)
    other.start()
    there.close()
    assert here.recv() == "ready"
    pin_to(core_pair().sender)
    with tb.Publisher("frames", reliable=True, depth=64) as publisher:
        if not publisher.wait_for_subscribers(timeout=60):
            raise SystemExit("no subscriber came")
        sends = {name: queue.put for name, queue in queues.items() if name != "domain"}
        sends["topic"] = publisher.publish
        for repetition in range(2 if quick else 5):
            for name, row in ROWS.items():
                if (row[0] == "torch" or row[1] is new_of_torch) and not HAS_TORCH:
                    continue
                each = measure(here, sends[row[0]], row, count)
                report(name, repetition, each_ns=each, items_per_second=1e9 / each)
        here.send(None)
        other.join()


if __name__ == "__main__":
    main()
