"""The common base of both kinds of subscribers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tensorbus._base.arguments import MAX_DEPTH, whole_number
from tensorbus._base.arguments import topic_name as checked_topic
from tensorbus._base.closing import Closing
from tensorbus.cortex.core.inbox import Inbox, SubscriberStats
from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS, TopicInfo, topic_named
from tensorbus.cortex.messages.base import MessageFingerprintError
from tensorbus.messages import Message, compatible
from tensorbus.messages._plan import plan_of
from tensorbus.nodes import Subscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import SubscriberOptions

__all__ = ["MessageFingerprintError", "SubscriberBase", "SubscriberStats"]

log: logging.Logger = logging.getLogger("tensorbus.cortex")

# Seconds to wait for the connection to a listed publisher: a suspended process does not reply.
_CONNECT_TIMEOUT = 1.0


class SubscriberBase(Closing):
    """A topic with its message type and its counters. Subclasses receive the messages.

    Args:
        topic_name: any non-empty name.
        message_type: the class of the messages.
        node_name: the node's name in the log.
        discovery_address: ignored; there is no daemon.
        topic_timeout: seconds without a publisher after which an error is logged.
        wait_for_topic: False: do not log that error.
        strict_fingerprint: a publisher of another type is an error; otherwise it is logged.
    """

    _in_a_child = "open the topic in the child"

    def __init__(
        self,
        topic_name: str,
        message_type: type[Message],
        node_name: str = "anonymous",
        discovery_address: str = DEFAULT_DISCOVERY_ADDRESS,
        topic_timeout: float = 600.0,
        wait_for_topic: bool = True,
        strict_fingerprint: bool = False,
    ) -> None:
        self.topic_name: str = checked_topic(topic_name)
        self.message_type = message_type
        self.node_name = node_name
        self.discovery_address = discovery_address
        self.topic_timeout = topic_timeout
        self.stats: SubscriberStats = SubscriberStats()
        self.subscription: Subscription | None = None  # for everything that Cortex lacks
        self._is_strict = strict_fingerprint
        self._domain: str | None = None

    def _opened(self, queue_size: int, **options: Unpack[SubscriberOptions]) -> Inbox:
        """Opens the subscriber of the bus, and connects it if the topic has a publisher now.

        Raises:
            MessageFingerprintError: a publisher is of another type, with `strict_fingerprint`.
        """
        self.queue_size: int = whole_number("queue_size", queue_size, low=1, high=MAX_DEPTH)
        self._domain = options.get("domain")
        info = self.topic_info
        fits = info is not None and self._fits(info)
        inbox = Inbox(self.topic_name, self.message_type, queue_size, self.stats, **options)
        if fits:
            inbox.wait_for_publishers(1, _CONNECT_TIMEOUT)
        return inbox

    def _fits(self, info: TopicInfo) -> bool:
        """True if there is a publisher to connect to."""
        definition = plan_of(self.message_type).definition
        reasons = [
            compatible(each.type, definition) if each.type else None for each in info.publishers
        ]
        mismatch = next(filter(None, reasons), None)
        if mismatch is not None and self._is_strict:
            raise MessageFingerprintError(f"topic {self.topic_name!r}: {mismatch}")
        return None in reasons

    @property
    def is_connected(self) -> bool:
        """True while there is a publisher."""
        return self.subscription is not None and self.subscription.is_connected

    @property
    def topic_info(self) -> TopicInfo | None:
        """The topic and its publishers; None if it has none."""
        return topic_named(self.topic_name, self._domain)

    @property
    def receive_count(self) -> int:
        """How many messages were received."""
        return self.stats.received

    @property
    def dropped_count(self) -> int:
        """How many messages are missing between the received messages, for any reason."""
        return self.stats.dropped_estimated

    @property
    def last_receive_time(self) -> float | None:
        """When the last message was received, from time.time(); None if there was none."""
        return None if self.subscription is None else self.subscription.last_receive_time

    def close(self) -> None:
        """Closes the subscriber. A second call does nothing."""
        if self.subscription is not None:
            self.subscription.close()
