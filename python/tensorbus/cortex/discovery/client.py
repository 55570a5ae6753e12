"""Cortex's discovery client, over the domain."""

from __future__ import annotations

import asyncio
import logging
import time

from tensorbus._base.closing import Closing
from tensorbus._base.participant import participant
from tensorbus._core import Outcome, wait_for_topic
from tensorbus.cortex.discovery.protocol import (
    DEFAULT_DISCOVERY_ADDRESS,
    TopicInfo,
    topic_named,
    topics,
)

log: logging.Logger = logging.getLogger("tensorbus.cortex")


class DiscoveryClient(Closing):
    """Looks up topics and their publishers.

    Args:
        discovery_address, timeout_ms, retries: ignored; there is no daemon.

    >>> from tensorbus import Publisher
    >>> with DiscoveryClient() as client, Publisher("doc/cortex/discovery"):
    ...     client.lookup_topic("doc/cortex/discovery").name, client.ping()
    ('doc/cortex/discovery', True)
    """

    def __init__(
        self,
        discovery_address: str = DEFAULT_DISCOVERY_ADDRESS,
        timeout_ms: int = 5000,
        retries: int = 1,
    ) -> None:
        self.discovery_address = discovery_address
        self.timeout_ms = timeout_ms
        self.retries = retries

    def register_topic(self, topic_info: TopicInfo) -> bool:
        """Is the topic listed? A publisher is listed by itself, from when it is made."""
        return _told(topic_named(topic_info.name) is not None, "registered", topic_info.name)

    def unregister_topic(self, topic_name: str) -> bool:
        """Is the topic listed no more? A publisher is until it is closed, or its process ends."""
        return _told(topic_named(topic_name) is None, "unregistered", topic_name)

    def lookup_topic(self, topic_name: str) -> TopicInfo | None:
        """The topic, if somebody publishes there."""
        return topic_named(topic_name)

    def wait_for_topic(
        self, topic_name: str, timeout: float = 30.0, poll_interval: float = 0.5
    ) -> TopicInfo | None:
        """Waits until somebody publishes the topic; None after `timeout` seconds.

        Args:
            poll_interval: ignored: it is told of what comes.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if wait_for_topic(topic_name, left, participant()) is not Outcome.DONE:
                break
            if (found := topic_named(topic_name)) is not None:  # it may have gone already
                return found
        return None

    async def wait_for_topic_async(
        self, topic_name: str, timeout: float = 600.0, poll_interval: float = 0.5
    ) -> TopicInfo | None:
        """The same in an event loop, which looks every `poll_interval` seconds."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if (found := topic_named(topic_name)) is not None:
                return found
            await asyncio.sleep(min(poll_interval, left))
        return None

    def ping(self) -> bool:
        """True: nothing has to answer."""
        return True

    def list_topics(self) -> list[TopicInfo]:
        """All that is published now, by name."""
        return topics()

    def close(self) -> None:
        """Does nothing."""


def _told(done: bool, what: str, topic: str) -> bool:
    if not done:
        log.warning("topic %r cannot be %s by hand: its publishers do that", topic, what)
    return done
