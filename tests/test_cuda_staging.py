"""Tensors of a GPU for processes that cannot use it, over the stand-in for the driver."""

from __future__ import annotations

import numpy as np
import torch

import tensorbus as tb
from harness import PATIENCE, Elsewhere, hear, tell
from standin import ENVIRONMENT, Stream, needs_standin

pytestmark = needs_standin

BYTES = 1 << 16
BLIND = {"TENSORBUS_CUDA_DRIVER": "off"}


def publish_frames() -> None:
    stream = Stream(1)
    with tb.Publisher("frames", history=1) as publisher:
        memory = publisher.loan(BYTES, "uint8", device="cuda:1")
        stream.write(memory, 7)
        publisher.publish({"data": memory, "name": "frame"}, stream=stream)
        tell("published")
        hear()


def test_they_arrive_in_main_memory_and_say_where_they_were(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", as_="numpy", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            assert sample.published_on == ("cuda:1",)
            assert sample.copy().published_on == ("cuda:1",)
            data = sample.data["data"]
            assert isinstance(data, np.ndarray)
            assert not data.flags.writeable
            assert set(data.tolist()) == {7}
            assert subscriber.stats["staged"] == 1

    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive, env=BLIND)
    elsewhere.run(receive, env=ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": "0"})
    publisher.tell()


def test_a_tensor_message_reports_its_device(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", tb.TensorMessage, as_="torch", timeout=PATIENCE) as subscriber:
            message = subscriber.receive().data
            assert (message.name, message.device) == ("frame", "cuda:1")
            assert message.data.device.type == "cpu"
            assert message.data.eq(7).all()
            tensors = tb.MultiTensorMessage({"there": message.data, "here": torch.ones(2)})
            assert tensors.devices == {"there": "cuda:1", "here": "cpu"}

    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive, env=BLIND)
    publisher.tell()
