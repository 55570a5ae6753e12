"""Tensors of a GPU for processes that cannot use it, over the stand-in for the driver."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

import tensorbus as tb
from support.access import is_borrowed
from support.cuda.standin import ENVIRONMENT, Stream, needs_standin, read_on
from support.harness import PATIENCE, Elsewhere, hear, tell

pytestmark = needs_standin

BYTES = 1 << 16
BLIND = {"TENSORBUS_CUDA_DRIVER": "off"}
OTHER_DEVICE = ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": "0"}


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
        with tb.Subscriber("frames", library="numpy", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            assert sample.published_on == ("cuda:1",)
            assert sample.copy().published_on == ("cuda:1",)
            data = sample.data["data"]
            assert isinstance(data, np.ndarray)
            assert is_borrowed(data)
            assert set(data.tolist()) == {7}
            assert subscriber.stats["staged"] == 1

    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive, env=BLIND)
    elsewhere.run(receive, env=ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": "0"})
    publisher.tell()


def receive_in_main_memory() -> None:
    with tb.Subscriber("frames", library="numpy", device="cpu", timeout=PATIENCE) as subscriber:
        sample = subscriber.receive()
        assert sample.published_on == ("cuda:1",)
        assert set(sample.data["data"].tolist()) == {7}
        assert subscriber.stats["staged"] == 1
    with pytest.raises(tb.InvalidArgument, match="device: "):
        tb.Subscriber("frames", device="cpu", access="shared")


def test_they_arrive_in_main_memory_where_that_is_asked_for(elsewhere: Elsewhere) -> None:
    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive_in_main_memory, env=ENVIRONMENT)
    publisher.tell()


def test_a_tensor_message_reports_its_device(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber(
            "frames", tb.TensorMessage, library="torch", timeout=PATIENCE
        ) as subscriber:
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


def test_they_go_back_to_the_device_that_is_asked_for(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        with tb.Subscriber("frames", device="cuda:0", timeout=PATIENCE) as subscriber:
            stream = Stream()
            sample = subscriber.receive()
            data = sample.data["data"]
            assert (data.device, data.writable) == ("cuda:0", False)
            assert read_on(stream, sample, data) == {7}
            assert sample.published_on == ("cuda:1",)
            assert sample.copy().data["data"].writable
            assert subscriber.stats["staged"] == 1

    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive, env=OTHER_DEVICE)
    publisher.tell()


def test_an_async_subscriber_has_them_go_back_too(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        async def main() -> None:
            async with tb.AsyncSubscriber(
                "frames", device="cuda:0", access="private", timeout=PATIENCE
            ) as subscriber:
                stream = Stream()
                sample = await subscriber.receive()
                data = sample.data["data"]
                assert (data.device, data.writable) == ("cuda:0", True)
                sample.use_on(stream)  # the bus's own stream copies into it
                stream.write(data, 8)
                assert read_on(stream, sample, data) == {8}

        asyncio.run(main())

    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive, env=OTHER_DEVICE)
    publisher.tell()


def test_a_private_tensor_on_a_device_is_a_copy_there(elsewhere: Elsewhere) -> None:
    def receive() -> None:
        stream = Stream(1)
        with tb.Subscriber("frames", access="private", timeout=PATIENCE) as subscriber:
            mine = subscriber.receive()
            data = mine.data["data"]
            assert (data.device, data.writable) == ("cuda:1", True)
            mine.use_on(stream)
            stream.write(data, 9)
            assert read_on(stream, mine, data) == {9}
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            sample = subscriber.receive()
            assert read_on(stream, sample, sample.data["data"]) == {7}

    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    elsewhere.run(receive, env=ENVIRONMENT)
    publisher.tell()


def test_a_device_that_there_is_not_is_refused(elsewhere: Elsewhere) -> None:
    def subscribe() -> None:
        with pytest.raises(tb.Unsupported, match="device=cuda:1"):
            tb.Subscriber("frames", device="cuda:1")
        with pytest.raises(tb.InvalidArgument, match="device="):
            tb.Subscriber("frames", device="gpu")

    elsewhere.run(subscribe, env=BLIND)
    elsewhere.run(subscribe, env=OTHER_DEVICE)
