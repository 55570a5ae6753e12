"""Classes with type parameters, as users write them: for type checkers alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import assert_type

import tensorbus as tb


@dataclass
class Pose(tb.Message, name="typed.Pose"):
    position: np.ndarray[Any, Any]
    frame_id: str = "map"


def typed_topics() -> None:
    with tb.Publisher("p", Pose) as publisher, tb.Subscriber("p", Pose, timeout=1) as subscriber:
        assert_type(publisher, tb.Publisher[Pose])
        publisher.publish(Pose(np.zeros(3)))
        for sample in subscriber:
            assert_type(sample, tb.Sample[Pose])
            assert_type(sample.data.frame_id, str)
            assert_type(sample.copy().data, Pose)
        assert_type(subscriber.try_receive(), tb.Sample[Pose] | None)
        assert_type(subscriber.receive_many(2), list[tb.Sample[Pose]])
        ready: list[tb.Subscriber[Any]] = tb.wait_any([subscriber])
        print(ready)


def untyped_topics() -> None:
    with tb.Publisher("p") as publisher, tb.Subscriber("p") as subscriber:
        assert_type(publisher, tb.Publisher[Any])
        publisher.publish({"id": 7})
        assert_type(subscriber.receive().data, Any)
    frames: tb.Subscriber[np.ndarray[Any, Any]] = tb.Subscriber("frames")
    print(frames.receive().data.shape, [tb.Publisher(name) for name in "ab"])


class Camera:
    def __init__(self, kind: type[Pose] | None) -> None:
        self.poses = tb.Publisher("poses", kind)
        self.frames: tb.Publisher = tb.Publisher("frames")  # bare: of any messages


async def in_a_loop() -> None:
    async with tb.AsyncSubscriber("p", Pose) as subscriber:
        assert_type(await subscriber.receive(), tb.Sample[Pose])
        async for sample in subscriber:
            assert_type(sample.data, Pose)
    async with tb.AsyncSubscriber("p") as untyped:
        assert_type((await untyped.receive()).data, Any)
    async with tb.AsyncPublisher("p", Pose) as publisher:
        assert_type(publisher, tb.AsyncPublisher[Pose])
        assert_type(publisher.stats.sent, int)
        await publisher.publish(Pose(np.zeros(3)))
    client = tb.Client("where", Pose, tb.StringMessage)
    assert_type(await client.call_async(Pose(np.zeros(3))), tb.StringMessage)
    assert_type(tb.Client("any").call_sync(7), Any)


async def queues() -> None:
    numbers: tb.Queue[int] = tb.Queue(3)
    numbers.put(1)
    assert_type(numbers.get(), int)
    assert_type(await numbers.get_async(), int)
    for number in numbers:
        assert_type(number, int)
    assert_type(tb.Queue[str](3).get_nowait(), str)
    opened: tb.Queue[str] = tb.Queue.open("texts")
    assert_type(opened.get(), str)
    assert_type(await tb.Queue[str].open_async("texts"), tb.Queue[str])
    anything = tb.Queue()
    anything.put(7)
    print(anything.get(), tb.Queue.open("jobs").get())


def double(number: int) -> float:
    return 2.0 * number


def on_device(number: int, device: str) -> float:
    return 2.0 * number


def with_model(model: list[int], number: int) -> str:
    return str(model[number])


def sums(batch: np.ndarray[Any, Any]) -> list[float]:
    return [float(row.sum()) for row in batch]


def pools() -> Iterator[float]:
    with tb.WorkerPool(double, workers=2) as pool:
        assert_type(pool, tb.WorkerPool[int, float])
        assert_type(pool.submit(1), Future[float])
        assert_type(pool.map([1, 2], chunksize=2), list[float])
        yield from pool.imap([1])
        yield from pool.imap_unordered([1])
    with tb.WorkerPool(on_device, devices=["cpu"]) as devices:
        assert_type(devices.map([1]), list[float])
    with tb.WorkerPool(with_model, initializer=list) as models:
        assert_type(models.map([1]), list[str])
    with tb.WorkerPool(len) as lengths:
        assert_type(lengths.map(["a", [1]]), list[int])
    with tb.WorkerPool(sums, batch=8, max_wait=0.005) as batches:
        assert_type(batches, tb.WorkerPool[Any, Any])
        assert_type(batches.submit(np.zeros(2), priority=1, timeout=0.5), Future[Any])


class Robot(tb.Node):
    def __init__(self) -> None:
        super().__init__("robot")
        self.poses = self.create_publisher("poses", Pose, depth=3, reliable=True)
        self.seen = self.create_subscriber("seen", Pose, max_held=3, library="numpy")
        self.where = self.create_client(
            "where", Pose, tb.StringMessage, timeout=1, access="private"
        )

    async def follow(self) -> str:
        self.poses.publish((await self.seen.receive()).data)
        return (await self.where.call_async(Pose(np.zeros(3)))).data
