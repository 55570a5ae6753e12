"""Receiving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import (
    MOST_DEPTH,
    MOST_HELD,
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
from tensorbus._topics.sample import Sample, sample_of

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass
    from tensorbus._base.stats import SubscriberStats


@public
class Subscriber(Closing, Generic[T]):
    """Receives the samples of every publisher of a topic, whichever process starts first.

    Args:
        topic: any non-empty name.
        message_type: the class, which inherits from `Message`, that `sample.data` is to be of; by
            default it is what was published, and of a typed publisher a dict of the fields.
        depth: how many samples wait here; 0 for as many as the publisher says.
        timeout: seconds that `receive` and iteration wait; `None` for as long as it takes.
        max_held: how many samples of one publisher may be held at once.
        reliable: `False` for a viewer or a monitor, which never slows a publisher down: a publisher
            with `reliable=True` does not wait for it, and drops its oldest waiting sample when it
            has no room. `True` changes nothing for other publishers, which always drop.
        end_of_stream: `True` to hear that the publishers have finished: when each publisher that
            was connected has closed, and nothing is left of what they sent, iteration ends and
            `receive` raises `Closed`. Then iteration that waits longer than `timeout` raises
            `Timeout`. A publisher that was killed has not finished: the stream goes on until
            another one has taken its place.
        spin: seconds that `receive` looks by itself before it parks; costs a core for that time. If
            the last samples came soon, it looks for up to 80 us. 0: it parks at once.
        access: "copy-on-write": torch tensors can be written to, and the write is this process's
            own: the pages of a tensor become so at the first write to it. NumPy arrays are flagged
            read-only. With `pin` it is as "read".
            "read": as before, but a write through a torch tensor ends the process, with a message
            that names the topic.
            "private": NumPy arrays are writable, too, and writes are of this sample alone; each
            page that is written becomes a copy. Of a tensor on a GPU it is a copy there, made in
            the order of its streams.
            "shared": writes are seen by all who hold the sample; only of a publisher with
            `shared=True`, others refuse.
        pin: received blocks of main memory, from 64 KiB on, are pinned for GPUs, so that
            `tensor.to("cuda", non_blocking=True)` copies without a detour. Keep the sample until
            the copy has run. Not with access "private".
        device: "cuda:0" and so on: tensors that were on a GPU which this process cannot use, and
            came in main memory, are put onto this one (see `tensorbus.Publisher.loan`). All others
            stay where they are: it restores, and does not move. "cpu": all tensors of GPUs arrive
            in main memory, copied by their publisher. Not with access "shared".
        node: the node's name that `inspect` shows; `Node.create_subscriber` says its own.
        library: "torch", "numpy", "jax" or "dlpack" (an object that offers `__dlpack__` and the
            buffer protocol); by default a tensor arrives as what it was sent from.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: a topic that is no name, or an option out of range.
        TypeError: a timeout that is no number.
        MessageError: a message type that is no dataclass.
        AccessDenied: a domain directory that others own or may write to.
        Unsupported: `pin` or `device`, and no GPU here that can do that.

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
        self._told_elsewhere = False
        self._home = participant(domain)
        self._core = _core.Subscriber(
            topic,
            self._home,
            depth=whole_number("depth", depth, least=0, most=MOST_DEPTH),
            max_held=whole_number("max_held", max_held, least=1, most=MOST_HELD),
            reliable=reliable,
            end_of_stream=end_of_stream,
            spin=spin,
            access=access_named(access),
            type="" if self._type is None else self._type.definition,
            pin=pin,
            device=STAYS if device is None else ordinal_of(device),
            node=node,
        )

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    def receive(self, timeout: float | None = None) -> Sample[T]:
        """The next sample; waits up to `timeout` seconds (default: the subscriber's own).

        Raises:
            Timeout: there was none in time.
            TypeMismatch: a publisher's messages could not be read as ours, so it is not connected;
                once for each, the last 16 if nobody received for long. Others go on.
            Closed: the subscriber is closed, or, with `end_of_stream`, the stream has ended.
            HoldLimit: `max_held` samples are held and there are more.
            OutOfMemory: there is no room for what is to be its own, with `device` or access
                "private"; the sample is there again with the next call.
        """
        try:
            result = self._core.receive(self._timeout if timeout is None else timeout)
        except TypeError:
            seconds("timeout", timeout)  # if that was it, its error says what is expected
            raise
        if isinstance(result, _core.Sample):
            return sample_of(result, self._library, self._type)
        self._raise_for(result)
        raise Timeout(f"no sample on {self._topic!r} in time{self._hint()}")

    def try_receive(self) -> Sample[T] | None:
        """The next sample if there is one now. Raises `Closed` and `HoldLimit` like `receive`."""
        result = self._core.try_receive()
        if isinstance(result, _core.Sample):
            return sample_of(result, self._library, self._type)
        self._raise_for(result)
        return None

    def receive_many(self, max_count: int, timeout: float | None = None) -> list[Sample[T]]:
        """Several samples at once: waits like `receive` for the first, takes what else is there.

        They come in the order in which `receive` would return them. For many small messages: it
        takes its locks, and tells the publishers, once for all.

        Args:
            max_count: how many at most; more than 1024 never come at once.
            timeout: seconds to wait for the first; the default is the subscriber's own.

        Returns:
            One sample at least.

        Raises:
            InvalidArgument: `max_count` is less than 1.
            Timeout, TypeMismatch, Closed, HoldLimit, OutOfMemory: as `receive`, and only if there
                is no sample: what ends it after the first, the next call raises.

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
        found = self._take_many(max_count, self._timeout if timeout is None else timeout)
        if not found:
            raise Timeout(f"no sample on {self._topic!r} in time{self._hint()}")
        return found

    def try_receive_many(self, max_count: int) -> list[Sample[T]]:
        """At most so many of the samples that are there now, perhaps none.

        Raises `Closed` and `HoldLimit` like `receive_many`.
        """
        return self._take_many(max_count, 0)

    def _take_many(self, max_count: int, timeout: float | None) -> list[Sample[T]]:
        found = self._core.receive_many(whole_number("max_count", max_count, least=1), timeout)
        if isinstance(found, list):
            library, plan = self._library, self._type
            return [sample_of(core, library, plan) for core in found]
        self._raise_for(found)
        return []

    def receive_into(self, array: Any, timeout: float | None = None) -> int:
        """Messages of one tensor each, into the rows of an array: for many small ones.

        Waits like `receive` for the first, and takes what else is there, at most as many as there
        are rows. Each is copied into the next row, in the order in which `receive` would return
        them; nothing is held, and no sample is made. See `Publisher.publish_many`.

        Args:
            array: a NumPy array or a torch tensor in main memory, contiguous and writable. Its rows
                along the first dimension have the dtype and the shape of the messages, whichever
                library they are from.
            timeout: seconds to wait for the first; the default is the subscriber's own.

        Returns:
            How many rows are new: one at least.

        Raises:
            InvalidArgument: an array that is none of these; or the next message is no tensor of the
                dtype and shape of a row: then `receive` returns it.
            Timeout, TypeMismatch, Closed, HoldLimit, OutOfMemory: as `receive`, and only if there
                is no row: what ends it after the first, the next call raises.
        """
        limit = self._timeout if timeout is None else timeout
        found = self._core.receive_into(writable(array), limit)
        if isinstance(found, int):
            return found
        self._raise_for(found)
        raise Timeout(f"no sample on {self._topic!r} in time{self._hint()}")

    def __iter__(self) -> Iterator[Sample[T]]:
        """Samples until none comes for the subscriber's timeout, or it is closed.

        With `end_of_stream` it ends with the stream; with the timeout it raises `Timeout`.

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
        """The same with `async for`. For more than a loop, see `AsyncSubscriber`."""
        # Not above: asyncio takes longer to import than all of Tensorbus.
        from tensorbus._topics.async_receiver import AsyncReceiver

        return AsyncReceiver(self, self._timeout, end_of_stream=self._end_of_stream)

    def ready(self) -> bool:
        """Would `receive` return or raise at once? Takes nothing.

        For several subscribers at once see `tensorbus.wait_any`.
        """
        return bool(self._core.ready())

    def fileno(self) -> int:
        """A descriptor for `select` and event loops: readable when `try_receive` may find a sample.

        Call `try_receive` until it finds nothing, or `ready` until it says no; that re-arms it.
        """
        return int(self._core.fileno())

    def wait_for_publishers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Waits until at least `count` publishers are connected; False after `timeout` seconds."""
        limit = seconds("timeout", timeout)
        outcome = self._core.wait_for_publishers(whole_number("count", count, least=0), limit)
        self._raise_for(outcome)
        return outcome is Outcome.DONE

    @property
    def stats(self) -> SubscriberStats:
        """What it has received and missed since it was made, and what it holds."""
        from tensorbus._base.stats import SubscriberStats

        return SubscriberStats(**self._core.stats)

    def close(self) -> None:
        """Ends it; tensors that were received stay valid. A second call does nothing."""
        self._closed = True
        self._core.close()

    def _raise_for(self, outcome: Any) -> None:
        if outcome is Outcome.CLOSED:
            if self._closed:
                raise Closed(f"the subscriber of {self._topic!r} is closed")
            raise Closed(f"every publisher of {self._topic!r} that was connected has closed")
        if outcome is Outcome.HOLD_LIMIT:
            raise HoldLimit(
                f"{self._max_held} samples of one publisher of {self._topic!r} are held and there "
                "are more: let some go, keep copies, or raise max_held"
            )

    def _hint(self) -> str:
        stats = self._core.stats
        if refusal := stats["last_refusal"]:
            return f" (a publisher refused: {refusal})"
        if stats["publishers"] or self._told_elsewhere:
            return ""
        self._told_elsewhere = True  # to look costs some system calls: once will do
        return _core.elsewhere_text(self._home.domain)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"publishers={self.stats.publishers}"
        return f"<tensorbus.Subscriber {self._topic!r} {state}>"

    def _repr_html_(self) -> str:
        """For notebooks: name, state and fill."""
        from tensorbus._base.html import end_of_topic

        shown = ("publishers", "received", "missed", "held")
        title = f"Subscriber {self._topic}"
        return end_of_topic(title, None if self._closed else self.stats, shown)
