"""The least that Python can do: memory that is there already, and a word or an event beside it.

Nothing is lent, given back or kept from being written over.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import torch

from peers.peer import Peer

LARGEST_BYTES = 100_000_000
_WORD = 0  # index of the word; the bytes begin a page later


class Floor(Peer):
    streams = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.memory = mmap.mmap(-1, mmap.PAGESIZE + LARGEST_BYTES)
        whole = torch.frombuffer(self.memory, dtype=torch.uint8)
        self.words = memoryview(self.memory).cast("Q")
        self.bytes = whole[mmap.PAGESIZE :]
        self.size = self.words[2:3]
        self.count = 0

    def make(self, size: int) -> torch.Tensor:
        self.size[0] = size
        return self.bytes[:size]


class WordFloor(Floor):
    name = "floor: a word, polled"
    polls = True

    def send(self, message: Any) -> None:
        self.count += 1
        self.words[_WORD] = self.count

    def receive(self) -> torch.Tensor | None:
        if self.words[_WORD] == self.count:
            return None
        self.count += 1
        return self.bytes[: self.size[0]]


class EventFloor(Floor):
    name = "floor: eventfd"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.event = os.eventfd(0)

    def send(self, message: Any) -> None:
        os.eventfd_write(self.event, 1)

    def receive(self) -> torch.Tensor | None:
        os.eventfd_read(self.event)
        return self.bytes[: self.size[0]]
