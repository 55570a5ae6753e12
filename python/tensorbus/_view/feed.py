"""One topic for tiles: its newest samples, small, a few times a second."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Executor
from typing import Any

from tensorbus._base.errors import Error, HoldLimit, Timeout
from tensorbus._tensors import numpy_arrays
from tensorbus._topics.async_subscriber import AsyncSubscriber
from tensorbus._topics.sample import Sample
from tensorbus._view.channel import Take
from tensorbus._view.frame import Frame
from tensorbus._view.frames import failure, frame_of
from tensorbus._view.latency import Latency

MOST_HZ = 15.0
"""Frames of a tile in a second."""

logger = logging.getLogger("tensorbus.view")


class Feed:
    """Subscribes to a topic as best effort, and shows its newest sample.

    Args:
        topic: its name.
        view: which part of its messages (see `frame_of`).
        domain: of the topic.
        workers: where arrays are made small.
    """

    def __init__(self, topic: str, view: str, domain: str | None, workers: Executor) -> None:
        self._topic = topic
        self._view = view
        self._domain = domain
        self._workers = workers
        self._latency = Latency()

    async def run(self, give: Take) -> None:
        """Gives a frame for the newest sample, at most MOST_HZ times a second."""
        try:
            async with AsyncSubscriber(
                self._topic,
                depth=1,
                max_held=4,
                reliable=False,
                library="numpy",
                domain=self._domain,
            ) as subscriber:
                while True:
                    began = time.monotonic()
                    give(await self._frame(subscriber))
                    await asyncio.sleep(max(0.0, began + 1 / MOST_HZ - time.monotonic()))
        except Error as error:
            give(failure(error).encoded())

    async def _frame(self, subscriber: AsyncSubscriber[Any]) -> bytes:
        sample = await self._newest(subscriber)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, self._shown, sample)

    async def _newest(self, subscriber: AsyncSubscriber[Any]) -> Sample[Any]:
        """The next sample; the one that waits already, if no other comes at once.

        That one may have waited for us, so its time says nothing about the bus.
        """
        while True:
            try:
                late = subscriber.try_receive()
                try:
                    fresh = await subscriber.receive(None if late is None else 1 / MOST_HZ)
                except Timeout:
                    assert late is not None
                    return late
            except HoldLimit:
                await asyncio.sleep(1 / MOST_HZ)
                continue
            if fresh.header.origin is None:  # the clock of another machine is another one
                self._latency.add((time.time_ns() - fresh.header.timestamp_ns) / 1e9)
            return fresh

    def _shown(self, sample: Sample[Any]) -> bytes:
        frame = _read(sample, self._view)
        header = sample.header
        frame.header |= {
            "sequence": header.sequence,
            "time": header.timestamp_ns / 1e9,
            "latency": self._latency.summary(),
        }
        return frame.encoded()


def _read(sample: Sample[Any], view: str) -> Frame:
    try:
        return frame_of(sample.data, view)
    except Error as error:
        return frame_of({"not readable": str(error), **_tensors(sample)}, view)
    except Exception as error:  # the next sample may be shown
        logger.exception("a sample of %s cannot be shown", sample.header.topic)
        return failure(error)


def _tensors(sample: Sample[Any]) -> dict[str, Any]:
    """The tensors of a message that is of a type which needs more than NumPy."""
    found: dict[str, Any] = {}
    core = sample._core
    for index in range(min(core.tensor_count, 8)):
        memory = core.memory(index)
        try:
            found[f"tensor {index}"] = numpy_arrays.from_memory(memory)
        except Error as error:
            found[f"tensor {index}"] = f"{memory.dtype} {memory.shape}: {error}"
    return found
