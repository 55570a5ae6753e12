"""The sending end of a stream: one local publisher, for one peer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator

from tensorbus import _core
from tensorbus._aio.loop_poller import Wait
from tensorbus._base.errors import Error, Unsupported
from tensorbus._core import Outcome
from tensorbus.bridge import _frames
from tensorbus.bridge._frames import Begin, Ended, PublisherEntry, TensorEntry
from tensorbus.bridge._lane import BULK, EXPRESS, Lane
from tensorbus.bridge._rules import TopicRule
from tensorbus.bridge._streams import (
    MOST_SAMPLES_UNDER_WAY,
    Limits,
    Outgoing,
    SendingStream,
    cost_of,
)

logger = logging.getLogger("tensorbus.bridge")

_ALIGNED = 64  # bytes: where each range of a sample begins
_ZEROS = memoryview(bytes(_ALIGNED))
_SMALL = 64 << 10  # bytes of a sample that goes on the express lane


class RawSample:
    """A received sample as the bytes that cross. It keeps the lease."""

    __slots__ = ("core", "fields", "ranges", "size", "tensors")

    def __init__(self, core: _core.Sample) -> None:
        self.core = core
        self.ranges, self.size, tensors = core.ranges()
        self.fields = core.fields
        self.tensors = [
            TensorEntry(dtype, list(shape), list(strides), flags, offset)
            for dtype, shape, strides, flags, offset in tensors
        ]
        most = len(self.fields) + sum(60 + 18 * len(one.shape) for one in self.tensors) + 100
        if most > _frames.MOST_BYTES:
            raise Unsupported(
                f"a message of {len(self.tensors)} tensors and {len(self.fields)} bytes of other "
                "values: between machines shapes and values have at most 1 MiB. Send a tensor of "
                "them"
            )

    def pieces(self, most: int) -> Iterator[memoryview]:
        """Its bytes, at most `most` at a time."""
        at = 0
        for part in self.ranges:
            if at % _ALIGNED:
                gap = _ALIGNED - at % _ALIGNED
                yield _ZEROS[:gap]
                at += gap
            for begin in range(0, len(part), most):
                yield part[begin : begin + most]
            at += len(part)


class Export:
    """Reads one publisher for one peer, and sends what it reads as far as the peer allows.

    Args:
        publisher: what it reads.
        limits: of the peer's WANT.
        on_ready: called when there may be something to write on the lane that is named.
        on_end: called when all was sent that there will ever be. What was not settled stays.
        participant: this machine's bridge.
    """

    def __init__(
        self,
        stream: int,
        publisher: PublisherEntry,
        limits: Limits,
        rule: TopicRule,
        participant: _core.Participant,
        on_ready: Callable[[Export], None],
        on_end: Callable[[Export], None],
    ) -> None:
        self.stream = stream
        self.publisher = publisher
        self.priority = rule.priority
        self.lane = EXPRESS
        self.ended: Ended | None = None
        self._told_end = False  # on this connection
        self._on_ready = on_ready
        self._on_end = on_end
        self._next = limits.next
        self._period = 1 / rule.max_rate if rule.max_rate else 0.0
        self._due = -math.inf
        self._left_out = 0
        self._sending = SendingStream[RawSample](limits)
        self._under_way: Iterator[memoryview] | None = None
        self._room = asyncio.Event()
        self._gone = False
        self._wait: Wait | None = None
        self._subscriber = _core.Subscriber(
            publisher.topic,
            participant,
            depth=publisher.depth,
            max_held=2 * MOST_SAMPLES_UNDER_WAY,
            reliable=publisher.reliable,
            end_of_stream=True,
            spin=0,
            access=_core.Access.READ,
            type="",
            publisher=publisher.key,
        )
        self.unsent = 0  # samples that cannot cross
        self.sent = 0  # samples, and their bytes
        self.sent_bytes = 0
        self._task: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(
            self._take_all()
        )

    # The peer's words.
    def credit(self, limits: Limits) -> None:
        self._sending.credit(limits)
        self._tell()

    def resume(self, limits: Limits) -> None:
        """The peer wants it on a new connection."""
        self._told_end = False
        self._sending.resume(limits)
        self._tell()

    def lose_connection(self) -> None:
        self._sending.lose_connection()
        self._under_way = None

    def publisher_is_gone(self) -> None:
        """It is in the domain no longer: what is in the ring is the last."""
        self._gone = True
        if self._wait is not None:
            self._wait.wake()

    # For the session, which writes on the lanes.
    def write_to(self, lane: Lane) -> bool:
        """Writes one frame or two. False: there is nothing to write now, on this lane."""
        if lane.name != self.lane:
            return False
        if self._under_way is None:
            item = self._sending.next_to_send()
            if item is None:
                return self._end_if_over()
            if item.payload.size > _SMALL and self.lane == EXPRESS:
                self.lane = BULK  # for good
                self._on_ready(self)
                return False
            self._begin(item, lane)
        else:
            self._write_chunk(lane, next(self._under_way))
        return True

    def close(self) -> None:
        """Ends it; what was not settled goes back to the publisher."""
        # A cancelled task knows this object: a cycle would keep the descriptors of the subscriber.
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._under_way = None
        self._sending.clear()
        self._subscriber.close()

    @property
    def missed(self) -> int:
        """Samples that were dropped before they were sent."""
        missed: int = self._subscriber.stats["missed"]
        return missed

    def _begin(self, item: Outgoing[RawSample], lane: Lane) -> None:
        sample = item.payload
        begin = Begin(
            item.sequence,
            item.index,
            sample.core.timestamp_ns,
            sample.core.fingerprint,
            sample.fields,
            sample.tensors,
            sample.size,
        )
        self._sending.mark_sent()
        self.sent += 1
        self.sent_bytes += sample.size
        head = _frames.encode(begin, self.stream)
        if 0 < sample.size <= _SMALL:
            body = b"".join(sample.pieces(_SMALL))
            lane.write(head + _frames.chunk_header(len(body), self.stream) + body)
        else:
            lane.write(head)
            self._under_way = self._peek(sample.pieces(_frames.MOST_BYTES))
        self._room.set()

    # An iterator with something left, or None.
    @staticmethod
    def _peek(pieces: Iterator[memoryview]) -> Iterator[memoryview] | None:
        first = next(pieces, None)
        if first is None:
            return None
        return _Pieces(first, pieces)

    def _write_chunk(self, lane: Lane, piece: memoryview) -> None:
        assert isinstance(self._under_way, _Pieces)
        if self._under_way.done:
            self._under_way = None
            self._room.set()
        lane.write(_frames.chunk_header(len(piece), self.stream), piece)

    def _end_if_over(self) -> bool:
        if self.ended is not None and self._sending.all_sent and not self._told_end:
            self._told_end = True
            self._on_end(self)
        return False

    def _tell(self) -> None:
        self._room.set()
        self._on_ready(self)

    # Takes samples out of the ring when they could be sent, and never before.
    async def _take_all(self) -> None:
        why = ""
        complete = False
        try:
            while True:
                while not self._sending.may_take():
                    self._room.clear()
                    await self._room.wait()
                if not self._take(await self._receive()):  # no variable keeps its lease
                    break
            complete = self._subscriber.try_receive() is Outcome.CLOSED
        except Error as error:
            why = str(error)
        self.ended = Ended(complete, self._sending.taken, why)
        self._on_ready(self)

    # False: there is none, and there will be none.
    def _take(self, core: _core.Sample | None) -> bool:
        if core is None:
            return False
        if core.sequence >= self._next and self._is_due():
            try:
                raw = RawSample(core)
            except Unsupported as error:  # this one cannot cross, others can
                if not self.unsent:
                    logger.warning("%s: not sent: %s", self.publisher.topic, error)
                self.unsent += 1
                return True
            sequence = core.sequence - self._left_out
            self._sending.take(sequence, cost_of(raw.size, len(raw.fields)), raw)
            self._on_ready(self)
        return True

    def _is_due(self) -> bool:
        if not self._period:
            return True
        now = asyncio.get_running_loop().time()
        if now < self._due:
            self._left_out += 1
            return False
        self._due = max(self._due + self._period, now - self._period)
        return True

    async def _receive(self) -> _core.Sample | None:
        """The next sample; None if there will be none."""
        found = self._subscriber.try_receive()
        if not isinstance(found, Outcome):
            return found
        with Wait(self._subscriber.fileno(), None, self) as self._wait:
            try:
                while found is not Outcome.CLOSED and not (self._gone and self._is_alone()):
                    await self._wait.woken()
                    found = self._subscriber.try_receive()
                    if not isinstance(found, Outcome):
                        return found
            finally:
                self._wait = None  # it knows this object
        return None

    # The link to the publisher has ended.
    def _is_alone(self) -> bool:
        return not self._subscriber.stats["publishers"]


class _Pieces(Iterator[memoryview]):
    """Pieces, of which it is known whether there are more."""

    def __init__(self, first: memoryview, more: Iterator[memoryview]) -> None:
        self._next: memoryview | None = first
        self._more = more

    def __next__(self) -> memoryview:
        if self._next is None:
            raise StopIteration
        piece, self._next = self._next, next(self._more, None)
        return piece

    @property
    def done(self) -> bool:
        return self._next is None
