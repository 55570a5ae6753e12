"""Ray: `put` into its object store, and an actor that gets the object as its argument.

NumPy arrays are what Ray hands over without a copy, so the tensor travels as one.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from peers.peer import PATIENCE, Peer

PAGE = 4096


def receiver_class() -> Any:
    """Defined in a function, so that Ray sends it by value: its workers do not know this module."""

    class Receiver:
        def take(self, array: Any) -> tuple[int, int, int]:
            tensor = torch.from_numpy(array)
            there = time.perf_counter_ns()
            int(tensor[::PAGE].sum())
            read = time.perf_counter_ns()
            del tensor
            return there, read, time.perf_counter_ns() - read

    return Receiver


class Ray(Peer):
    name = "Ray objects"
    module = "ray"
    receives = False

    def open_sender(self) -> None:
        import ray

        self.ray = ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        self.actor = ray.remote(receiver_class()).remote()
        self.send(self.make(64))
        self.answer()

    def send(self, message: Any) -> None:
        self.pending = self.actor.take.remote(self.ray.put(message.numpy()))

    def answer(self) -> tuple[int, int, int]:
        stamps: tuple[int, int, int] = self.ray.get(self.pending, timeout=PATIENCE)
        return stamps

    def close(self) -> None:
        self.ray.shutdown()
