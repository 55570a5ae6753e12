"""Ray: `put` into its object store, and an actor that gets the object as its argument.

NumPy arrays are what Ray hands over without a copy, so the tensor travels as one.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from harness.cores import core_pair
from harness.own_ray import start_ray
from peers.peer import PATIENCE, Peer


def receiver_class() -> Any:
    """Defined in a function, so that Ray sends it by value: its workers do not know this module."""

    class Receiver:
        def __init__(self, core: int) -> None:
            os.sched_setaffinity(0, {core})

        def take(self, array: Any) -> tuple[int, int, int]:
            tensor = torch.from_numpy(array)
            there = time.perf_counter_ns()
            int(tensor[::4096].sum())
            read = time.perf_counter_ns()
            del tensor
            return there, read, time.perf_counter_ns() - read

    return Receiver


class Ray(Peer):
    name = "Ray objects"
    module = "ray"
    receives = False
    streams = False
    starts_slowly = True
    patience = 5 * PATIENCE  # its processes start for minutes if others compute, too

    def open_sender(self) -> None:
        core = os.sched_getaffinity(0)
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # its daemons are not ours to pin
        self.ray = ray = start_ray()
        self.actor = ray.remote(receiver_class()).remote(core_pair().receiver)
        self.send(self.make(64))
        self.answer()
        os.sched_setaffinity(0, core)

    def send(self, message: Any) -> None:
        self.pending = self.actor.take.remote(self.ray.put(message.numpy()))

    def answer(self) -> tuple[int, int, int]:
        stamps: tuple[int, int, int] = self.ray.get(self.pending, timeout=self.patience)
        return stamps

    def close(self) -> None:
        self.ray.shutdown()
