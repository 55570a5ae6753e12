"""Cortex's subscriber for event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, cast

from tensorbus._aio.callbacks import Callback, checked_callback
from tensorbus._aio.failures import Failures
from tensorbus._base.errors import Closed, Timeout
from tensorbus.cortex.core.subscriber_base import (
    MessageFingerprintError,
    SubscriberBase,
    log,
)
from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.utils.tracing import traced
from tensorbus.messages import Message
from tensorbus.nodes import Subscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import SubscriberOptions


class Subscriber(SubscriberBase):
    """Receives messages of one type. Publishers may start later.

    Args:
        topic_name, message_type, node_name, discovery_address: see `SubscriberBase`.
        callback: `async def` or plain, called with message and header by `run` and `start`.
        queue_size: how many messages may wait; a further message replaces the oldest.
        wait_for_topic: log an error if there is no publisher within `topic_timeout` seconds. With
            or without it, the subscriber connects to publishers that start later.
        topic_timeout: see `wait_for_topic`.
        context: ignored.
        strict_fingerprint: a publisher of another type raises `MessageFingerprintError`, in the
            constructor or in `run`; otherwise the publisher is logged. Its messages are not
            delivered in either case.
        options: see `tensorbus.Subscriber`.

    Raises:
        MessageFingerprintError: see `strict_fingerprint`.
    """

    def __init__(
        self,
        topic_name: str,
        message_type: type[Message],
        callback: Callback | None = None,
        node_name: str = "anonymous",
        discovery_address: str = DEFAULT_DISCOVERY_ADDRESS,
        queue_size: int = 10,
        wait_for_topic: bool = True,
        topic_timeout: float = 600.0,
        context: object = None,
        strict_fingerprint: bool = False,
        *,
        _failures: Failures | None = None,  # of the node that runs it
        **options: Unpack[SubscriberOptions],
    ) -> None:
        super().__init__(
            topic_name,
            message_type,
            node_name,
            discovery_address,
            topic_timeout,
            wait_for_topic,
            strict_fingerprint,
        )
        if callback is not None:
            callback = checked_callback(callback, "async", ("message", "header"))
            callback = traced("async.callback", callback)
        self._failures = Failures(node_name, "log", self.stop) if _failures is None else _failures
        self._has_node = _failures is not None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stops = 0
        self._was_connected = False
        self.subscription: Subscription = Subscription(
            self._opened(queue_size, **options),
            callback,
            mode="async",
            failures=self._failures,
            topic_timeout=topic_timeout if wait_for_topic else None,
            strict=strict_fingerprint,
        )

    async def receive(self) -> tuple[Message, MessageHeader] | None:
        """The next message and its header; None if the subscriber is closed or never connected.

        Raises:
            MessageFingerprintError: see `strict_fingerprint`.
        """
        if not self._was_connected:
            self._was_connected = self.is_connected
        while True:
            try:
                # A subscriber that was never connected does not wait.
                wait = None if self._was_connected else 0
                sample = await self.subscription.receive(wait)
                break
            except (Closed, Timeout):
                return None
            except MessageFingerprintError as error:
                if self._is_strict:
                    raise
                log.warning("topic %r: %s", self.topic_name, error)
        self._was_connected = True
        return sample.data, cast(MessageHeader, sample.header)

    async def run(self) -> None:
        """Calls the callback with each message, until `stop` or `close`.

        If the task is cancelled, it returns normally, as in Cortex.

        Raises:
            MessageFingerprintError: see `strict_fingerprint`.
            RuntimeError: a node made the subscriber, and calls the callback itself.
        """
        await self._run(self._stops)

    def start(self) -> asyncio.Task[None]:
        """Starts `run` in a new task."""
        return asyncio.ensure_future(self._run(self._stops))

    async def _run(self, stops: int) -> None:
        """Runs, unless `stop` was called since `_stops` had the value `stops`."""
        if self._has_node:
            raise RuntimeError(f"the subscriber of {self.topic_name!r} is run by its node")
        if self.subscription.callback is None:
            log.warning("the subscriber of %r has no callback to run", self.topic_name)
            return
        if stops != self._stops:
            return
        task = asyncio.ensure_future(self.subscription.work(threading.Event()))
        self._tasks.add(task)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            pass
        finally:
            task.cancel()
            self._tasks.discard(task)
        self._failures.raise_first()

    def stop(self) -> None:
        """Ends every `run`; the subscriber stays connected. Call it in the loop's thread."""
        self._stops += 1
        for task in self._tasks:
            task.cancel()

    @property
    def running(self) -> bool:
        """True while a task calls the callback."""
        return self.subscription.running


AsyncSubscriber = Subscriber
