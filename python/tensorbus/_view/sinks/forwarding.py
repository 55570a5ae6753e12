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


def sink_of(rerun: str | None, foxglove: str | None, port: int) -> Sink:
    """The sink that `tensorbus._view.run` is asked for."""
    if rerun is not None:
        from tensorbus._view.sinks.to_rerun import RerunSink

        return RerunSink(rerun)
    from tensorbus._view.sinks.to_foxglove import FoxgloveSink

    return FoxgloveSink(foxglove or "", port)


def hand_on(domain: str | None, sink: Sink) -> int:
    """Forwards until SIGINT or SIGTERM; the exit status."""
    until_signal(forward(domain, sink))
    return 0


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
