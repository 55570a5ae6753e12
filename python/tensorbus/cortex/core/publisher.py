"""Cortex's publisher."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from tensorbus._base.arguments import MAX_DEPTH, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, OutOfMemory, Unsupported
from tensorbus._base.participant import participant
from tensorbus._topics.publisher import Publisher as Ours
from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS, address_of
from tensorbus.cortex.messages.base import detached
from tensorbus.messages import Message

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import PublisherOptions

log: logging.Logger = logging.getLogger("tensorbus.cortex")


class Publisher(Closing):
    """Publishes messages of one type.

    Args:
        topic_name: any non-empty name.
        message_type: the class of the messages.
        node_name: by which `tensorbus.list_topics` shows whose it is.
        discovery_address: ignored; there is no daemon.
        queue_size: how many messages wait for a subscriber that did not choose itself.
        auto_register: it is listed in any case; `is_registered` says this.
        context: ignored.
        options: see `tensorbus.Publisher`.

    >>> from tensorbus.cortex.messages.standard import IntMessage
    >>> with Publisher("doc/cortex", IntMessage) as publisher:
    ...     publisher.publish(IntMessage(7)), publisher.publish_count
    (True, 1)
    """

    _in_a_child = "open the topic in the child"

    discovery_address: str = DEFAULT_DISCOVERY_ADDRESS
    is_registered: bool = True  # with the domain, until it is closed

    def __init__(
        self,
        topic_name: str,
        message_type: type[Message],
        node_name: str = "anonymous",
        discovery_address: str = DEFAULT_DISCOVERY_ADDRESS,
        queue_size: int = 10,
        auto_register: bool = True,
        context: object = None,
        **options: Unpack[PublisherOptions],
    ) -> None:
        whole_number("queue_size", queue_size, low=1, high=MAX_DEPTH)
        ours = Ours(topic_name, message_type, depth=queue_size, node=node_name, **options)
        self._take(ours, message_type, node_name, queue_size, options.get("domain"))
        self.discovery_address = discovery_address
        self.is_registered = auto_register

    @classmethod
    def over(
        cls,
        ours: Ours,
        message_type: type[Message],
        node_name: str,
        queue_size: int,
        domain: str | None,
    ) -> Publisher:
        """The same publisher, by Cortex's names."""
        publisher = cls.__new__(cls)
        publisher._take(ours, message_type, node_name, queue_size, domain)
        return publisher

    def _take(
        self,
        ours: Ours,
        message_type: type[Message],
        node_name: str,
        queue_size: int,
        domain: str | None,
    ) -> None:
        self.publisher = ours  # with all that Cortex's has not
        self.topic_name: str = ours.topic
        self.message_type = message_type
        self.node_name = node_name
        self.queue_size = queue_size
        self.address: str = address_of(participant(domain).id, domain)  # as `TopicInfo` has it
        self.publish_count: int = 0
        self.last_publish_time: float | None = None  # as time.time() has it

    def publish(self, message: Message, flags: int = 0) -> bool:
        """Is it on its way? False when the publisher is closed or there is no memory for it.

        Tensors that have a history are detached.

        Args:
            flags: ignored: it never waits for a subscriber.

        Raises:
            TypeError: it is of another type, or something in it cannot travel; the text says what.
        """
        try:
            self._publish(message)
        except (Closed, OutOfMemory) as error:
            log.error("topic %r: a message was not published: %s", self.topic_name, error)
            return False
        self.publish_count += 1
        self.last_publish_time = time.time()
        return True

    def _publish(self, message: Message) -> None:
        try:
            self.publisher.publish(message)
        except Unsupported:
            plain = detached(message)
            if plain is None:
                raise
            self.publisher.publish(plain)

    def loan(
        self,
        shape: Any = None,
        dtype: Any = None,
        *,
        like: Any = None,
        device: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """A tensor in shared memory, which no other Cortex has: see `tensorbus.Publisher.loan`."""
        return self.publisher.loan(shape, dtype, like=like, device=device, timeout=timeout)

    def close(self) -> None:
        """Ends it. A second call does nothing."""
        self.is_registered = False
        self.publisher.close()
