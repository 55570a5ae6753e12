"""How processes pass tensors on in these programs: one class for each library.

`queue()` is a bounded queue of dicts of tensors, and `board()` has the newest weights. Who gets an
item calls `release` when it has read it.
"""

from __future__ import annotations

import queue
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import torch
import torch.multiprocessing as torch_multiprocessing

import tensorbus as tb
from harness.other_process import PATIENCE, fork

Item = dict[str, torch.Tensor]
ROOM = 16  # items that wait in a queue

torch_fork = torch_multiprocessing.get_context("fork")


class BusQueue:
    def __init__(self) -> None:
        self.queue: tb.Queue[Any] = tb.Queue(maxsize=ROOM)

    def put(self, item: Item) -> None:
        self.queue.put(item)

    def get_many(self, count: int) -> list[Item]:
        return self.queue.get_many(count, timeout=PATIENCE)

    def release(self, items: list[Item]) -> None:
        items.clear()

    def close(self) -> None:
        self.queue.close()


class BusBoard:
    """A topic with a history of one."""

    def __init__(self, weights: torch.Tensor) -> None:
        self.publisher: tb.Publisher[Any] = tb.Publisher("weights", history=1)
        self.subscriber: tb.Subscriber[Any] | None = None
        self.write(weights)

    def write(self, weights: torch.Tensor) -> None:
        self.publisher.publish(weights)

    def read_into(self, weights: torch.Tensor) -> None:
        if self.subscriber is None:
            self.subscriber = tb.Subscriber("weights", depth=1, reliable=False)
        if (sample := self.subscriber.try_receive()) is not None:
            weights.copy_(sample.data)

    def close(self) -> None:
        self.publisher.close()


class Bus:
    name = "tensorbus"
    queue = BusQueue
    board = BusBoard

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Where a producer writes its result: memory of the bus."""
        made: torch.Tensor = tb.empty(shape, dtype)
        return made


def private(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


class TorchQueue:
    def __init__(self) -> None:
        self.queue: Any = torch_fork.Queue(ROOM)

    def put(self, item: Item) -> None:
        self.queue.put(item)

    def get_many(self, count: int) -> list[Item]:
        items = [self.queue.get(timeout=PATIENCE)]
        while len(items) < count:
            try:
                items.append(self.queue.get_nowait())
            except queue.Empty:
                break
        return items

    def release(self, items: list[Item]) -> None:
        items.clear()

    def close(self) -> None:
        self.queue.close()


class SharedBoard:
    """Weights in shared memory that nothing guards: a reader may see half of an update."""

    def __init__(self, weights: torch.Tensor) -> None:
        self.weights = weights.clone().share_memory_()

    def write(self, weights: torch.Tensor) -> None:
        self.weights.copy_(weights)

    def read_into(self, weights: torch.Tensor) -> None:
        weights.copy_(self.weights)

    def close(self) -> None:
        del self.weights


class Torch:
    name = "torch"
    queue = TorchQueue
    board = SharedBoard
    empty = staticmethod(private)


class BlockQueue:
    """`SharedMemory`, a block for each item, whose name goes through a queue."""

    def __init__(self) -> None:
        resource_tracker.ensure_running()
        self.queue: Any = fork.Queue(ROOM)
        self.blocks: list[SharedMemory] = []

    def put(self, item: Item) -> None:
        block = SharedMemory(create=True, size=sum(value.nbytes for value in item.values()))
        parts, at = [], 0
        for name, value in item.items():
            view_of(block, at, value.dtype, value.shape).copy_(value)
            parts.append((name, at, value.dtype, tuple(value.shape)))
            at += value.nbytes
        self.queue.put((block.name, parts))
        block.close()

    def get_many(self, count: int) -> list[Item]:
        told = [self.queue.get(timeout=PATIENCE)]
        while len(told) < count:
            try:
                told.append(self.queue.get_nowait())
            except queue.Empty:
                break
        return [self._item(name, parts) for name, parts in told]

    def _item(self, name: str, parts: list[Any]) -> Item:
        block = SharedMemory(name)
        self.blocks.append(block)
        return {part: view_of(block, at, dtype, shape) for part, at, dtype, shape in parts}

    def release(self, items: list[Item]) -> None:
        items.clear()
        for block in self.blocks:
            block.close()
            block.unlink()
        self.blocks.clear()

    def close(self) -> None:
        self.queue.close()


def view_of(
    block: SharedMemory, at: int, dtype: torch.dtype, shape: tuple[int, ...]
) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.frombuffer(block.buf, dtype=dtype, count=count, offset=at).view(shape)


class Blocks:
    name = "shared memory"
    queue = BlockQueue
    board = SharedBoard
    empty = staticmethod(private)


ALL: list[Any] = [Torch, Blocks, Bus]
