"""Tensorbus itself: topics and queues."""

from __future__ import annotations

from typing import Any

import torch

import tensorbus as tb
from peers.peer import PATIENCE, Peer


class Topic(Peer):
    """A loan, which the sender fills: nothing is copied."""

    name = "tensorbus loan"

    def open_sender(self) -> None:
        publisher = tb.Publisher("tensor", domain=str(self.folder))
        self.publisher = self.stack.enter_context(publisher)
        if not self.publisher.wait_for_subscribers(timeout=PATIENCE):
            raise RuntimeError("no subscriber came")

    def open_receiver(self) -> None:
        subscriber = tb.Subscriber("tensor", domain=str(self.folder), spin=0, timeout=PATIENCE)
        self.subscriber = self.stack.enter_context(subscriber)
        self.subscriber.wait_for_publishers(timeout=PATIENCE)

    def loan(self, source: torch.Tensor) -> Any:
        return self.publisher.loan(source.shape, dtype=torch.uint8)

    def send(self, message: Any) -> None:
        self.publisher.publish(message)

    def receive(self) -> torch.Tensor | None:
        return self.subscriber.receive().data


class PolledTopic(Topic):
    name = "tensorbus loan, polled"
    polls = True

    def receive(self) -> torch.Tensor | None:
        sample = self.subscriber.try_receive()
        return None if sample is None else sample.data


class CopiedTopic(Topic):
    """Any tensor: copied into memory of the bus, once."""

    name = "tensorbus, any tensor"

    def loan(self, source: torch.Tensor) -> Any:
        return source


class BusQueue(Peer):
    """A tensor of `tb.empty`, which lies in memory of the bus from the start."""

    name = "tensorbus Queue"
    fresh = True

    def open_sender(self) -> None:
        queue = tb.Queue(maxsize=8, name="tensors", domain=str(self.folder))
        self.queue = self.stack.enter_context(queue)

    def open_receiver(self) -> None:
        queue = tb.Queue.open("tensors", timeout=PATIENCE, domain=str(self.folder))
        self.queue = self.stack.enter_context(queue)

    def make(self, size: int) -> torch.Tensor:
        tensor: torch.Tensor = tb.empty(size, torch.uint8, domain=str(self.folder))
        return tensor

    def send(self, message: Any) -> None:
        self.queue.put(message)

    def receive(self) -> torch.Tensor | None:
        tensor: torch.Tensor = self.queue.get(timeout=PATIENCE)
        return tensor
