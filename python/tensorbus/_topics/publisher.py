"""Publishing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import MAX_DEPTH, seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.device import stream_of
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._base.generics import T
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._codec.fields import flatten
from tensorbus._codec.received import SampleInside
from tensorbus._codec.typed import plan_or_none
from tensorbus._codec.unwrapping import without_samples
from tensorbus._core import Outcome
from tensorbus._tensors.allocation import tensor_in
from tensorbus._tensors.conversion import learn_class_of
from tensorbus._topics.parents import Parents
from tensorbus._topics.sample import Sample

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass
    from tensorbus._base.stats import PublisherStats
    from tensorbus._topics.sample import Header


_DEFAULT_DEPTH = 8


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as name:  # 15 arbitrary bytes at most
            return f" ({name.read().strip()})"
    except OSError:  # the process has just ended, or there is no /proc
        return ""


@public
class Publisher(Closing, Generic[T]):
    """Sends tensors to every subscriber of a topic, in any process of the domain.

    Args:
        topic: any non-empty name.
        message_type: the class of all messages, which inherits from `Message`; `None` for any data.
        depth: the maximum of samples in the queue of a subscriber that sets no depth of its own; by
            default 8, or `history` if that is more. When the queue is full, a new sample replaces
            the oldest sample.
        history: how many of the last samples a new subscriber gets, at most `depth`.
        reliable: drop no samples; `publish` waits while a subscriber's queue is full, unless that
            subscriber has `reliable=False`.
        lag_timeout: seconds that a subscriber's queue may stay full, while `publish` waits or after
            it has timed out. Then the subscriber is cut off: its queue is dropped, and `publish`
            continues. The subscriber reconnects at its next receive, and counts the lost samples as
            `missed`. `None`: no subscriber is cut off. Only with `reliable=True`.
        shared: subscribers with `access="shared"` may write to the published tensors, and to the
            loans of this process's other shared publishers.
        isolated: the publisher has memory segments of its own for published data, so that
            subscribers can read (with `access="shared"`, write) no other memory of this process.
            Data in other memory is copied: loans of other publishers, `tb.empty`, received tensors.
            Mapped files and memory of a GPU are not copied: see docs/limits.md.
        timeout: seconds that a reliable `publish` waits; `None` for no limit.
        domain: see `tensorbus.participant`.
        node: the name of the node that `list_topics` shows; `Node.create_publisher` sets it.

    Raises:
        InvalidArgument: the topic's name is invalid, `depth` is below 1, `history` is above
            `depth`, or `lag_timeout` is 0 or less, or is given without `reliable`.
        TypeError: a timeout is not a number.
        MessageError: the message type is not a dataclass.
        Unsupported: the message type has a field that cannot be sent.
        AccessDenied: other users own the domain directory, or may write to it.

    >>> import numpy as np
    >>> with Publisher("doc/publisher") as publisher:
    ...     frame = publisher.loan((1080, 1920, 3), dtype="uint8")
    ...     frame[:] = 0
    ...     publisher.publish(frame)  # nothing is copied
    ...     publisher.publish({"image": np.zeros((2, 3)), "id": 7})
    0
    0
    """

    _in_a_child = "open the topic in the child"

    def __init__(
        self,
        topic: str,
        message_type: MessageClass[T] | None = None,
        *,
        depth: int | None = None,
        history: int = 0,
        reliable: bool = False,
        lag_timeout: float | None = None,
        shared: bool = False,
        isolated: bool = False,
        timeout: float | None = None,
        domain: str | None = None,
        node: str = "",
    ) -> None:
        self._topic = topic_name(topic)
        self._type = plan_or_none(message_type)
        self._timeout = seconds("timeout", timeout)
        self._closed = False
        history = whole_number("history", history, low=0, high=MAX_DEPTH)
        if depth is None:
            depth = max(_DEFAULT_DEPTH, history)
        depth = whole_number("depth", depth, low=1, high=MAX_DEPTH)
        if history > depth:
            raise InvalidArgument(
                f"history={history}: a new subscriber gets at most depth={depth} samples, unless "
                f"it chooses a depth itself; give depth={history} or more"
            )
        self._core = _core.Publisher(
            topic,
            participant(domain),
            depth=depth,
            history=history,
            reliable=reliable,
            lag_timeout=seconds("lag_timeout", lag_timeout),
            shared=shared,
            isolated=isolated,
            type="" if self._type is None else self._type.definition,
            node=node,
        )

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    def loan(
        self,
        shape: Any = None,
        dtype: Any = None,
        *,
        like: Any = None,
        device: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """A tensor in shared memory, to fill and publish without a copy. Its bytes are not cleared.

        Use a loan to compute a result in place, or to read data from a device into it. Pass a
        tensor that exists already to `publish`, which copies it faster than `copy_` into a loan.

        Args:
            shape: the sizes of the tensor, or one size.
            dtype: a torch dtype for a torch tensor; a NumPy dtype or its name for an array.
            like: a tensor that gives the shape, dtype, library and device that are not passed.
            device: "cuda" or "cuda:1", for memory of that GPU (docs/cuda.md); else main memory.
            timeout: seconds to wait for main memory while readers hold the whole budget of this
                process (`budget_bytes`). `None`: the call does not wait.

        Returns:
            A contiguous torch tensor or NumPy array; on a GPU, with a dtype that is not PyTorch's,
            a `Memory`, which offers DLPack and `__cuda_array_interface__`. Once it is published,
            its memory belongs to its readers: take a new loan instead of writing to it again.

        Raises:
            InvalidArgument: the shape, the dtype or the device is missing or invalid.
            Unsupported: no library has the dtype, its elements are Python objects, or that GPU has
                no shared memory; the message gives the reason.
            OutOfMemory: a limit was reached; the message names it.
            Closed: the publisher is closed.

        >>> with Publisher("doc/loan") as publisher:
        ...     image = publisher.loan((1080, 1920, 3), "uint8")
        ...     image.shape, image.dtype.name
        ((1080, 1920, 3), 'uint8')
        """
        if timeout is not None:
            limit = seconds("timeout", timeout)
            return tensor_in(partial(self._core.loan, timeout=limit), shape, dtype, like, device)
        if like is None and device is None:
            tensor = self._core.loan_plain(dtype, shape)
            if tensor is not None:
                return tensor
        return tensor_in(self._core.loan, shape, dtype, like, device)

    def publish(
        self,
        data: T,
        *,
        timeout: float | None = None,
        stream: Any = None,
        parents: Iterable[Sample[Any] | Header] | None = None,
    ) -> int:
        """Publishes a tensor, or a message of tensors and small values.

        A message is a dict, list, tuple or set, nested to any depth, of tensors (PyTorch, NumPy,
        and objects with `__dlpack__`, `__array_interface__` or the buffer protocol), None, bool,
        int, float, complex, str, bytes and NumPy scalars. docs/tensors.md lists what each type
        keeps.

        Loans are sent by reference; other tensors are copied once, without the GIL. Tensors on a
        GPU are not copied: do not write to them until their readers have finished.

        Args:
            data: the tensor or message.
            timeout: seconds that a reliable publisher waits for room in the queues of subscribers,
                and for memory for copies; by default the publisher's own. If both are `None`, it
                waits for subscribers without a limit, and does not wait for memory.
            stream: the stream that writes the tensors on a GPU. Readers wait for the work that is
                enqueued on it now. By default PyTorch's current stream for tensors of PyTorch, and
                the legacy default stream for others.
            parents: the samples, or their headers, from which `data` was computed, for
                `tensorbus trace` (docs/tracing.md). In a callback of a node the default is the
                sample being handled. Parents are not sent.

        Returns:
            The number of subscribers that have the sample in their queues.

        Raises:
            Unsupported: the data contains a value that cannot be sent; nothing was sent.
            MessageError: the message, or one of its fields, does not have its declared type;
                nothing was sent.
            InvalidArgument: a loan in the data was published before.
            OutOfMemory: a limit was reached; nothing was sent.
            Timeout: a reliable publisher found no room in time; no subscriber got the sample.
            Closed: the publisher is closed.
        """
        if parents is not None:
            with Parents(parents):
                return self.publish(data, timeout=timeout, stream=stream)
        if timeout is None:
            timeout = self._timeout
        if type(data) is Sample:  # faster than SampleInside, which all other samples raise
            data = data.data  # type: ignore[attr-defined]
        handle = None if stream is None else stream_of(stream)
        plan = None if self._type is None else self._type.core
        try:
            return self._delivered(self._core.publish_any(data, timeout, handle, plan))
        except SampleInside:
            return self._delivered(self._publish_unwrapped(data, timeout, handle))
        except TypeError:
            seconds("timeout", timeout)  # raises a clearer error if the timeout is at fault
            raise

    def _publish_unwrapped(
        self, data: Any, timeout: float | None, stream: int | None
    ) -> int | Outcome:
        """Publishes a message that has samples in it."""
        checked = data if self._type is None else self._type.checked(data)
        outgoing, fields = flatten(without_samples(checked))
        if stream is not None:
            outgoing.set_stream(stream)
        return self._core.publish(outgoing, fields, timeout)

    def publish_many(self, messages: Iterable[T], *, timeout: float | None = None) -> int:
        """Publishes each row of an array, or each item of an iterable, as one message.

        The publisher's depth, reliability and history apply to each message. The rows of a NumPy
        array or torch tensor in main memory are published in batches, at many times the rate of
        `publish`; each row is copied once. `Subscriber.receive_into` receives them as fast.

        Args:
            messages: an array or tensor, whose rows along the first dimension are sent; or any
                iterable of messages.
            timeout: seconds that a reliable publisher waits for room, over all messages; by default
                the publisher's own.

        Returns:
            The number of published messages. It is less than the number of messages if a timeout or
            an error stopped the call; then the first messages were published.

        Raises:
            Unsupported, MessageError, InvalidArgument, OutOfMemory, Closed: `publish` raises it for
                the first message. Errors of later messages are not raised.

        >>> import numpy as np
        >>> from tensorbus import Subscriber
        >>> poses = np.arange(6.0).reshape(3, 2)
        >>> with Publisher("doc/rows", history=3) as publisher:
        ...     sent = publisher.publish_many(poses)
        ...     with Subscriber("doc/rows", timeout=10) as subscriber:
        ...         rows = np.empty((64, 2))
        ...         count = subscriber.receive_into(rows)
        >>> sent, count, rows[:count].tolist()
        (3, 3, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        """
        limit = self._timeout if timeout is None else seconds("timeout", timeout)
        deadline = None if limit is None else time.monotonic() + limit
        learn_class_of(messages)
        result = self._core.publish_many(messages, limit) if self._type is None else None
        if result is None:
            return self._publish_each(messages, deadline)
        outcome, count = result
        if outcome is Outcome.CLOSED and not count:
            raise Closed(f"the publisher of {self._topic!r} is closed")
        return int(count)

    def _publish_each(self, messages: Iterable[T], deadline: float | None) -> int:
        count = 0
        for message in messages:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            try:
                self.publish(message, timeout=left)
            except Timeout:
                break
            except Exception:
                if not count:
                    raise
                break
            count += 1
        return count

    def _delivered(self, result: int | Outcome) -> int:
        """The number of subscribers, or the error of an outcome."""
        if isinstance(result, int):
            return result
        if result is Outcome.CLOSED:
            raise Closed(f"the publisher of {self._topic!r} is closed")
        raise self._late()

    def _late(self) -> Timeout:
        return Timeout(
            f"a subscriber of {self._topic!r} had no room in time, and the sample was not sent"
            f"{self._blocked()}"
        )

    def _blocked(self) -> str:
        stats = self._core.stats
        if not (pid := stats["blocked_by"]):
            return ""  # the subscriber has room again
        return f": process {pid}{_name_of(pid)} has had none for {stats['blocked_ns'] / 1e9:.1f} s"

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Waits until at least `count` subscribers are connected; False after `timeout` seconds.

        Raises:
            Closed: the publisher is closed.
        """
        limit = seconds("timeout", timeout)
        outcome = self._core.wait_for_subscribers(whole_number("count", count, low=0), limit)
        if outcome is Outcome.CLOSED:
            raise Closed(f"the publisher of {self._topic!r} is closed")
        return outcome is Outcome.DONE

    def ready(self) -> bool:
        """Whether `publish` would find room without a wait; always True if not `reliable`."""
        return bool(self._core.ready())

    def fileno(self) -> int:
        """A descriptor for `select` and event loops: readable when `ready` may return True.

        A call of `ready` that returns False re-arms it. Call `ready` at least every 100 ms, too: a
        subscriber may be stopped before it sends a notification.
        """
        return int(self._core.fileno())

    @property
    def stats(self) -> PublisherStats:
        """Counters of sent and dropped samples, and the subscriber that blocks `publish` now."""
        from tensorbus._base.stats import PublisherStats

        return PublisherStats(**self._core.stats)

    def close(self) -> None:
        """Closes the publisher; queued samples are still delivered. A second call does nothing.

        The end of a `with` block closes it, too. For subscribers with `end_of_stream=True`, closing
        completes the stream; the death of a process does not.
        """
        self._closed = True
        self._core.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"subscribers={self.stats.subscribers}"
        return f"<tensorbus.Publisher {self._topic!r} {state}>"

    def _repr_html_(self) -> str:
        """For notebooks: name, state and counters."""
        from tensorbus._base.html import end_of_topic

        shown = ("subscribers", "sent", "bytes_in_flight")
        title = f"Publisher {self._topic}"
        return end_of_topic(title, None if self._closed else self.stats, shown)
