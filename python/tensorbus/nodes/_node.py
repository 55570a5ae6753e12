"""Nodes: callbacks on topics, timers and services that start and end together."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import finalize

from tensorbus import _core
from tensorbus._aio.callbacks import Callback, Mode, called, checked_callback, checked_mode
from tensorbus._aio.failures import OnError
from tensorbus._base.arguments import topic_name, whole_number
from tensorbus._base.errors import InvalidArgument, Timeout
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._core import Outcome
from tensorbus._pools.batches import Limits
from tensorbus._services.client import Client
from tensorbus._services.service import Service
from tensorbus._tensors.library import Library
from tensorbus._topics.liveliness import DeadlineMissed, PublisherLost
from tensorbus._topics.publisher import Publisher
from tensorbus._topics.sample_time import TimeOf
from tensorbus._topics.subscriber import Subscriber
from tensorbus._topics.time_synchronizer import TimeSynchronizer
from tensorbus.nodes._clock_timer import Clock, new_timer
from tensorbus.nodes._declared import DeclaredParameters, OnSet, service_name
from tensorbus.nodes._lifecycle import HasLifecycle, Lifecycle
from tensorbus.nodes._parameters import Parameter, log_undeclared
from tensorbus.nodes._subscription import Subscription, raise_event
from tensorbus.nodes._synchronized import SynchronizedCallback, Topics, types_by_topic
from tensorbus.nodes._threads import Place
from tensorbus.nodes._timer import Timer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._base.arguments import Access
    from tensorbus._base.generics import MessageClass, Reply, Request, T
    from tensorbus._topics.options import PublisherOptions, SubscriberOptions
    from tensorbus.messages import Message


@public
class Node(HasLifecycle):
    """Publishers, subscribers with callbacks, timers and services under one name.

    With an event loop, `async with Node(...) as node: await node.run()`, callbacks are `async def`
    or plain functions, and each subscriber has its own task. Without an event loop, `with Node(...)
    as node: node.spin()`, callbacks are plain functions with `mode="sync"`, and each subscriber has
    its own thread. See docs/nodes.md.

    Args:
        name: the name in `list_nodes`. Any number of nodes may have the same name.
        domain: see `tensorbus.participant`.
        on_error: the effect of an exception in a callback. "log": it is logged. "stop": it is
            logged, and ends `run` and `spin`. "raise": it is logged, and `run` or `spin` raises it.
        parameters: values for `declare_parameter`, used if neither the command line nor the
            environment has a value. Each must be declared before `run` or `spin`.
        clock: a topic whose time the timers follow, for example the clock of a `Player`.

    Raises:
        InvalidArgument: the name is not a str or is empty, or `on_error` is unknown.
        AccessDenied: another user owns the domain directory or may write to it.

    >>> import asyncio
    >>> async def main():
    ...     async with Node("doubler") as node:
    ...         doubled = node.create_publisher("doc/doubled")
    ...         numbers = node.create_publisher("doc/numbers")
    ...         def double(number, header):
    ...             doubled.publish(number * 2)
    ...         def show(number, header):
    ...             print(number)
    ...             node.stop()
    ...         node.create_subscriber("doc/numbers", callback=double)
    ...         node.create_subscriber("doc/doubled", callback=show)
    ...         for publisher in (doubled, numbers):
    ...             assert publisher.wait_for_subscribers(timeout=10)
    ...         numbers.publish(21)
    ...         await node.run()
    >>> asyncio.run(main())
    42
    """

    def __init__(
        self,
        name: str,
        *,
        domain: str | None = None,
        on_error: OnError = "log",
        parameters: Mapping[str, Any] | None = None,
        clock: str | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"name={name!r}: expected a str that is not empty")
        self.__name = name
        self.__domain = domain
        self.__clock = None if clock is None else Clock(topic_name(clock), name, domain)
        self.__declared = DeclaredParameters(name, parameters or {})
        self.__parameters_offered = False  # by a service
        self.__publishers: dict[str, Publisher] = {}
        self.__subscriptions: list[Subscription] = []
        self.__synchronizers: list[TimeSynchronizer] = []
        self.__lifecycle = Lifecycle(name, on_error, self.__before_work, self.__close_all)
        super().__init__(name, self.__lifecycle)
        self.__unchecked = finalize(
            self, log_undeclared, name, self.__declared.given, self.__declared.by_name
        )
        self.__listed: _core.NodeName | None = _core.NodeName(name, participant(domain))

    @property
    def publishers(self) -> list[str]:
        """The topics that the node publishes."""
        return list(self.__publishers)

    @property
    def subscribers(self) -> list[str]:
        """The topics to which the node subscribes, each once."""
        synchronized = (topic for each in self.__synchronizers for topic in each.topics)
        return list(dict.fromkeys([*(each.topic for each in self.__subscriptions), *synchronized]))

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The declared parameters, by name."""
        return MappingProxyType(self.__declared.by_name)

    def get_publisher(self, topic: str) -> Publisher | None:
        """The publisher of a topic; None if there is none."""
        return self.__publishers.get(topic)

    def get_subscriber(self, topic: str) -> Subscription | None:
        """The first subscriber of a topic; None if there is none."""
        return next((each for each in self.__subscriptions if each.topic == topic), None)

    def create_publisher(
        self,
        topic: str,
        message_type: MessageClass[T] | None = None,
        *,
        depth: int | None = None,
        **options: Unpack[PublisherOptions],
    ) -> Publisher[T]:
        """A publisher that is closed with the node.

        If the node already publishes the topic, that publisher is returned, with a warning.

        Args:
            topic, message_type, depth, options: see `Publisher`.

        Raises:
            InvalidArgument, TypeError, MessageError, Unsupported, AccessDenied: as `Publisher`.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        if topic in self.__publishers:
            warnings.warn(
                f"node {self.__name!r} publishes {topic!r} already: this is the same publisher",
                RuntimeWarning,
                stacklevel=2,
            )
            return self.__publishers[topic]
        _refuse(options, "queue_size", "create_publisher", "depth")
        options.setdefault("domain", self.__domain)
        publisher = Publisher(topic, message_type, depth=depth, node=self.__name, **options)
        self.__publishers[topic] = publisher
        return publisher

    def create_subscriber(
        self,
        topic: str,
        message_type: MessageClass[T] | None = None,
        callback: Callback | None = None,
        *,
        queue_size: int = 10,
        mode: Mode = "async",
        wait_for_topic: bool = True,
        topic_timeout: float | None = None,
        strict: bool = False,
        expect_every: float | None = None,
        expect_first: float | None = None,
        on_deadline_missed: Callback | None = None,
        on_publisher_lost: Callback | None = None,
        cpu_affinity: int | Iterable[int] | None = None,
        sched_priority: int | None = None,
        **options: Unpack[SubscriberOptions],
    ) -> Subscription[T]:
        """Calls `callback(message, header)` for each sample. Without a callback, use `receive`.

        A node may have several subscribers of a topic. The callback may be `async def`; its calls
        never overlap. The message is `sample.data`, and the header is `sample.header`.

        Args:
            topic, message_type, options: see `Subscriber`.
            callback: a function of the message and the header.
            queue_size: how many samples may wait for the callback; a further sample replaces the
                oldest.
            mode: "async": call the callback in the event loop. "sync": call it in its own thread.
            wait_for_topic: the topic may be published later. False: raise `Timeout` if it has no
                publisher now.
            topic_timeout: seconds of `run` without a publisher after which an error is reported,
                once; the subscriber continues to wait.
            strict: a publisher of another type ends `run` or `spin` with `TypeMismatch`. Otherwise
                the mismatch is reported like an error of a callback, and the samples of other
                publishers are still received.
            expect_every: seconds within which the next sample is expected after each sample.
            expect_first: seconds within which the first sample is expected after the subscriber was
                made; `None`: `expect_every`, but at least 5 seconds; `math.inf`: no deadline.
            on_deadline_missed: called with a `DeadlineMissed` when none has arrived in that time,
                and again each time that it has passed once more.
            on_publisher_lost: called with a `PublisherLost` when a publisher has closed, or its
                process has died, after the callback was called for its last sample. Both functions
                are called where the callback is called, never beside it, and may be `async def` in
                mode "async". Their errors are reported like those of the callback.
            cpu_affinity: the CPU, or CPUs, of the thread of mode "sync".
            sched_priority: that thread's real-time priority (SCHED_FIFO), 1 to 99.

        Raises:
            InvalidArgument: the mode is unknown, mode "sync" has no callback, a CPU does not exist,
                or as `Subscriber`.
            TypeError: the callback is a coroutine function in mode "sync", or has other arguments.
            AccessDenied: the system does not grant the priority; the message names what is missing.
            Timeout: the topic has no publisher now, with `wait_for_topic=False`.
            MessageError, Unsupported: as `Subscriber`.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        if callback is not None or checked_mode(mode) == "sync":
            callback = checked_callback(callback, checked_mode(mode), ("message", "header"))
        on_event = {
            kind: checked_callback(function, mode, ("event",))
            for kind, function in (
                (DeadlineMissed, on_deadline_missed),
                (PublisherLost, on_publisher_lost),
            )
            if function is not None
        }
        _refuse(options, "depth", "create_subscriber", "queue_size")
        _refuse_function("message_type", message_type)
        place = Place.of(mode, cpu_affinity, sched_priority)
        domain = options.setdefault("domain", self.__domain)
        if not wait_for_topic:
            _check_topic(topic, domain)
        subscription = Subscription(
            Subscriber(
                topic,
                message_type,
                depth=whole_number("queue_size", queue_size, low=1),
                expect_every=expect_every,
                expect_first=expect_first,
                on_deadline_missed=raise_event if DeadlineMissed in on_event else None,
                on_publisher_lost=raise_event if PublisherLost in on_event else None,
                node=self.__name,
                **options,
            ),
            callback,
            mode=mode,
            failures=self.__lifecycle.failures,
            topic_timeout=topic_timeout,
            strict=strict,
            on_event=on_event,
        )
        self.__subscriptions.append(subscription)
        self.__lifecycle.add(subscription, place)
        return subscription

    def create_synchronizer(
        self,
        topics: Topics,
        callback: Callback,
        *,
        tolerance: float,
        queue_size: int = 8,
        time: TimeOf = None,
        mode: Mode = "async",
        cpu_affinity: int | Iterable[int] | None = None,
        sched_priority: int | None = None,
        **options: Unpack[SubscriberOptions],
    ) -> TimeSynchronizer:
        """Calls `callback(*samples)` for each set: a sample of each topic, with similar times.

        The callback may be `async def`; its calls never overlap. `stats` of the returned object
        counts the sets, and the samples that were dropped.

        Args:
            topics: at least two names, or a dict of names and message types. The callback gets a
                `Sample` of each, in this order.
            callback: a function of as many samples as there are topics.
            tolerance, queue_size, time: see `TimeSynchronizer`. As many samples as `queue_size`
                wait for the callback, too.
            options: of each subscriber, see `Subscriber`.
            mode, cpu_affinity, sched_priority: see `create_subscriber`.

        Raises:
            InvalidArgument, AccessDenied, Closed, MessageError, Unsupported: as
                `create_subscriber` and `TimeSynchronizer`.
            TypeError: the callback is a coroutine function in mode "sync", or has other arguments;
                or `topics` is a single name.

        >>> with Node("stereo") as node:
        ...     def on_images(left, right):
        ...         print(left.data, right.data)
        ...         node.stop()
        ...     topics = ["doc/images/left", "doc/images/right"]
        ...     node.create_synchronizer(topics, on_images, tolerance=5, mode="sync")
        ...     for topic in topics:
        ...         publisher = node.create_publisher(topic)
        ...         assert publisher.wait_for_subscribers(timeout=10)
        ...         publisher.publish(topic[-5:])
        ...     node.spin()
        <tensorbus.TimeSynchronizer 'doc/images/left', 'doc/images/right' sets=0>
        1
        1
        /left right
        True
        """
        self.__lifecycle.check_open()
        types = types_by_topic(topics)
        callback = checked_callback(callback, checked_mode(mode), tuple(types))
        _refuse(options, "depth", "create_synchronizer", "queue_size")
        place = Place.of(mode, cpu_affinity, sched_priority)
        depth = whole_number("queue_size", queue_size, low=1)
        options.setdefault("domain", self.__domain)
        synchronizer = TimeSynchronizer(
            [
                Subscriber(topic, kind, depth=depth, node=self.__name, **options)
                for topic, kind in types.items()
            ],
            tolerance=tolerance,
            queue_size=queue_size,
            time=time,
        )
        self.__synchronizers.append(synchronizer)
        work = SynchronizedCallback(synchronizer, callback, mode, self.__lifecycle.failures)
        self.__lifecycle.add(work, place)
        return synchronizer

    def create_timer(
        self,
        period: float,
        callback: Callback,
        *,
        skip: bool = False,
        at_once: bool = False,
        mode: Mode = "async",
        cpu_affinity: int | Iterable[int] | None = None,
        sched_priority: int | None = None,
    ) -> Timer:
        """Calls `callback()` every `period` seconds while the node runs, first after one period.

        Ticks are on a fixed grid of the monotonic clock, or of the node's `clock`. A tick that is
        due before the previous tick has ended is late, or is left out with `skip=True`;
        `timer.overruns` counts both.

        Args:
            period: seconds from one tick to the next.
            callback: a function without arguments, plain or `async def`.
            skip: leave out ticks that are late.
            at_once: the first tick is due when the node starts to run.
            mode, cpu_affinity, sched_priority: see `create_subscriber`.

        Raises:
            InvalidArgument: `period` is not a number above 0, or the mode is unknown.
            TypeError: the callback is a coroutine function in mode "sync", or has arguments.
            AccessDenied, Closed: see `create_subscriber`.
        """
        self.__lifecycle.check_open()
        callback = checked_callback(callback, checked_mode(mode), ())
        place = Place.of(mode, cpu_affinity, sched_priority)
        options: Any = {"skip": skip, "at_once": at_once, "mode": mode}
        failures = self.__lifecycle.failures
        timer = new_timer(self.__clock, period, callback, failures=failures, **options)
        self.__lifecycle.add(timer, place)
        return timer

    def create_service(
        self,
        name: str,
        request_type: type[Message] | None = None,
        reply_type: type[Message] | None = None,
        callback: Callback | None = None,
        *,
        concurrency: int = 1,
        batch: int | None = None,
        max_wait: float = 0.0,
        mode: Mode = "async",
        cpu_affinity: int | Iterable[int] | None = None,
        sched_priority: int | None = None,
        library: Library | None = None,
    ) -> Service:
        """Replies to requests with the result of `callback(request)` while the node runs.

        An exception of the callback is handled as in other callbacks, see `on_error`; the client
        raises `ServiceError`. With `batch` this also holds for an exception among the replies.

        Args:
            name: the service's name. Any number of processes may offer it; each client distributes
                its calls over them.
            request_type, reply_type: classes that inherit from `Message`; `None` for any value.
            callback: a function of the request, plain or `async def`.
            concurrency: how many requests, or batches, are handled at the same time, in tasks or
                threads.
            batch: call the callback with up to so many requests at once, in the form of a
                `WorkerPool` with `batch`; it returns the replies in the form of results there.
            max_wait: with `batch`, seconds to wait for further requests after the first.
            library: the library of received tensors, see `tensorbus.Subscriber`.
            mode, cpu_affinity, sched_priority: see `create_subscriber`.

        Raises:
            InvalidArgument: the node offers this service already, or see `create_subscriber`.
            TypeError, AccessDenied, Closed: see `create_subscriber`.
            MessageError: a type is not a dataclass.
            Unsupported: a type has a field that cannot be sent.

        >>> import numpy as np
        >>> with Node("doc/sums") as node:
        ...     service = node.create_service(
        ...         "doc/sum", callback=lambda rows: rows.sum(axis=1), batch=8, mode="sync"
        ...     )
        ...     node.spin(timeout=0)
        ...     float(node.create_client("doc/sum").call_sync(np.ones(3), timeout=10))
        False
        3.0
        """
        self.__lifecycle.check_open()
        services = (each for each in self.__lifecycle.belongings if isinstance(each, Service))
        if any(service.is_open_as(name) for service in services):
            raise InvalidArgument(f"node {self.__name!r} offers service {name!r} already")
        _refuse_function("request_type", request_type)
        _refuse_function("reply_type", reply_type)
        limits = Limits(batch, max_wait)
        arguments = ("request",) if batch is None else ("requests",)
        callback = checked_callback(callback, checked_mode(mode), arguments)
        place = Place.of(mode, cpu_affinity, sched_priority)
        service = Service(
            topic_name(name),
            request_type,
            reply_type,
            callback,
            mode=mode,
            concurrency=concurrency,
            limits=limits,
            library=library,
            domain=self.__domain,
            failures=self.__lifecycle.failures,
        )
        self.__lifecycle.belongings.append(service)
        self.__lifecycle.add(service, place)
        return service

    def create_client(
        self,
        name: str,
        request_type: MessageClass[Request] | None = None,
        reply_type: MessageClass[Reply] | None = None,
        *,
        timeout: float | None = None,
        access: Access | None = None,
        library: Library | None = None,
        reopen: bool = False,
        domain: str | None = None,
    ) -> Client[Request, Reply]:
        """A client of a service, which may be offered later.

        Args:
            name, request_type, reply_type, timeout, access, library, reopen: see `Client`.
            domain: by default the domain of the node.

        Raises:
            InvalidArgument, MessageError, Unsupported: as `Client`.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        client = Client(
            name,
            request_type,
            reply_type,
            timeout=timeout,
            access=access,
            library=library,
            reopen=reopen,
            domain=self.__domain if domain is None else domain,
        )
        self.__lifecycle.belongings.append(client)
        return client

    def spawn_thread(
        self, target: Callback, *args: Any, name: str | None = None, **kwargs: Any
    ) -> threading.Thread:
        """Runs `target(stop_event, *args, **kwargs)` in a thread, at once.

        The function must return soon after `stop_event` is set: closing the node waits for it.

        Args:
            target: a plain function.
            name: the name of the thread in the log; by default the name of the function.

        Raises:
            TypeError: `target` is not callable, or is a coroutine function.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        checked_callback(target, "sync")
        label = name or called(target)
        return self.__lifecycle.threads.start(
            label, lambda: target(self.__lifecycle.stopped, *args, **kwargs)
        )

    def declare_parameter(
        self, name: str, default: Any, help: str = "", on_set: OnSet | None = None
    ) -> Any:
        """The value of a parameter, of the default's type.

        The value is from the command line, `--NODE.NAME=VALUE` or `--NAME=VALUE`; else from the
        environment, `TENSORBUS_NODE_<NODE>_<NAME>` in capitals; else from `Node(parameters=...)`;
        else it is the default.

        Args:
            name: the parameter's name, of letters, digits and "_".
            default: a bool, int, float, str, list, tuple, dict or `None`. A text is read as a value
                of this type; for `None`, as a str.
            help: a description for `tensorbus param list`.
            on_set: called with the new value when `tensorbus param set` sends a value to the
                running node; it refuses the value by raising an exception. It runs in the event
                loop if the node has other work there, else in a thread. `None`: the value cannot
                change.

        Raises:
            InvalidArgument: the name is invalid, or the text cannot be read as a value of the
                default's type; the message names it.
            TypeError: `on_set` is a coroutine function, or has other arguments.

        >>> with Node("camera", parameters={"rate": 10.0}) as node:
        ...     node.declare_parameter("rate", 30.0, help="frames a second")
        10.0
        """
        return self.__declared.declare(name, default, help, on_set)

    def __before_work(self) -> None:
        self.__unchecked.detach()
        self.__declared.check()
        if self.__declared.by_name and not self.__parameters_offered:
            self.__parameters_offered = True
            mode: Mode = "async" if self.__lifecycle.has_async_work else "sync"
            name = service_name(self.__name)
            self.create_service(name, callback=self.__declared.answer, mode=mode)

    def __close_all(self) -> None:
        for closing in (*self.__subscriptions, *self.__synchronizers, *self.__publishers.values()):
            closing.close()
        self.__listed = None


def _refuse(options: Mapping[str, object], keyword: str, method: str, other: str) -> None:
    if keyword in options:
        raise TypeError(f"{method}({keyword}=...): use {other}=, which means the same here")


def _check_topic(topic: str, domain: str | None) -> None:
    if _core.wait_for_topic(topic, 0, participant(domain)) is not Outcome.DONE:
        raise Timeout(f"topic {topic!r} has no publisher, and wait_for_topic=False")


def _refuse_function(argument: str, value: object) -> None:
    if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType)):
        raise InvalidArgument(
            f"{argument}={value!r}: expected a class. A callback is given as callback="
        )
