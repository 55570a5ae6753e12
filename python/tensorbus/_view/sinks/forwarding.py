"""Hands all messages of a domain to a sink."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from tensorbus._base.errors import Error, HoldLimit
from tensorbus._topics.async_subscriber import AsyncSubscriber
from tensorbus._topics.listing import list_topics
from tensorbus._topics.sample import Header
from tensorbus._view.signals import until_signal
from tensorbus._view.sinks.parts import Parts, parts_of

_DEPTH = 8
_PERIOD = 0.5  # seconds between two looks for new topics

logger = logging.getLogger("tensorbus.view")


class Sink(Protocol):
    """A viewer of others, or a file for it."""

    def send(self, topic: str, header: Header, parts: Parts) -> None: ...
    def close(self) -> None: ...


def hand_on(domain: str | None, rerun: str | None, foxglove: str | None, port: int) -> int:
    """See `tensorbus._view.run`."""
    until_signal(_hand_on(domain, rerun, foxglove, port))
    return 0


async def _hand_on(domain: str | None, rerun: str | None, foxglove: str | None, port: int) -> None:
    if rerun is not None:
        from tensorbus._view.sinks.to_rerun import RerunSink

        await forward(domain, RerunSink(rerun))
    else:
        from tensorbus._view.sinks.to_foxglove import FoxgloveSink

        await forward(domain, FoxgloveSink(foxglove or "", port))


async def forward(domain: str | None, sink: Sink) -> None:
    """Subscribes to every topic, in the way that is never waited for, until it is cancelled."""
    running: dict[str, asyncio.Task[None]] = {}
    try:
        while True:
            for topic in await asyncio.to_thread(list_topics, domain):
                if topic.name not in running:
                    task = asyncio.create_task(_forward_topic(topic.name, domain, sink))
                    running[topic.name] = task
            await asyncio.sleep(_PERIOD)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        sink.close()


async def _forward_topic(topic: str, domain: str | None, sink: Sink) -> None:
    told = False
    async with AsyncSubscriber(
        topic, depth=_DEPTH, reliable=False, library="numpy", domain=domain
    ) as subscriber:
        while True:
            try:
                sample = await subscriber.receive()
                sink.send(topic, sample.header, parts_of(sample.data, sample.header))
            except HoldLimit:
                await asyncio.sleep(_PERIOD)
            except (Error, TypeError, ValueError) as error:
                if not told:  # once: the next sample is as this one, as a rule
                    logger.warning("%s: a message cannot be shown: %s", topic, error)
                told = True
