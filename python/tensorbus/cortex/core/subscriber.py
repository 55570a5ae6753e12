"""Cortex's subscriber."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from tensorbus._aio.callbacks import Callback, checked_callback
from tensorbus._aio.failures import Failures
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, Timeout
from tensorbus._base.public import renamed
from tensorbus._base.stats import SubscriberStats
from tensorbus._topics.listing import TopicInfo, list_topics
from tensorbus._topics.sample import Header
from tensorbus._topics.subscriber import Subscriber as Ours
from tensorbus.messages import Message
from tensorbus.nodes import Subscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import SubscriberOptions


class Subscriber(Closing):
    """Receives messages of one type, from publishers that may come later.

    Args:
        topic_name: any non-empty name.
        message_type: the class of the messages.
        callback: `async def` or plain, called with message and header by `run` and `start`.
        node_name: stands in the log.
        discovery_address: ignored; there is no daemon.
        queue_size: how many messages wait; more drop the oldest.
        wait_for_topic: that nobody publishes in `topic_timeout` seconds is logged. It connects
            whenever somebody does, in either case.
        topic_timeout: see `wait_for_topic`.
        strict_fingerprint: publishers of another type raise `MessageFingerprintError` from `run`;
            otherwise they are logged. Nothing of theirs is delivered in either case.
    """

    _in_a_child = "open the topic in the child"

    @renamed(as_="library")
    def __init__(
        self,
        topic_name: str,
        message_type: type[Message],
        callback: Callback | None = None,
        node_name: str = "anonymous",
        discovery_address: object = None,
        queue_size: int = 10,
        wait_for_topic: bool = True,
        topic_timeout: float = 600.0,
        strict_fingerprint: bool = False,
        **options: Unpack[SubscriberOptions],
    ) -> None:
        failures = Failures(node_name, "log", self.stop)
        self._take(
            Subscription(
                Ours(topic_name, message_type, depth=queue_size, **options),
                None if callback is None else checked_callback(callback, "async"),
                mode="async",
                failures=failures,
                topic_timeout=topic_timeout if wait_for_topic else None,
                strict=strict_fingerprint,
            ),
            message_type,
            options.get("domain"),
            failures,
        )

    @classmethod
    def over(
        cls, subscription: Subscription, message_type: type[Message], domain: str | None
    ) -> Subscriber:
        """The same subscriber, by Cortex's names; its node runs it."""
        subscriber = cls.__new__(cls)
        subscriber._take(subscription, message_type, domain)
        return subscriber

    def _take(
        self,
        subscription: Subscription,
        message_type: type[Message],
        domain: str | None,
        failures: Failures | None = None,  # None: its node tells them
    ) -> None:
        self.subscription = subscription  # with all that Cortex's has not
        self.topic_name: str = subscription.topic
        self.message_type = message_type
        self._domain = domain
        self._task: asyncio.Task[None] | None = None
        self._failures = failures

    async def receive(self) -> tuple[Message, Header] | None:
        """The next message and its header; None when the subscriber is closed.

        Raises:
            MessageFingerprintError: a publisher's messages are of another type; once for each.
        """
        try:
            sample = await self.subscription.receive()
        except (Closed, Timeout):
            return None
        return sample.data, sample.header

    async def run(self) -> None:
        """Calls the callback with each message, until `stop` or `close`.

        Raises:
            MessageFingerprintError: see `strict_fingerprint`.
            RuntimeError: it is a node's, which calls the callback itself.
        """
        if self._failures is None:
            raise RuntimeError(f"the subscriber of {self.topic_name!r} is run by its node")
        self._task = asyncio.ensure_future(self.subscription.work(threading.Event()))
        try:
            await asyncio.wait([self._task])
        finally:
            self._task.cancel()
        self._failures.raise_first()

    def start(self) -> asyncio.Task[None]:
        """`run` in a task of its own."""
        return asyncio.ensure_future(self.run())

    def stop(self) -> None:
        """Ends `run`; the subscriber stays connected. In the loop's thread."""
        if self._task is not None:
            self._task.cancel()

    @property
    def is_connected(self) -> bool:
        """Is there a publisher?"""
        return self.subscription.is_connected

    @property
    def topic_info(self) -> TopicInfo | None:
        """Who publishes the topic; None if nobody does."""
        topics = list_topics(self._domain)
        return next((topic for topic in topics if topic.name == self.topic_name), None)

    @property
    def stats(self) -> SubscriberStats:
        """See `tensorbus.Subscriber.stats`."""
        return self.subscription.stats

    @property
    def receive_count(self) -> int:
        """Messages that were received."""
        return self.subscription.receive_count

    @property
    def dropped_count(self) -> int:
        """Messages that were lost because the queue was full: all of them."""
        return self.subscription.dropped_count

    @property
    def last_receive_time(self) -> float | None:
        """As time.time() has it."""
        return self.subscription.last_receive_time

    @property
    def running(self) -> bool:
        """Does something call the callback now?"""
        return self.subscription.running

    def close(self) -> None:
        """Ends it. A second call does nothing."""
        self.subscription.close()
