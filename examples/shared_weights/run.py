"""Several workers, one copy of the weights: how much memory each way takes.

    python examples/shared_weights/run.py [--width 768] [--layers 6] [--workers 1 2 4 8]

Each worker answers one request. The figures are the workers' proportional set size, summed: what
several processes share counts once (Linux, /proc/PID/smaps_rollup).
"""

from __future__ import annotations

import argparse
import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import torch

import tensorbus as tb
from model import encoder


def memory_mib() -> float:
    """The proportional set size of this process."""
    with open("/proc/self/smaps_rollup") as lines:
        kib = next(line for line in lines if line.startswith("Pss:")).split()[1]
    return int(kib) / 1024


def worker(link: Connection, shape: tuple[int, int], weights: Any) -> None:
    """Builds the model around the weights, answers a request, and tells what it takes."""
    torch.set_num_threads(1)
    if isinstance(weights, tb.Handle):
        with torch.device("meta"):  # no memory is spent on weights that are replaced
            model = encoder(*shape)
        tb.load_state_dict(model, weights)
    else:
        model = encoder(*shape)
        model.load_state_dict(torch.load(weights))
    with torch.inference_mode():
        answer = model(torch.arange(16)[None]).sum()
    link.send(float(answer))
    link.recv()  # until all have answered
    link.send(memory_mib())
    link.recv()


def measure(workers: int, shape: tuple[int, int], weights: Any) -> tuple[float, set[float]]:
    """The memory of so many workers in MiB, and what they answered."""
    context = multiprocessing.get_context("spawn")
    links, processes = [], []
    for _ in range(workers):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=worker, args=(theirs, shape, weights), daemon=True))
        processes[-1].start()
        links.append(ours)
    answers = {round(link.recv(), 2) for link in links}
    for link in links:
        link.send("measure")
    total = sum(link.recv() for link in links)
    for link, process in zip(links, processes, strict=True):
        link.send("end")
        process.join()
    return total, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--file", default="/tmp/shared_weights.pt")
    options = parser.parse_args()
    shape = (options.width, options.layers)

    model = encoder(*shape)
    torch.save(model.state_dict(), options.file)
    size = sum(weight.nbytes for weight in model.state_dict().values()) / 2**20
    print(f"weights: {size:.0f} MiB")
    print(f"{'workers':>8} {'a copy each':>12} {'one copy':>12}   MiB, all workers")
    with tb.share(model.state_dict()) as shared:
        del model
        for workers in options.workers:
            copies, expected = measure(workers, shape, options.file)
            once, answers = measure(workers, shape, shared.handle)
            assert answers == expected, "the answers differ"
            print(f"{workers:>8} {copies:>12.0f} {once:>12.0f}")


if __name__ == "__main__":
    main()
