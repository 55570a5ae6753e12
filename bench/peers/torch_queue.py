"""`torch.multiprocessing.Queue`: moves a tensor to shared memory, and sends its descriptor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing

from peers.peer import PATIENCE, Peer


class TorchQueue(Peer):
    name = "torch.multiprocessing.Queue, fresh"
    fresh = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.queue = torch.multiprocessing.get_context("fork").Queue()

    def send(self, message: Any) -> None:
        self.queue.put(message)

    def receive(self) -> torch.Tensor | None:
        tensor: torch.Tensor = self.queue.get(timeout=PATIENCE)
        return tensor

    def close(self) -> None:
        self.queue.close()


class SharedTorchQueue(TorchQueue):
    """One tensor that is shared already, again and again: who may write to it is up to the user."""

    name = "torch.multiprocessing.Queue, shared"
    fresh = False
    streams = False

    def make(self, size: int) -> torch.Tensor:
        return super().make(size).share_memory_()
