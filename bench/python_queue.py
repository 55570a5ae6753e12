"""Queues and handles between two Python processes, beside torch.multiprocessing.

One way: from just before `put()` to the moment at which `get()`, which sleeps until then, has
returned the tensor in the other process. One message at a time. "fresh" is a new tensor each time,
which has to get into shared memory; "shared" is one that is there already: for PyTorch after
`share_memory_()`, for Tensorbus made by `tensorbus.empty()`.

The floor is a round trip of two sleepers over eventfds, in Python. `share`, `attach` and `release`
are timed each in its own process, with a handle that crosses as bytes; the row is their sum.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as torch_multiprocessing

import tensorbus as tb
from harness.cores import core_pair, pin_to
from harness.report import is_quick, percentile, report

IMAGE = (1920, 1080, 3)  # of float32: 24.9 MB
SMALL = (16,)  # 64 bytes

now = time.perf_counter_ns
spawn = multiprocessing.get_context("spawn")


def shared_by_torch(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.zeros(shape).share_memory_()


def shared_by_us(shape: tuple[int, ...]) -> torch.Tensor:
    made: torch.Tensor = tb.empty(shape, torch.float32)
    return made.zero_()


# name, which queue, shape, what makes the tensor, and whether for each message anew
ROWS: list[tuple[str, str, tuple[int, ...], Callable[[Any], torch.Tensor], bool]] = [
    ("torch Queue, 24.9 MB fresh", "torch", IMAGE, torch.zeros, True),
    ("tensorbus Queue, 24.9 MB fresh", "tensorbus", IMAGE, torch.zeros, True),
    ("tensorbus Queue, 24.9 MB fresh by tb.empty", "tensorbus", IMAGE, shared_by_us, True),
    ("torch Queue, 24.9 MB shared", "torch", IMAGE, shared_by_torch, False),
    ("tensorbus Queue, 24.9 MB shared", "tensorbus", IMAGE, shared_by_us, False),
    ("torch Queue, 64 B fresh", "torch", SMALL, torch.zeros, True),
    ("tensorbus Queue, 64 B fresh", "tensorbus", SMALL, torch.zeros, True),
    ("torch Queue, 64 B shared", "torch", SMALL, shared_by_torch, False),
    ("tensorbus Queue, 64 B shared", "tensorbus", SMALL, shared_by_us, False),
]


def consume(link: Connection, queues: dict[str, Any], events: tuple[int, int]) -> None:
    """The other process: does what it is told, and tells when it had what."""
    torch.set_num_threads(1)
    pin_to(core_pair().receiver)
    ping, pong = (os.dup(event) for event in events)
    while True:
        verb, argument = link.recv()
        if verb == "get":
            for _ in range(argument):
                tensor = queues[link.recv()].get()
                there = now()
                del tensor
                link.send(there)
        elif verb == "attach":
            begin = now()
            tensor = tb.attach(argument, domain=queues["domain"])
            there = now()
            del tensor
            link.send((there - begin, now() - there))
        elif verb == "ping":
            for _ in range(argument):
                os.eventfd_read(ping)
                os.eventfd_write(pong, 1)
        else:
            return


def one_way(link: Connection, queues: dict[str, Any], row: Any, messages: int) -> list[int]:
    _, which, shape, make, anew = row
    tensor = make(shape)
    times = []
    link.send(("get", messages))
    for _ in range(messages):
        if anew:
            tensor = make(shape)
        link.send(which)
        time.sleep(0.0005)  # until the other one sleeps in get(): nothing else tells
        begin = now()
        queues[which].put(tensor)
        times.append(link.recv() - begin)
    return times


def handles(link: Connection, times: int, domain: str) -> tuple[list[int], list[int], list[int]]:
    tensor = shared_by_us(SMALL)
    shares, attaches, releases = [], [], []
    for _ in range(times):
        begin = now()
        with tb.share(tensor, domain=domain) as shared:
            shares.append(now() - begin)
            link.send(("attach", bytes(shared.handle)))
            attach, release = link.recv()
            attaches.append(attach)
            releases.append(release)
    return shares, attaches, releases


def round_trips(link: Connection, events: tuple[int, int], times: int) -> list[int]:
    ping, pong = events
    link.send(("ping", times))
    trips = []
    for _ in range(times):
        begin = now()
        os.eventfd_write(ping, 1)
        os.eventfd_read(pong)
        trips.append(now() - begin)
    return trips


def figures(times: list[int]) -> dict[str, float]:
    times = times[len(times) // 10 :]  # warm
    return {"p50_ns": percentile(times, 0.5), "p99_ns": percentile(times, 0.99)}


def main() -> None:
    quick = is_quick(__doc__)
    torch.set_num_threads(1)
    domain = tb.participant().domain
    queues: dict[str, Any] = {
        "torch": torch_multiprocessing.get_context("spawn").Queue(),
        "tensorbus": tb.Queue(maxsize=256),
        "domain": domain,
    }
    events = (os.eventfd(0), os.eventfd(0))
    for event in events:
        os.set_inheritable(event, True)
    ours, theirs = spawn.Pipe()
    other = torch_multiprocessing.get_context("fork").Process(
        target=consume, args=(theirs, queues, events), daemon=True
    )
    other.start()
    pin_to(core_pair().sender)
    gc.collect()
    gc.freeze()
    gc.disable()
    for repetition in range(2 if quick else 3):
        trips = round_trips(ours, events, 200 if quick else 2_000)
        report("eventfd, a round trip", repetition, **figures(trips))
        for row in ROWS:
            large = row[2] == IMAGE and row[4]
            times = one_way(ours, queues, row, (30 if large else 150) // (3 if quick else 1))
            report(row[0], repetition, **figures(times))
        shares, attaches, releases = handles(ours, 100 if quick else 1_000, domain)
        sums = [sum(parts) for parts in zip(shares, attaches, releases, strict=True)]
        report("share, attach, release", repetition, **figures(sums))
        report("of which attach", repetition, **figures(attaches))
    ours.send(("end", None))
    other.join()


if __name__ == "__main__":
    main()
