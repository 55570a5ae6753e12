"""iceoryx2: slices of bytes by publish and subscribe, and events for who wants to sleep."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import torch

from peers.peer import PATIENCE, Peer


def tensor_of(sample: Any) -> torch.Tensor:
    return torch.frombuffer(sample.payload().as_memory_view(), dtype=torch.uint8)


class PolledIceoryx(Peer):
    name = "iceoryx2, polled"
    module = "iceoryx2"
    polls = True

    def open_service(self) -> Any:
        import iceoryx2

        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self.node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        self.service_name = iceoryx2.ServiceName.new(self.folder.name)
        builder = self.node.service_builder(self.service_name)
        self.service = builder.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).open_or_create()
        return iceoryx2

    def open_sender(self) -> None:
        iceoryx2 = self.open_service()
        self.publisher = (
            self.service.publisher_builder()
            .initial_max_slice_len(64)
            .allocation_strategy(iceoryx2.AllocationStrategy.PowerOfTwo)
            .create()
        )
        self.wait_for(lambda: self.service.dynamic_config.number_of_subscribers)

    def open_receiver(self) -> None:
        self.open_service()
        self.subscriber = self.service.subscriber_builder().create()
        self.wait_for(lambda: self.service.dynamic_config.number_of_publishers)

    def wait_for(self, count: Any) -> None:
        until = time.monotonic() + PATIENCE
        while count() == 0:
            if time.monotonic() > until:
                raise TimeoutError("the other side did not come")
            time.sleep(0.001)

    def loan(self, source: torch.Tensor) -> Any:
        sample = self.publisher.loan_slice_uninit(source.nbytes)
        return sample, tensor_of(sample)

    def fill(self, message: Any, number: bytes) -> None:
        super().fill(message[1], number)

    def send(self, message: Any) -> None:
        message[0].assume_init().send()

    def receive(self) -> torch.Tensor | None:
        self.sample = self.subscriber.receive()
        if self.sample is None:
            return None
        return tensor_of(self.sample)

    def release(self) -> None:
        self.sample = None


class Iceoryx(PolledIceoryx):
    """With an event service beside it, as its examples of event-based communication have it."""

    name = "iceoryx2"
    polls = False

    def open_service(self) -> Any:
        iceoryx2 = super().open_service()
        self.patience = iceoryx2.Duration.from_secs(int(PATIENCE))
        self.events = self.node.service_builder(self.service_name).event().open_or_create()
        return iceoryx2

    def open_sender(self) -> None:
        super().open_sender()
        self.notifier = self.events.notifier_builder().create()

    def open_receiver(self) -> None:
        self.open_service()
        self.listener = self.events.listener_builder().create()  # before there is a subscriber
        super().open_receiver()

    def send(self, message: Any) -> None:
        super().send(message)
        self.notifier.notify()

    def receive(self) -> torch.Tensor | None:
        while (tensor := super().receive()) is None:
            self.listener.timed_wait(self.patience)
        return tensor
