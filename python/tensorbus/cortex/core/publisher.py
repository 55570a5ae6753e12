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
        node_name: the node's name in `tensorbus.list_topics`.
        discovery_address: ignored; there is no daemon.
        queue_size: how many messages may wait for a subscriber that sets no depth.
        auto_register: the initial value of `is_registered`. The publisher is listed in any case.
        context: ignored.
        options: see `tensorbus.Publisher`.

    Raises:
        ValueError, TypeError, AccessDenied: as `tensorbus.Publisher`.

    >>> from tensorbus.cortex.messages.standard import IntMessage
    >>> with Publisher("doc/cortex", IntMessage) as publisher:
    ...     publisher.publish(IntMessage(7)), publisher.publish_count
    (True, 1)
    """

    _in_a_child = "open the topic in the child"

    def __init__(
        self,
        topic_name: str,
        message_type: type[Message],
        node_name: str = "anonymous",
        discovery_address: str = DEFAULT_DISCOVERY_ADDRESS,
        queue_size: int = 10,
        auto_register: bool = True,
        context: object = None,
        *,
        _ours: Ours | None = None,  # made by a node
        **options: Unpack[PublisherOptions],
    ) -> None:
        whole_number("queue_size", queue_size, low=1, high=MAX_DEPTH)
        if _ours is None:
            _ours = Ours(topic_name, message_type, depth=queue_size, node=node_name, **options)
        domain = options.get("domain")
        self.publisher: Ours = _ours  # for everything that Cortex lacks
        self.topic_name: str = _ours.topic
        self.message_type = message_type
        self.node_name = node_name
        self.discovery_address = discovery_address
        self.queue_size = queue_size
        self.is_registered: bool = auto_register
        self.address: str = address_of(participant(domain).id, domain)  # as in `TopicInfo`
        self.publish_count: int = 0
        self.last_publish_time: float | None = None  # from time.time()

    def publish(self, message: Message, flags: int = 0) -> bool:
        """Publishes a message; False if the publisher is closed or there is no memory for it.

        Tensors with a gradient history are detached.

        Args:
            message: an instance of the message type.
            flags: ignored: publishing never waits for a subscriber.

        Raises:
            TypeError: the message has another type, or contains a value that cannot be sent; the
                text names it.
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
        """A tensor in shared memory, see `tensorbus.Publisher.loan`. Cortex has no loans."""
        return self.publisher.loan(shape, dtype, like=like, device=device, timeout=timeout)

    def close(self) -> None:
        """Closes the publisher. A second call does nothing."""
        self.is_registered = False
        self.publisher.close()
