"""Publishing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from tensorbus import _core
from tensorbus._base.arguments import MOST_DEPTH, seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.device import stream_of
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._base.generics import T
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._core import Outcome
from tensorbus._tensors.allocation import tensor_in
from tensorbus._tensors.conversion import learn_class_of
from tensorbus._topics.parents import Parents

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass
    from tensorbus._base.stats import PublisherStats
    from tensorbus._topics.sample import Header, Sample


_DEPTH = 8  # by default


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as name:  # 15 bytes, of any name
            return f" ({name.read().strip()})"
    except OSError:  # it has just ended, or /proc is not there
        return ""


@public
class Publisher(Closing, Generic[T]):
    """Sends tensors to every subscriber of a topic, in any process of the domain.

    Args:
        topic: any non-empty name.
        message_type: the class of all that is published, which inherits from `Message`.
        depth: how many samples wait for a subscriber that did not choose itself; 8, or `history` if
            that is more. When they are there, the oldest is dropped for a new one.
        history: how many of the last samples a subscriber gets that comes later, at most `depth`.
        reliable: drop nothing; a full subscriber makes `publish` wait, unless it subscribed with
            `reliable=False`.
        lag_timeout: seconds after which a subscriber that has had no room, while `publish` waited
            or gave up, is cut off: what waits in its queue is dropped, and `publish` goes on. It is
            connected again when it looks for samples, and counts what it has lost as `missed`.
            `None` cuts nobody off. Only with `reliable=True`.
        shared: subscribers with `access="shared"` may write to what is published here, and to the
            loans of this process's other shared publishers.
        isolated: what is published here lies in segments of its own, so that subscribers can read
            (with `access="shared"`, write) nothing else of this process. What lies elsewhere is
            copied: loans of other publishers, `tb.empty`, received tensors. Mapped files and
            memory of a GPU are not: see docs/limits.md.
        timeout: seconds that `publish` waits, if reliable; `None` for as long as it takes.
        domain: see `tensorbus.participant`.
        node: the node's name that `list_topics` shows; `Node.create_publisher` says its own.

    Raises:
        InvalidArgument: a topic that is no name, a depth below 1, a history above `depth`, or a
            `lag_timeout` that is not above 0, or without `reliable`.
        TypeError: a timeout that is no number.
        MessageError: a message type that is no dataclass.
        Unsupported: a message type with a field that cannot travel.
        AccessDenied: a domain directory that others own or may write to.

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
        history = whole_number("history", history, least=0, most=MOST_DEPTH)
        if depth is None:
            depth = max(_DEPTH, history)
        depth = whole_number("depth", depth, least=1, most=MOST_DEPTH)
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

        It is for what computes its result there, or reads it from a device. A tensor that is there
        already is published as it is: `publish` copies it sooner than `copy_` does into a loan.

        Args:
            shape: its sizes, or one size.
            dtype: a torch dtype for a torch tensor; a NumPy dtype or its name for an array.
            like: a tensor to take shape, dtype, library and device from.
            device: "cuda" or "cuda:1", for memory of that GPU (docs/cuda.md); else main memory.
            timeout: seconds to wait for main memory while readers hold all that this process may
                use (`budget_bytes`); `None` raises `OutOfMemory` at once.

        Returns:
            A contiguous torch tensor or NumPy array; on a GPU, with a dtype that is not PyTorch's,
            a `Memory`, which offers DLPack and `__cuda_array_interface__`. After it was published
            its memory belongs to its readers: do not write to it any more, take a new loan.

        Raises:
            Unsupported: a dtype that no library has, elements that are Python objects, or memory of
                a GPU where that cannot be had; the message says why.
            OutOfMemory: a limit was reached; the message names it.
            Closed: the publisher is closed.
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

        A message is a dict, list, tuple or set, nested as you like, of tensors (PyTorch, NumPy,
        and what offers `__dlpack__`, `__array_interface__` or the buffer protocol), None, bool,
        int, float, complex, str, bytes and NumPy scalars. All arrive as they were: see
        docs/tensors.md for what that means for each.

        Loans travel by reference; other tensors are copied once, without the GIL. Those on a GPU
        stay where they are, and must not be written before their readers are through.

        Args:
            data: what to send.
            timeout: seconds to wait for room, if the publisher is reliable: in the queues of
                subscribers, and in memory for what is copied; the default is the publisher's own.
                With `None` it waits for subscribers as long as it takes, and for memory not at all.
            stream: on which what lies on a GPU is written: readers wait for what is enqueued there
                now. PyTorch's current one for its tensors, the legacy default stream for others.
            parents: the samples, or their headers, from which `data` was made, for
                `tensorbus trace` (docs/tracing.md). In a callback of a node it is the sample that
                is being handled, unless others are named. They are not sent.

        Returns:
            How many subscribers have it in their queues.

        Raises:
            Unsupported: something in it cannot travel; nothing was sent.
            MessageError: it is not of the publisher's message type, or one of its fields not of the
                type that was declared; nothing was sent.
            InvalidArgument: a loan that was published before.
            OutOfMemory: a limit was reached; nothing was sent.
            Timeout: a reliable publisher found no room in time; nobody got it.
            Closed: the publisher is closed.
        """
        if parents is not None:
            with Parents(parents):
                return self.publish(data, timeout=timeout, stream=stream)
        if timeout is None:
            timeout = self._timeout
        handle = None if stream is None else stream_of(stream)
        plan = None if self._type is None else self._type.core
        try:
            return self._subscribers(self._core.publish_any(data, timeout, handle, plan))
        except TypeError:
            seconds("timeout", timeout)  # if that was it, its error says what is expected
            raise

    def publish_many(self, messages: Iterable[T], *, timeout: float | None = None) -> int:
        """Publishes each row of an array, or each item of an iterable, as a message of its own.

        What holds for `publish` holds for each: depth, reliability, history. A NumPy array or a
        torch tensor in main memory is published many rows at a time, at many times the rate of
        `publish`; each row is copied once. `Subscriber.receive_into` receives them as fast.

        Args:
            messages: an array or a tensor, of which each row along the first dimension is sent; or
                any messages.
            timeout: seconds in which all have to find room, if the publisher is reliable; the
                default is the publisher's own.

        Returns:
            How many were published: all, or if the time is over, or an error stopped it, the first
            ones of them. What stopped it before the first is raised.

        Raises:
            Unsupported, MessageError, InvalidArgument, OutOfMemory, Closed: as `publish` of the
                first message.

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
        told = self._core.publish_many(messages, limit) if self._type is None else None
        if told is None:
            return self._publish_each(messages, deadline)
        outcome, count = told
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

    def _subscribers(self, told: int | Outcome) -> int:
        if isinstance(told, int):
            return told
        if told is Outcome.CLOSED:
            raise Closed(f"the publisher of {self._topic!r} is closed")
        raise self._late()

    def _late(self) -> Timeout:
        return Timeout(
            f"a subscriber of {self._topic!r} had no room in time, and nobody got the sample"
            f"{self._blocked()}"
        )

    def _blocked(self) -> str:
        stats = self._core.stats
        if not (pid := stats["blocked_by"]):
            return ""  # it has room by now
        return f": process {pid}{_name_of(pid)} has had none for {stats['blocked_ns'] / 1e9:.1f} s"

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Waits until at least `count` subscribers are connected; False after `timeout` seconds."""
        limit = seconds("timeout", timeout)
        outcome = self._core.wait_for_subscribers(whole_number("count", count, least=0), limit)
        if outcome is Outcome.CLOSED:
            raise Closed(f"the publisher of {self._topic!r} is closed")
        return outcome is Outcome.DONE

    def ready(self) -> bool:
        """Would `publish` go on without waiting for room? Always, if not `reliable`."""
        return bool(self._core.ready())

    def fileno(self) -> int:
        """A descriptor for `select` and event loops: readable when `ready` may say yes.

        A `ready` that says no re-arms it. Look again every 100 ms at the latest, as a subscriber
        may be stopped before it tells.
        """
        return int(self._core.fileno())

    @property
    def stats(self) -> PublisherStats:
        """What it has sent and dropped since it was made, and whom it waits for."""
        from tensorbus._base.stats import PublisherStats

        return PublisherStats(**self._core.stats)

    def close(self) -> None:
        """Ends it; subscribers still get what is in their queues. A second call does nothing.

        For a subscriber with `end_of_stream=True` the stream is complete. Leaving `with` does the
        same; a process that is killed does not.
        """
        self._closed = True
        self._core.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"subscribers={self.stats.subscribers}"
        return f"<tensorbus.Publisher {self._topic!r} {state}>"

    def _repr_html_(self) -> str:
        """For notebooks: name, state and fill."""
        from tensorbus._base.html import end_of_topic

        shown = ("subscribers", "sent", "bytes_in_flight")
        title = f"Publisher {self._topic}"
        return end_of_topic(title, None if self._closed else self.stats, shown)
