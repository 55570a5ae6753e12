"""Receiving with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Generic

from tensorbus._base.arguments import Access
from tensorbus._base.closing import Closing
from tensorbus._base.generics import T
from tensorbus._base.public import public
from tensorbus._tensors.library import Library
from tensorbus._topics.sample import Sample
from tensorbus._topics.subscriber import Subscriber

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass
    from tensorbus._base.stats import SubscriberStats
    from tensorbus._topics.liveliness import OnDeadlineMissed, OnPublisherLost


@public
class AsyncSubscriber(Closing, Generic[T]):
    """A `Subscriber` for asyncio and compatible event loops, for example uvloop.

    It starts no thread, and an event loop watches one descriptor for all its subscribers. Any
    number of tasks may wait for samples, in one loop or in the loops of several threads: each
    sample goes to one of the tasks. A cancelled call has taken no sample.

    To wait for the first of several subscribers, wait for their tasks with `asyncio.wait`.

    Args:
        spin: seconds for which `receive` polls before it waits; the event loop is blocked
            meanwhile.
        topic, message_type, depth, timeout, max_held, reliable, end_of_stream, access, pin, device,
            library, expect_every, expect_first, domain: see `Subscriber`.
        on_deadline_missed, on_publisher_lost: plain functions, called in the event loop, see
            `Subscriber`.

    Raises:
        InvalidArgument: an invalid topic name, or an option out of range.
        TypeError, MessageError, Unsupported: as `Subscriber`.
        AccessDenied: other users own the domain directory, or may write to it.

    >>> import asyncio
    >>> from tensorbus import Publisher
    >>> async def main():
    ...     with Publisher("doc/async", history=2) as publisher:
    ...         publisher.publish({"id": 7})
    ...         publisher.publish({"id": 8})
    ...         async with AsyncSubscriber("doc/async", timeout=10) as subscriber:
    ...             print((await subscriber.receive()).data)
    ...             async for sample in subscriber:
    ...                 print(sample.data)
    ...                 break
    >>> asyncio.run(main())
    {'id': 7}
    {'id': 8}
    """

    _in_a_child = "open the topic in the child"

    def __init__(
        self,
        topic: str,
        message_type: MessageClass[T] | None = None,
        *,
        depth: int = 0,
        timeout: float | None = None,
        max_held: int = 256,
        reliable: bool = True,
        end_of_stream: bool = False,
        spin: float = 0,
        access: Access = "copy-on-write",
        pin: bool = False,
        device: Any = None,
        library: Library | None = None,
        expect_every: float | None = None,
        expect_first: float | None = None,
        on_deadline_missed: OnDeadlineMissed | None = None,
        on_publisher_lost: OnPublisherLost | None = None,
        domain: str | None = None,
    ) -> None:
        self._closed = False
        self._subscriber = Subscriber(
            topic,
            message_type,
            depth=depth,
            timeout=timeout,
            max_held=max_held,
            reliable=reliable,
            end_of_stream=end_of_stream,
            spin=spin,
            access=access,
            pin=pin,
            device=device,
            library=library,
            expect_every=expect_every,
            expect_first=expect_first,
            on_deadline_missed=on_deadline_missed,
            on_publisher_lost=on_publisher_lost,
            domain=domain,
        )
        self._receiver = self._subscriber._async_receiver(
            timeout, spin, end_of_stream=end_of_stream
        )

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._subscriber.topic

    # Not `async`: that would wrap the receiver's coroutine in a second one.
    def receive(self, timeout: float | None = None) -> Coroutine[Any, Any, Sample[T]]:
        """The next sample; waits up to `timeout` seconds (default: the subscriber's own).

        A sample that waits already is returned at once; the loop's other tasks still get turns.

        Raises:
            Timeout: no sample arrived in time.
            TypeMismatch: a publisher was refused, see `Subscriber.receive`.
            Closed: the subscriber is closed, possibly during the call by another task or thread;
                or, with `end_of_stream`, the stream has ended.
            HoldLimit: `max_held` samples are held, and more are waiting.
            OutOfMemory: as `Subscriber.receive`.
        """
        return self._receiver.receive(timeout)

    def receive_many(
        self, max_count: int, timeout: float | None = None
    ) -> Coroutine[Any, Any, list[Sample[T]]]:
        """Several samples: waits for the first like `receive`, then takes those that wait already.

        See `Subscriber.receive_many`. It never spins.

        Raises:
            InvalidArgument: `max_count` is less than 1.
            Timeout, TypeMismatch, Closed, HoldLimit, OutOfMemory: like `receive`, and only if no
                sample was taken.
        """
        return self._receiver.receive_many(max_count, timeout)

    def try_receive(self) -> Sample[T] | None:
        """The next sample if one waits. Raises `Closed` and `HoldLimit` like `receive`."""
        return self._receiver.try_receive()

    def __aiter__(self) -> AsyncIterator[Sample[T]]:
        """The next samples. Iteration ends after the subscriber's timeout, or when it is closed.

        With `end_of_stream`, iteration ends with the stream, and a timeout raises `Timeout`.
        """
        return self._receiver

    async def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Waits until at least `count` publishers are connected; False after `timeout` seconds.

        Raises:
            Closed: the subscriber is closed.
        """
        return await self._receiver.wait_for_publishers(count, timeout)

    def fileno(self) -> int:
        """See `Subscriber.fileno`; not needed with asyncio."""
        return self._subscriber.fileno()

    @property
    def stats(self) -> SubscriberStats:
        """See `Subscriber.stats`."""
        return self._subscriber.stats

    @property
    def deadlines_missed(self) -> int:
        """See `Subscriber.deadlines_missed`."""
        return self._subscriber.deadlines_missed

    def close(self) -> None:
        """Closes the subscriber and ends its waiting calls; received tensors stay valid.

        Any thread may call it. A second call does nothing.
        """
        self._closed = True
        self._subscriber.close()

    async def __aenter__(self) -> AsyncSubscriber[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"publishers={self.stats.publishers}"
        return f"<tensorbus.AsyncSubscriber {self.topic!r} {state}>"

    def _repr_html_(self) -> str:
        return self._subscriber._repr_html_()
