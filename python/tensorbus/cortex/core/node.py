"""Cortex's node."""

from __future__ import annotations

from collections.abc import Iterable

from tensorbus._aio.callbacks import Callback, Mode, called, checked_mode, is_coroutine_function
from tensorbus.cortex.core.publisher import Publisher
from tensorbus.cortex.core.subscriber import Subscriber
from tensorbus.messages import Message
from tensorbus.nodes import Node as Ours
from tensorbus.nodes import Timer


class Node(Ours):
    """A `tensorbus.Node` whose publishers and subscribers have Cortex's names and defaults.

    Args:
        name: the node's.
        discovery_address: ignored; there is no daemon.
    """

    def __init__(self, name: str, discovery_address: object = None) -> None:
        super().__init__(name)
        self.__sends: dict[str, Publisher] = {}
        self.__receives: dict[str, Subscriber] = {}

    def create_publisher(  # type: ignore[override]  # these are Cortex's words
        self,
        topic_name: str,
        message_type: type[Message],
        queue_size: int = 10,
        mode: Mode = "async",
    ) -> Publisher:
        """A publisher; of a topic that has one, that one, with a warning.

        Args:
            mode: makes no difference.
        """
        checked_mode(mode)
        ours = super().create_publisher(topic_name, message_type, depth=queue_size)
        if topic_name not in self.__sends:
            self.__sends[topic_name] = Publisher.over(ours, message_type)
        return self.__sends[topic_name]

    def create_subscriber(  # type: ignore[override]
        self,
        topic_name: str,
        message_type: type[Message],
        callback: Callback | None = None,
        queue_size: int = 10,
        wait_for_topic: bool = True,
        topic_timeout: float = 30.0,
        mode: Mode = "async",
        strict_fingerprint: bool | None = None,
        cpu_affinity: int | Iterable[int] | None = None,
        sched_priority: int | None = None,
    ) -> Subscriber:
        """A subscriber; a topic may have several.

        Args:
            wait_for_topic: that nobody publishes in `topic_timeout` seconds is logged. It connects
                whenever somebody does, in either case.
            strict_fingerprint: publishers of another type end `run`, or `spin`, with
                `MessageFingerprintError`; by default in mode "sync". Otherwise they are logged.
                Nothing of theirs is delivered in either case.
            callback, queue_size, mode, cpu_affinity, sched_priority: see
                `tensorbus.Node.create_subscriber`.
        """
        subscription = super().create_subscriber(
            topic_name,
            message_type,
            callback,
            queue_size=queue_size,
            mode=mode,
            topic_timeout=topic_timeout if wait_for_topic else None,
            strict=mode == "sync" if strict_fingerprint is None else strict_fingerprint,
            cpu_affinity=cpu_affinity,
            sched_priority=sched_priority,
        )
        subscriber = Subscriber.over(subscription, message_type, None)
        self.__receives.setdefault(topic_name, subscriber)
        return subscriber

    def create_timer(  # type: ignore[override]
        self, period: float, callback: Callback, mode: Mode = "async"
    ) -> Timer:
        """Calls back every `period` seconds; see `tensorbus.Node.create_timer`.

        Raises:
            TypeError: a plain function in mode "async", a coroutine function in mode "sync".
        """
        if checked_mode(mode) == "async" and not is_coroutine_function(callback):
            raise TypeError(f"{called(callback)} is no coroutine function: use mode='sync'")
        return super().create_timer(period, callback, mode=mode)

    def get_publisher(self, topic: str) -> Publisher | None:  # type: ignore[override]
        """The publisher of a topic, if there is one."""
        return self.__sends.get(topic)

    def get_subscriber(self, topic: str) -> Subscriber | None:  # type: ignore[override]
        """The first subscriber of a topic, if there is one."""
        return self.__receives.get(topic)
