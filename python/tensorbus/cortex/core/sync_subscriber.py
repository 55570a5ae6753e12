"""Cortex's subscriber with its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tensorbus._aio.callbacks import Callback, called, checked_callback, is_coroutine_function
from tensorbus._aio.failures import Failures
from tensorbus._base.arguments import MAX_DEPTH, whole_number
from tensorbus._base.errors import Closed, Error, Timeout
from tensorbus._base.participant import participant
from tensorbus._base.stop_event import StopEvent
from tensorbus._core import Outcome, wait_for_topic
from tensorbus.cortex.core.subscriber_base import SubscriberBase, log
from tensorbus.cortex.core.types import SyncMessageCallback
from tensorbus.cortex.discovery.protocol import DEFAULT_DISCOVERY_ADDRESS
from tensorbus.cortex.utils.tracing import traced
from tensorbus.messages import Message
from tensorbus.nodes import Subscription
from tensorbus.nodes._threads import Place

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import SubscriberOptions

__all__ = ["SyncMessageCallback", "ThreadedSubscriber"]

# Seconds between two checks of the stop event in a thread that waits for a sample.
_STOP_INTERVAL = 0.05
# Seconds that `stop` waits for the thread.
_STOP_TIMEOUT = 1.0


class ThreadedSubscriber(SubscriberBase):
    """Calls a plain function with each message, in its own thread. It works without a `Node`, too.

    The constructor connects to the topic. `start` starts the thread, also again after `stop`.

    Args:
        topic_name, message_type, node_name, discovery_address: see `SubscriberBase`.
        callback: a plain function, called with message and header.
        queue_size: how many messages may wait; a further message replaces the oldest. 0 means 1.
        wait_for_topic: ignored, as in Cortex: the constructor always waits.
        topic_timeout: seconds to wait for a publisher.
        cpu_affinity: the CPU, or CPUs, of the thread; logged if the system refuses them.
        sched_priority: the thread's real-time priority (SCHED_FIFO), 1 to 99; logged if the system
            refuses it.
        options: see `tensorbus.Subscriber`.

    Raises:
        TypeError: the callback is a coroutine function.
        ValueError: `queue_size` is not 0 to 65536.
        TimeoutError: there was no publisher in time.
        MessageFingerprintError: a publisher's messages have another type.
    """

    def __init__(
        self,
        topic_name: str,
        message_type: type[Message],
        callback: Callback,
        node_name: str = "anonymous",
        discovery_address: str = DEFAULT_DISCOVERY_ADDRESS,
        queue_size: int = 1,
        wait_for_topic: bool = True,
        topic_timeout: float = 30.0,
        cpu_affinity: int | Iterable[int] | None = None,
        sched_priority: int | None = None,
        *,
        _failures: Failures | None = None,  # of the node that starts it
        _strict: bool = True,
        **options: Unpack[SubscriberOptions],
    ) -> None:
        super().__init__(
            topic_name,
            message_type,
            node_name,
            discovery_address,
            topic_timeout,
            wait_for_topic,
            _strict,
        )
        if callback is not None and is_coroutine_function(callback):
            raise TypeError(
                f"{called(callback)} is a coroutine function: a synchronous one is needed"
            )
        callback = checked_callback(callback, "sync", ("message", "header"))
        queue_size = whole_number("queue_size", queue_size, low=0, high=MAX_DEPTH) or 1
        self._wait(options.get("domain"))
        if isinstance(cpu_affinity, int):
            cpu_affinity = (cpu_affinity,)
        cpus = None if cpu_affinity is None else tuple(cpu_affinity)
        places = (Place(cpus), Place(priority=sched_priority))
        self._has_node = _failures is not None
        self._failures = _failures or Failures(node_name, "log", self.ask_to_stop)
        options.setdefault("timeout", _STOP_INTERVAL)
        self.subscription: Subscription = Subscription(
            self._opened(queue_size, **options),
            traced("sync.callback", callback),
            mode="sync",
            failures=self._failures,
            topic_timeout=None,
            strict=_strict,
        )
        self._closed = False
        self._worker = Worker(
            f"{node_name}: topic {topic_name!r}",
            self._work,
            places,
            daemon=self._has_node,  # without a node, the program waits for the thread, as in Cortex
        )

    def _wait(self, domain: str | None) -> None:
        outcome = wait_for_topic(self.topic_name, self.topic_timeout, participant(domain))
        if outcome is not Outcome.DONE:
            raise Timeout(f"topic {self.topic_name!r} had no publisher in {self.topic_timeout} s")

    def start(self) -> None:
        """Starts to call the callback. A second call does nothing.

        Raises:
            Closed: the subscriber is closed.
        """
        if self._closed:
            raise Closed(f"the subscriber of {self.topic_name!r} is closed")
        self._worker.start()

    def stop(self, timeout: float | None = None) -> None:
        """Ends the thread, and waits for its end for `timeout` seconds; by default 1 second."""
        self._worker.stop(timeout)

    def ask_to_stop(self) -> None:
        """Ends the thread without waiting for its end."""
        self._worker.ask_to_stop()

    @property
    def running(self) -> bool:
        """True while the thread runs."""
        return self._worker.running

    @property
    def is_running(self) -> bool:
        """The value of `running`."""
        return self.running

    def close(self) -> None:
        """Closes the subscriber and ends its thread. A second call does nothing."""
        self._closed = True
        super().close()  # wakes the thread
        self.stop()

    def _work(self, stop: threading.Event) -> None:
        self.subscription.work_sync(stop)
        if self._has_node:
            return  # the node raises the error that ended the thread
        try:
            self._failures.raise_first()
        except Error as error:  # a publisher of another type
            log.error("topic %r: %s", self.topic_name, error)


class Worker:
    """A thread that any thread may restart. Its work begins when the previous thread has ended.

    Args:
        name: the thread's name.
        work: the function that it runs; it returns when the event is set.
        places: CPUs and priorities of the thread; logged if the system refuses them.
        daemon: the end of the program does not wait for the thread.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[threading.Event], None],
        places: Iterable[Place] = (),
        daemon: bool = True,
    ) -> None:
        self._name = name
        self._work = work
        self._places = tuple(places)
        self._daemon = daemon
        self._thread: threading.Thread | None = None
        self._stop = StopEvent()
        self._changing = threading.RLock()  # reentrant: a signal handler may stop during a start

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Starts the thread; does nothing while it runs."""
        with self._changing:
            before = self._thread if self.running else None
            if before is not None and not self._stop.is_set():
                return
            self._stop = StopEvent()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop, before), name=self._name, daemon=self._daemon
            )
            self._thread.start()

    def ask_to_stop(self) -> None:
        self._stop.set()

    def stop(self, timeout: float | None = None) -> None:
        """Ends the thread and waits for its end, unless the thread itself is the caller."""
        with self._changing:
            self.ask_to_stop()
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        try:
            thread.join(_STOP_TIMEOUT if timeout is None else timeout)
        except RuntimeError:  # Ctrl-C interrupted its start: the thread, if any, checks the event
            return
        if thread.is_alive():
            log.warning("thread %r has not ended in time", self._name)

    def _run(self, stop: threading.Event, before: threading.Thread | None) -> None:
        if before is not None:  # `stop` has timed out waiting for its callback
            before.join()
        for place in self._places:
            try:
                place.take()
            except Error as error:
                log.warning("thread %r: %s", self._name, error)
        self._work(stop)
