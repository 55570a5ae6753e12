"""Forwards all messages of a domain to a sink."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from tensorbus._aio.own_loop import run_until_signal
from tensorbus._base.errors import Error, HoldLimit
from tensorbus._topics.async_subscriber import AsyncSubscriber
from tensorbus._topics.listing import list_topics
from tensorbus._topics.sample import Header
from tensorbus._view.sinks.parts import Parts, parts_of

_DEPTH = 8
_PERIOD = 0.5  # seconds between two searches for new topics

_Failed = set[tuple[str, str]]
"""Topics, each with the description of a failure."""

logger = logging.getLogger("tensorbus.view")


class Sink(Protocol):
    """Another program's viewer, or a file for it."""

    def send(self, topic: str, header: Header, parts: Parts) -> None: ...
    def close(self) -> None: ...


def forward_to(domain: str | None, rerun: str | None, foxglove: str | None, port: int) -> int:
    """See `tensorbus._view.run`."""
    run_until_signal(_forward_to(domain, rerun, foxglove, port))
    return 0


async def _forward_to(
    domain: str | None, rerun: str | None, foxglove: str | None, port: int
) -> None:
    if rerun is not None:
        from tensorbus._view.sinks.to_rerun import RerunSink

        await forward(domain, RerunSink(rerun))
    else:
        from tensorbus._view.sinks.to_foxglove import FoxgloveSink

        await forward(domain, FoxgloveSink(foxglove or "", port))


async def forward(domain: str | None, sink: Sink) -> None:
    """Forwards all topics that have a publisher, with best effort, until it is cancelled."""
    running: dict[str, asyncio.Task[None]] = {}
    failed: _Failed = set()
    try:
        while True:
            topics = {topic.name for topic in await asyncio.to_thread(list_topics, domain)}
            for name, task in tuple(running.items()):
                if name not in topics:
                    task.cancel()
                if task.done():
                    del running[name]
            for name in topics - running.keys():
                running[name] = asyncio.create_task(_forward_topic(name, domain, sink, failed))
            await asyncio.sleep(_PERIOD)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        sink.close()


async def _forward_topic(topic: str, domain: str | None, sink: Sink, failed: _Failed) -> None:
    """Forwards a topic. Ends when receiving fails; then `forward` subscribes again.

    Args:
        failed: the failures that were logged already: each is logged only once.
    """
    try:
        async with AsyncSubscriber(
            topic, depth=_DEPTH, reliable=False, library="numpy", domain=domain
        ) as subscriber:
            while True:
                try:
                    sample = await subscriber.receive()
                except HoldLimit:
                    await asyncio.sleep(_PERIOD)
                    continue
                try:
                    sink.send(topic, sample.header, parts_of(sample.data, sample.header))
                except Exception as error:
                    _log(topic, "a message cannot be shown", error, failed)
    except Exception as error:
        _log(topic, "it cannot be received", error, failed)


def _log(topic: str, what: str, error: Exception, failed: _Failed) -> None:
    if (topic, what) in failed:
        return
    failed.add((topic, what))
    trace = None if isinstance(error, Error | TypeError | ValueError) else error
    logger.warning("%s: %s: %s", topic, what, error, exc_info=trace)
