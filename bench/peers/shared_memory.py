"""`multiprocessing.shared_memory`, and a queue for the blocks' names."""

from __future__ import annotations

import multiprocessing
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import torch

from peers.peer import PATIENCE, Peer


def tensor_in(block: SharedMemory, size: int) -> torch.Tensor:
    return torch.frombuffer(block.buf, dtype=torch.uint8, count=size)


class SharedBlocks(Peer):
    """A block for each tensor, which the receiver unlinks, as in the documentation's example."""

    name = "shared_memory + Queue, fresh"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        resource_tracker.ensure_running()  # one for both, which then has nothing to complain of
        self.queue: Any = multiprocessing.get_context("fork").Queue()
        self.block: SharedMemory | None = None

    def send(self, message: Any) -> None:
        block = SharedMemory(create=True, size=message.nbytes)
        tensor_in(block, message.nbytes).copy_(message)
        self.queue.put((block.name, message.nbytes))
        block.close()

    def receive(self) -> torch.Tensor | None:
        name, size = self.queue.get(timeout=PATIENCE)
        self.block = SharedMemory(name)
        return tensor_in(self.block, size)

    def release(self) -> None:
        if self.block is not None:
            self.block.close()
            self.block.unlink()
            self.block = None

    def close(self) -> None:
        self.queue.close()


class OneBlock(SharedBlocks):
    """One block that both keep: the least that is sent is its name. Nothing guards its bytes."""

    name = "shared_memory + Queue, one block"
    streams = False

    def make(self, size: int) -> torch.Tensor:
        self.block = SharedMemory(create=True, size=size)
        self.stack.callback(self.block.unlink)
        return tensor_in(self.block, size)

    def send(self, message: Any) -> None:
        assert self.block is not None
        self.queue.put((self.block.name, message.nbytes))

    def receive(self) -> torch.Tensor | None:
        name, size = self.queue.get(timeout=PATIENCE)
        if self.block is None or self.block.name != name:
            self.block = SharedMemory(name)
        return tensor_in(self.block, size)

    def release(self) -> None:
        pass

    def close(self) -> None:
        super().close()
        self.stack.close()
