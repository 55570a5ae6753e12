"""Receiving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import (
    MAX_DEPTH,
    MAX_HELD,
    Access,
    access_named,
    seconds,
    topic_name,
    whole_number,
)
from tensorbus._base.closing import Closing
from tensorbus._base.device import STAYS, ordinal_of
from tensorbus._base.errors import Closed, HoldLimit, Timeout
from tensorbus._base.generics import T
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._core import Outcome
from tensorbus._tensors.conversion import writable
from tensorbus._tensors.library import Library, library_or_none
from tensorbus._topics.sample import Sample, Samples, sample_of

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass
    from tensorbus._base.stats import SubscriberStats
    from tensorbus._topics.async_receiver import AsyncReceiver
    from tensorbus._topics.liveliness import Liveliness, OnDeadlineMissed, OnPublisherLost, R


@public
class Subscriber(Closing, Generic[T]):
    """Receives the samples of every publisher of a topic, whichever process starts first.

    Args:
        topic: any non-empty name.
        message_type: the class of `sample.data`, which inherits from `Message`. `None`: the
            published data; for a typed publisher, a dict of the fields.
        depth: the maximum of samples in this subscriber's queue; 0 for the publisher's `depth`.
        timeout: seconds that `receive` and iteration wait; `None` for no limit.
        max_held: how many samples of one publisher may be held at once.
        reliable: `False` for a viewer or a monitor, which must not slow a publisher down: a
            publisher with `reliable=True` does not wait for this subscriber, and replaces the
            oldest waiting sample when the queue is full. Other publishers always do that.
        end_of_stream: `True` to detect that the publishers have finished. When each publisher that
            was connected has closed, and all its samples are taken, iteration ends and `receive`
            raises `Closed`. An iteration that waits longer than `timeout` then raises `Timeout`. A
            publisher that was killed has not finished: the stream continues until another publisher
            has taken its place.
        spin: seconds that `receive` polls before it sleeps; polling keeps one core busy. If recent
            samples arrived within a short time, it polls for up to 80 us. 0: it sleeps at once.
        access: "copy-on-write": tensors and arrays are writable, and writes stay in this process: a
            tensor's pages become private at the first write to it. With `pin`, it is the same as
            "read".
            "read": a write to an array raises `ValueError`; a write through a torch tensor ends the
            process, with a message that names the topic.
            "private": writes affect this sample alone, and system calls may write, too: the sample
            has a mapping of its own. A tensor on a GPU is copied on that GPU, in stream order.
            "shared": writes are visible to every holder of the sample. Publishers without
            `shared=True` refuse the connection.
        pin: received blocks of main memory of at least 64 KiB are pinned for GPUs, so that
            `tensor.to("cuda", non_blocking=True)` needs no staging copy. Keep the sample until
            the copy has run. Not with access "private".
        device: "cuda:0" and so on: tensors of a GPU that this process cannot use arrive in main
            memory, and are copied to this GPU (docs/cuda.md). Other tensors are not moved. "cpu":
            the publisher copies all tensors of GPUs to main memory. Not with access "shared".
        expect_every: seconds within which the next sample is expected after each sample; `None`: no
            deadline. `deadlines_missed` counts the deadlines that passed without a sample.
        expect_first: seconds, from the making of the subscriber, within which the first sample is
            expected, and again if none has arrived; `None`: `expect_every`, but at least 5 seconds;
            `math.inf`: no deadline for the first sample.
        on_deadline_missed: called with a `DeadlineMissed` when a deadline has passed, see below.
        on_publisher_lost: called with a `PublisherLost` when a connected publisher has closed, or
            its process has died, after its last sample was received. It is called by the thread
            that receives or iterates, while it waits or before it returns a sample, and so is
            `on_deadline_missed`. What it raises is raised by that call; no sample is lost.
        node: the name of the node that `inspect` shows; `Node.create_subscriber` sets it.
        library: "torch", "numpy", "jax" or "dlpack" (an object with `__dlpack__` and the buffer
            protocol); by default each tensor arrives in the library that it was sent from.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: the topic's name is invalid, or an option is out of range.
        TypeError: the timeout is not a number.
        MessageError: the message type is not a dataclass.
        AccessDenied: other users own the domain directory, or may write to it.
        Unsupported: no GPU of this machine supports `pin` or `device`; or the message type has a
            field that cannot be sent.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/subscriber") as publisher, Subscriber("doc/subscriber") as subscriber:
    ...     publisher.wait_for_subscribers(timeout=10)
    ...     publisher.publish({"id": 7})
    ...     subscriber.receive(timeout=10).data
    True
    1
    {'id': 7}
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
        spin: float = 5e-6,
        access: Access = "copy-on-write",
        pin: bool = False,
        device: Any = None,
        library: Library | None = None,
        expect_every: float | None = None,
        expect_first: float | None = None,
        on_deadline_missed: OnDeadlineMissed | None = None,
        on_publisher_lost: OnPublisherLost | None = None,
        node: str = "",
        domain: str | None = None,
    ) -> None:
        self._topic = topic_name(topic)
        self._type = plan_or_none(message_type)
        self._timeout = seconds("timeout", timeout)
        self._library = library_or_none(library)
        self._max_held = max_held
        self._end_of_stream = end_of_stream
        self._closed = False
        self._checked_other_buses = False
        self._home = participant(domain)
        self._core = _core.Subscriber(
            topic,
            self._home,
            depth=whole_number("depth", depth, low=0, high=MAX_DEPTH),
            max_held=whole_number("max_held", max_held, low=1, high=MAX_HELD),
            reliable=reliable,
            end_of_stream=end_of_stream,
            spin=spin,
            access=access_named(access),
            type="" if self._type is None else self._type.definition,
            pin=pin,
            device=STAYS if device is None else ordinal_of(device),
            node=node,
        )
        events = expect_every, expect_first, on_deadline_missed, on_publisher_lost
        self._liveliness: Liveliness | None = None
        if any(each is not None for each in events):
            from tensorbus._topics.liveliness import Liveliness

            self._liveliness = Liveliness(self._core, topic, *events)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    def receive(self, timeout: float | None = None) -> Sample[T]:
        """The next sample; waits up to `timeout` seconds (default: the subscriber's own).

        Raises:
            Timeout: no sample arrived in time.
            TypeMismatch: a publisher was not connected, because its message type does not match
                this subscriber's. Raised once for each refused publisher; at most 16 refusals are
                kept between calls. Other publishers are not affected.
            Closed: the subscriber is closed, or, with `end_of_stream`, the stream has ended.
            HoldLimit: `max_held` samples are held, and more are waiting.
            OutOfMemory: there is not enough memory for the copy that `device` or access "private"
                needs; the next call returns the same sample.
        """
        try:
            limit = self._timeout if timeout is None else timeout
            alive = self._liveliness
            take = self._core.receive
            result = take(limit) if alive is None else alive.receive(take, limit)
        except TypeError:
            seconds("timeout", timeout)  # raises a clearer error if the timeout is at fault
            raise
        if isinstance(result, _core.Sample):
            return sample_of(result, self._library, self._type)
        self._raise_for(result)
        raise Timeout(f"no sample on {self._topic!r} in time{self._hint()}")

    def try_receive(self) -> Sample[T] | None:
        """The next sample if one waits. Raises `Closed` and `HoldLimit` like `receive`."""
        alive, take = self._liveliness, self._core.try_receive
        result = take() if alive is None else alive.receive(lambda _: take(), 0)
        if isinstance(result, _core.Sample):
            return sample_of(result, self._library, self._type)
        self._raise_for(result)
        return None

    def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]:
        """Several samples: waits for the first like `receive`, then takes those that wait already.

        The samples have the order of `receive`. This is faster for many small messages: one call
        takes the locks, and notifies the publishers, once for all samples.

        Args:
            max_count: the maximum of samples; one call never returns more than 1024.
            timeout: seconds to wait for the first; by default the subscriber's own.

        Returns:
            At least one sample.

        Raises:
            InvalidArgument: `max_count` is less than 1.
            Timeout, TypeMismatch, Closed, HoldLimit, OutOfMemory: like `receive`, and only if no
                sample was taken. After the first sample, the next call raises the error instead.

        >>> from tensorbus import Publisher
        >>> with Publisher("doc/many", history=3) as publisher:
        ...     for number in range(3):
        ...         _ = publisher.publish(number)
        ...     with Subscriber("doc/many", timeout=10) as subscriber:
        ...         subscriber.wait_for_publishers()
        ...         [sample.data for sample in subscriber.receive_many(64)]
        True
        [0, 1, 2]
        """
        samples = self._take_many(max_count, self._timeout if timeout is None else timeout)
        if not samples:
            raise Timeout(f"no sample on {self._topic!r} in time{self._hint()}")
        return samples

    def try_receive_many(self, max_count: int) -> list[Sample[T]]:
        """The samples that wait now, at most `max_count`; an empty list if there are none.

        Raises `Closed` and `HoldLimit` like `receive_many`.
        """
        return self._take_many(max_count, 0)

    def _take_many(self, max_count: int, timeout: float | None) -> list[Sample[T]]:
        count = whole_number("max_count", max_count, low=1)
        result = self._take(lambda left: self._core.receive_many(count, left), timeout)
        if isinstance(result, list):
            library, plan = self._library, self._type
            return Samples([sample_of(core, library, plan) for core in result])
        self._raise_for(result)
        return Samples()

    def receive_into(self, array: Any, timeout: float | None = None) -> int:
        """Copies messages of one tensor each into the rows of an array: for many small messages.

        Waits for the first message like `receive`, then takes those that wait already, at most one
        for each row. Rows are filled in the order of `receive`; no sample is made, and none is
        held. `Publisher.publish_many` has an example.

        Args:
            array: a NumPy array or a torch tensor in main memory, contiguous and writable. Its rows
                along the first dimension have the dtype and the shape of the messages, which may
                come from another library.
            timeout: seconds to wait for the first; by default the subscriber's own.

        Returns:
            The number of rows that were filled, at least one.

        Raises:
            InvalidArgument: the array is unsuitable, or the next message is not a tensor with the
                dtype and shape of a row; `receive` then returns that message.
            Timeout, TypeMismatch, Closed, HoldLimit, OutOfMemory: like `receive`, and only if no
                row was filled. After the first row, the next call raises the error instead.
        """
        limit = self._timeout if timeout is None else timeout
        rows = writable(array)
        result = self._take(lambda left: self._core.receive_into(rows, left), limit)
        if isinstance(result, int):
            return result
        self._raise_for(result)
        raise Timeout(f"no sample on {self._topic!r} in time{self._hint()}")

    def _take(self, take: Callable[[float | None], R], timeout: float | None) -> R | Outcome:
        """Calls the core; with callbacks, repeatedly until there is a sample."""
        alive = self._liveliness
        return take(timeout) if alive is None else alive.receive(take, timeout)

    def __iter__(self) -> Iterator[Sample[T]]:
        """The next samples. Iteration ends after the subscriber's timeout, or when it is closed.

        With `end_of_stream`, iteration ends with the stream, and a timeout raises `Timeout`.

        >>> from tensorbus import Publisher
        >>> with Subscriber("doc/stream", timeout=10, end_of_stream=True) as subscriber:
        ...     with Publisher("doc/stream") as publisher:
        ...         publisher.wait_for_subscribers(timeout=10)
        ...         publisher.publish("the last")
        ...     [sample.data for sample in subscriber]
        True
        1
        ['the last']
        """
        while True:
            try:
                yield self.receive()
            except Closed:
                return
            except Timeout:
                if self._end_of_stream:
                    raise
                return

    def __aiter__(self) -> AsyncIterator[Sample[T]]:
        """Iterates with `async for`. `AsyncSubscriber` has the other calls for asyncio."""
        return self._async_receiver(self._timeout, end_of_stream=self._end_of_stream)

    def _async_receiver(
        self, timeout: float | None, spin: float = 0, *, end_of_stream: bool = False
    ) -> AsyncReceiver[T]:
        # Imported here: asyncio takes longer to import than all of Tensorbus.
        from tensorbus._topics.async_receiver import AsyncReceiver, ExpectingReceiver

        if self._liveliness is None:
            return AsyncReceiver(self, timeout, spin, end_of_stream=end_of_stream)
        left = self._liveliness.seconds_left
        return ExpectingReceiver(self, timeout, spin, left, end_of_stream=end_of_stream)

    @property
    def deadlines_missed(self) -> int:
        """How many deadlines were missed, as far as calls have waited for samples."""
        return 0 if self._liveliness is None else self._liveliness.missed

    def ready(self) -> bool:
        """Whether `receive` would return or raise at once. Takes no sample.

        See `tensorbus.wait_any` for several subscribers.
        """
        return bool(self._core.ready())

    def fileno(self) -> int:
        """A descriptor for `select` and event loops: readable when `try_receive` may find a sample.

        It is re-armed when `try_receive` returns None, or `ready` returns False.
        """
        return int(self._core.fileno())

    def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Waits until at least `count` publishers are connected; False after `timeout` seconds.

        Raises:
            Closed: the subscriber is closed.
        """
        limit = seconds("timeout", timeout)
        outcome = self._core.wait_for_publishers(whole_number("count", count, low=0), limit)
        self._raise_for(outcome)
        return outcome is Outcome.DONE

    @property
    def stats(self) -> SubscriberStats:
        """Counters of samples received, missed and held, since the subscriber was made."""
        from tensorbus._base.stats import SubscriberStats

        return SubscriberStats(**self._core.stats)

    def close(self) -> None:
        """Closes the subscriber; received tensors stay valid. A second call does nothing."""
        self._closed = True
        self._core.close()

    def _raise_for(self, outcome: Any) -> None:
        if outcome is Outcome.CLOSED:
            if self._closed:
                raise Closed(f"the subscriber of {self._topic!r} is closed")
            raise Closed(f"every publisher of {self._topic!r} that was connected has closed")
        if outcome is Outcome.HOLD_LIMIT:
            raise HoldLimit(
                f"{self._max_held} samples of one publisher of {self._topic!r} are held, the "
                "limit: release some, keep copies, or raise max_held"
            )

    def _hint(self) -> str:
        stats = self._core.stats
        if refusal := stats["last_refusal"]:
            return f" (a publisher refused: {refusal})"
        if stats["publishers"] or self._checked_other_buses:
            return ""
        self._checked_other_buses = True  # the check takes several system calls
        return _core.elsewhere_text(self._home.domain)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"publishers={self.stats.publishers}"
        return f"<tensorbus.Subscriber {self._topic!r} {state}>"

    def _repr_html_(self) -> str:
        """For notebooks: name, state and counters."""
        from tensorbus._base.html import end_of_topic

        shown = ("publishers", "received", "missed", "held")
        title = f"Subscriber {self._topic}"
        return end_of_topic(title, None if self._closed else self.stats, shown)
