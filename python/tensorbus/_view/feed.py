"""Feeds: a topic's newest samples as small frames for tiles."""

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
from tensorbus._view.channel import Frame, Take
from tensorbus._view.frames import failure, frame_of
from tensorbus._view.latency import Latency

MAX_HZ = 15.0
"""Limit of frames per second of a tile."""

logger = logging.getLogger("tensorbus.view")


class Feed:
    """Subscribes to a topic with best effort, and makes frames of its newest samples.

    Args:
        topic: the topic's name.
        view: the part of its messages to show (see `frame_of`).
        domain: the topic's domain.
        workers: threads in which frames are made.
    """

    def __init__(self, topic: str, view: str, domain: str | None, workers: Executor) -> None:
        self._topic = topic
        self._view = view
        self._domain = domain
        self._workers = workers
        self._latency = Latency()

    async def run(self, give: Take) -> None:
        """Calls `give` with a frame of the newest sample, at most MAX_HZ times a second."""
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
                    await asyncio.sleep(max(0.0, began + 1 / MAX_HZ - time.monotonic()))
        except Error as error:
            give(failure(error).encoded())

    async def _frame(self, subscriber: AsyncSubscriber[Any]) -> bytes:
        sample = await self._newest(subscriber)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, self._shown, sample)

    async def _newest(self, subscriber: AsyncSubscriber[Any]) -> Sample[Any]:
        """The next sample, or the sample in the queue if no newer sample arrives soon.

        Only new samples count for the latency: a sample in the queue has waited for this feed.
        """
        while True:
            try:
                waiting = subscriber.try_receive()
                try:
                    fresh = await subscriber.receive(None if waiting is None else 1 / MAX_HZ)
                except Timeout:
                    assert waiting is not None
                    return waiting
            except HoldLimit:
                await asyncio.sleep(1 / MAX_HZ)
                continue
            if fresh.header.origin is None:  # samples of other machines have another clock
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
    except Exception as error:  # the next sample may be valid
        logger.exception("a sample of %s cannot be shown", sample.header.topic)
        return failure(error)


def _tensors(sample: Sample[Any]) -> dict[str, Any]:
    """The tensors of a message that cannot be restored with NumPy alone."""
    found: dict[str, Any] = {}
    core = sample._core
    for index in range(min(core.tensor_count, 8)):
        memory = core.memory(index)
        try:
            found[f"tensor {index}"] = numpy_arrays.from_memory(memory)
        except Error as error:
            found[f"tensor {index}"] = f"{memory.dtype} {memory.shape}: {error}"
    return found
