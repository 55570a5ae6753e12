"""Cortex's node."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tensorbus._aio.callbacks import (
    Callback,
    Mode,
    called,
    checked_callback,
    checked_mode,
    is_coroutine_function,
)
from tensorbus._aio.failures import Failures
from tensorbus._base.arguments import MAX_DEPTH, whole_number
from tensorbus.cortex.core.publisher import Publisher
from tensorbus.cortex.core.subscriber import Subscriber
from tensorbus.cortex.core.subscriber_base import log
from tensorbus.cortex.core.sync_subscriber import ThreadedSubscriber, Worker
from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS
from tensorbus.messages import Message
from tensorbus.nodes import Node as Ours
from tensorbus.nodes import Parameter, Timer
from tensorbus.nodes._run import EndedBySigterm

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import PublisherOptions, SubscriberOptions


class Node(Ours):
    """A `tensorbus.Node` with the names and defaults of Cortex. It runs and ends as in Cortex.

    Args:
        name: the node's name.
        discovery_address: ignored; there is no daemon.
    """

    name: str = ""  # programs may set the name, as in Cortex

    def __init__(self, name: str, discovery_address: str = DEFAULT_DISCOVERY_ADDRESS) -> None:
        super().__init__(name)
        self.name = name
        self.discovery_address = discovery_address
        # The base class is a `Node`, too: private attributes of both have the same prefix.
        self.__lifecycle = self._lifecycle_of(self)
        self.__cortex_publishers: dict[str, Publisher] = {}
        self.__cortex_subscribers: dict[str, Subscriber | ThreadedSubscriber] = {}
        self.__threads: list[ThreadedSubscriber | SyncTimer] = []
        self.__runs = False

    @cached_property  # programs may set it: Cortex's nodes have no such attribute
    def parameters(self) -> Mapping[str, Parameter]:
        """The declared parameters, by name."""
        return super().parameters

    @property
    def publishers(self) -> list[str]:
        """The topics that the node publishes; an empty list when it is closed."""
        return [] if self.__lifecycle.closed else list(self.__cortex_publishers)

    @property
    def subscribers(self) -> list[str]:
        """The topics to which the node subscribes, each once; an empty list when it is closed."""
        return [] if self.__lifecycle.closed else list(self.__cortex_subscribers)

    @property
    def is_running(self) -> bool:
        """True in `run` and `spin`."""
        return self.__runs and not self.stop_event.is_set()

    def create_publisher(  # type: ignore[override]  # Cortex's arguments
        self,
        topic_name: str,
        message_type: type[Message],
        queue_size: int = 10,
        mode: Mode = "async",
        **options: Unpack[PublisherOptions],
    ) -> Publisher:
        """A publisher that is closed with the node.

        If the node already publishes the topic, that publisher is returned, with a warning.

        Args:
            topic_name, message_type: see `Publisher`.
            queue_size: how many messages may wait for a subscriber that sets no depth.
            mode: has no effect.
            options: see `tensorbus.Publisher`.

        Raises:
            ValueError: the mode is unknown, or an argument is out of range.
            Closed: the node is closed.
        """
        checked_mode(mode)
        whole_number("queue_size", queue_size, low=1, high=MAX_DEPTH)
        ours = super().create_publisher(topic_name, message_type, depth=queue_size, **options)
        if topic_name not in self.__cortex_publishers:
            self.__cortex_publishers[topic_name] = Publisher(
                topic_name,
                message_type,
                self.name,
                self.discovery_address,
                queue_size,
                _ours=ours,
                **options,
            )
        return self.__cortex_publishers[topic_name]

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
        **options: Unpack[SubscriberOptions],
    ) -> Subscriber | ThreadedSubscriber:
        """A subscriber that is closed with the node. A node may have several for one topic.

        Args:
            topic_name, message_type: see `Subscriber`.
            callback: called with message and header by `run` or `spin`.
            queue_size: how many messages may wait; a further message replaces the oldest.
            wait_for_topic: log an error if there is no publisher within `topic_timeout` seconds.
                With or without it, the subscriber connects to publishers that start later.
            topic_timeout: with mode "sync", seconds that this call waits for a publisher.
            mode: "async": call the callback in the event loop. "sync": call it in its own thread.
            strict_fingerprint: a publisher of another type raises `MessageFingerprintError`, in
                this call, or later in `run` or `spin`; by default True in mode "sync". Otherwise
                the publisher is logged. Its messages are not delivered in either case.
            cpu_affinity, sched_priority: for the thread of mode "sync"; logged if the system
                refuses them.
            options: see `tensorbus.Subscriber`.

        Raises:
            ValueError: the mode is unknown, or mode "sync" has no callback.
            TypeError: the callback is a coroutine function in mode "sync", or has other arguments.
            TimeoutError: there was no publisher in time, with mode "sync".
            MessageFingerprintError: see `strict_fingerprint`.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        failures = self.__lifecycle.failures
        subscriber: Subscriber | ThreadedSubscriber
        if checked_mode(mode) == "sync":
            subscriber = ThreadedSubscriber(
                topic_name,
                message_type,
                checked_callback(callback, "sync"),
                self.name,
                self.discovery_address,
                queue_size,
                wait_for_topic,
                topic_timeout,
                cpu_affinity,
                sched_priority,
                _failures=failures,
                _strict=strict_fingerprint is not False,
                **options,
            )
            self.__add_thread(subscriber)
        else:
            subscriber = Subscriber(
                topic_name,
                message_type,
                callback,
                self.name,
                self.discovery_address,
                queue_size,
                wait_for_topic,
                topic_timeout,
                None,
                bool(strict_fingerprint),
                _failures=failures,
                **options,
            )
            if callback is not None:
                self.__lifecycle.add(subscriber.subscription)
        self.__lifecycle.belongings.append(subscriber)
        self.__cortex_subscribers.setdefault(topic_name, subscriber)
        return subscriber

    def create_timer(  # type: ignore[override]
        self, period: float, callback: Callback, mode: Mode = "async"
    ) -> Timer:
        """Calls `callback()` when the node starts to run, and then every `period` seconds.

        Args:
            period: seconds from one call to the next.
            callback: `async def` in mode "async"; a plain function in mode "sync".
            mode: "async": call it in the event loop. "sync": call it in its own thread.

        Raises:
            TypeError: the callback is not of the kind that the mode needs, or has arguments.
            ValueError: the mode is unknown, or `period` is not above 0.
            Closed: the node is closed.
        """
        if checked_mode(mode) == "async":
            if not is_coroutine_function(callback):
                raise TypeError(f"{called(callback)} is no coroutine function: use mode='sync'")
            return super().create_timer(period, callback, at_once=True)
        self.__lifecycle.check_open()
        timer = SyncTimer(
            self.name, period, checked_callback(callback, "sync", ()), self.__lifecycle.failures
        )
        self.__add_thread(timer)
        self.__lifecycle.belongings.append(timer)
        return timer

    def get_publisher(self, topic_name: str) -> Publisher | None:  # type: ignore[override]
        """The publisher of a topic; None if there is none."""
        return None if self.__lifecycle.closed else self.__cortex_publishers.get(topic_name)

    def get_subscriber(  # type: ignore[override]
        self, topic_name: str
    ) -> Subscriber | ThreadedSubscriber | None:
        """The first subscriber of a topic; None if there is none."""
        return None if self.__lifecycle.closed else self.__cortex_subscribers.get(topic_name)

    async def run(self) -> None:
        """Calls the callbacks. Returns after `stop`, or when the task is cancelled.

        If the node has no callbacks, timers or threads, it returns at once.

        Raises:
            MessageFingerprintError: see `create_subscriber`.
            RuntimeError: the node is already running.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        if not self.__threads and not self.__lifecycle.has_work:
            return
        if self.__lifecycle.in_loop:
            raise RuntimeError(f"node {self.name!r} runs already")
        self.__start_threads()
        try:
            await self.__lifecycle.run()
        except asyncio.CancelledError:
            log.info("node %r was cancelled", self.name)
        finally:
            self.__ask_threads_to_stop()
            if any(thread.running for thread in self.__threads):
                await asyncio.get_running_loop().run_in_executor(None, self.__end_threads)

    def spin(self, timeout: float | None = None) -> bool:
        """Runs a node without an event loop until `stop`; False after `timeout` seconds.

        No callback is called after it returns. It may be called again. SIGTERM raises
        `SystemExit(143)` in this call, as Ctrl-C raises `KeyboardInterrupt`.

        Raises:
            RuntimeError: the node has work that needs an event loop.
            MessageFingerprintError: see `create_subscriber`.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        self.__lifecycle.check_all_sync("spin()")
        self.__start_threads()
        try:
            with EndedBySigterm():
                return self.__lifecycle.spin(timeout)
        finally:
            self.__ask_threads_to_stop()
            self.__end_threads()

    def stop(self) -> None:
        """Ends `run` and `spin`; they cannot start again. Any thread or callback may call it."""
        super().stop()
        self.__ask_threads_to_stop()

    def __add_thread(self, thread: ThreadedSubscriber | SyncTimer) -> None:
        self.__threads.append(thread)
        if self.is_running:
            thread.start()

    def __start_threads(self) -> None:
        self.__runs = True
        for thread in self.__threads:
            thread.start()

    def __ask_threads_to_stop(self) -> None:
        self.__runs = False
        for thread in self.__threads:
            thread.ask_to_stop()

    def __end_threads(self) -> None:
        for thread in self.__threads:
            thread.stop()


class SyncTimer(Timer):
    """A timer with its own thread, which can be restarted. Made by `Node.create_timer`."""

    def __init__(self, node: str, period: float, callback: Callback, failures: Failures) -> None:
        super().__init__(period, callback, skip=False, at_once=True, mode="sync", failures=failures)
        self._is_cancelled = False
        self._worker = Worker(f"{node}: {self.label}", self._work)

    def start(self) -> None:
        """Starts the ticks. It does nothing while the thread runs, and after `cancel`."""
        if not self._is_cancelled:
            self._worker.start()

    def ask_to_stop(self) -> None:
        """Ends the ticks without waiting for the thread."""
        self._worker.ask_to_stop()

    def stop(self) -> None:
        """Ends the ticks and waits for the thread."""
        self._worker.stop()

    @property
    def running(self) -> bool:
        """True while the thread runs."""
        return self._worker.running

    def cancel(self) -> None:
        """Ends the ticks; they cannot start again. Any thread may call it."""
        self._is_cancelled = True
        self.ask_to_stop()

    def close(self) -> None:
        """Ends the ticks, and waits for the thread; they cannot start again."""
        self.cancel()
        self.stop()

    def _work(self, stop: threading.Event) -> None:
        self._executor = self._new_executor(stop_event=stop)
        if not self._is_cancelled:
            self.work_sync(stop)
