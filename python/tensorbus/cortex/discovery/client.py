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
        """True if the topic is listed. Publishers are listed automatically when they are made."""
        return _warned(topic_named(topic_info.name) is not None, "registered", topic_info.name)

    def unregister_topic(self, topic_name: str) -> bool:
        """True if the topic is not listed. Publishers are listed until they close."""
        return _warned(topic_named(topic_name) is None, "unregistered", topic_name)

    def lookup_topic(self, topic_name: str) -> TopicInfo | None:
        """The topic; None if it has no publisher."""
        return topic_named(topic_name)

    def wait_for_topic(
        self, topic_name: str, timeout: float = 30.0, poll_interval: float = 0.5
    ) -> TopicInfo | None:
        """Waits until the topic has a publisher; None after `timeout` seconds.

        Args:
            topic_name: the topic.
            timeout: seconds.
            poll_interval: ignored: the call does not poll.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if wait_for_topic(topic_name, left, participant()) is not Outcome.DONE:
                break
            if (found := topic_named(topic_name)) is not None:  # the publisher may have ended
                return found
        return None

    async def wait_for_topic_async(
        self, topic_name: str, timeout: float = 600.0, poll_interval: float = 0.5
    ) -> TopicInfo | None:
        """`wait_for_topic` in an event loop. It checks every `poll_interval` seconds."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if (found := topic_named(topic_name)) is not None:
                return found
            await asyncio.sleep(min(poll_interval, left))
        return None

    def ping(self) -> bool:
        """Always True: there is no daemon."""
        return True

    def list_topics(self) -> list[TopicInfo]:
        """All topics that have a publisher, sorted by name."""
        return topics()

    def close(self) -> None:
        """Does nothing."""


def _warned(done: bool, what: str, topic: str) -> bool:
    if not done:
        log.warning("topic %r cannot be %s by hand: its publishers do that", topic, what)
    return done
