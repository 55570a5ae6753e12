"""The receiving end of a stream: a publisher that stands for one of another machine."""

from __future__ import annotations

import asyncio
import logging
import mmap
from collections import deque
from collections.abc import Callable

from tensorbus import _core
from tensorbus._base.errors import Error, OutOfMemory, ProtocolError
from tensorbus._core import Outcome
from tensorbus.bridge._frames import Begin, Credit, Ended, PublisherEntry, Want
from tensorbus.bridge._streams import Incoming, ReceivingStream, cost_of

logger = logging.getLogger("tensorbus.bridge")

_LOOK_AGAIN = 0.02  # seconds; for memory, and for room that a stopped subscriber makes
_SLOW_WINDOW = 256 << 10  # bytes
_MOST_WINDOW = 64 << 20
_LATEST = 2**63 - 1  # ns since the Unix epoch
_discarded = bytearray(1 << 20)  # a chunk of what nobody takes


class Arriving:
    """A sample of which not all bytes are there, or which is not published yet."""

    __slots__ = ("begin", "filled", "is_loan", "view")

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self.filled = 0
        self.view: memoryview | None = None  # where it goes; None: it is thrown away
        self.is_loan = False  # that is memory of the bus

    def target(self, length: int) -> memoryview:
        if self.view is None:
            return memoryview(_discarded)[:length]
        return self.view[self.filled : self.filled + length]


class Mirror:
    """A publisher of another machine, on this one.

    Args:
        machine: the name of the other machine.
        publisher: the publisher there.
        participant: this machine's bridge.
        tell: sends a CREDIT of this stream.
        offset_of: the peer's clock minus ours, in ns.
    """

    def __init__(
        self,
        machine: str,
        publisher: PublisherEntry,
        participant: _core.Participant,
        tell: Callable[[Mirror], None],
        offset_of: Callable[[], int],
    ) -> None:
        self.publisher = publisher
        self.stream = 0  # 0: it is not wanted
        self.received = 0  # samples, and their bytes
        self.received_bytes = 0
        self.discarded = 0  # for want of memory
        self.bad = 0  # that made no sense
        self._machine = machine
        self._tell = tell
        self._offset_of = offset_of
        self._receiving = ReceivingStream[Arriving]()
        self._ready: deque[Incoming[Arriving]] = deque()
        self._ended: Ended | None = None
        self._again: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None
        # Of all that this bridge receives; a larger sample is thrown away.
        self._budget: int = participant.arena["budget_bytes"]
        self._polled = False
        self._core = _core.Publisher(
            publisher.topic,
            participant,
            depth=publisher.depth,
            history=publisher.history,
            reliable=publisher.reliable,
            lag_timeout=None,
            shared=False,
            isolated=True,
            type=publisher.type,
            node=publisher.node,
            origin=(machine, publisher.key),
        )

    @property
    def number(self) -> int:
        """Of the publisher, among those of this bridge."""
        number: int = self._core.number
        return number

    @property
    def subscribers(self) -> int:
        """Local ones."""
        count: int = self._core.subscribers
        return count

    # Wanting it.
    def want(self, stream: int) -> Want:
        """Begins a stream, or goes on with it on a new connection."""
        self.stream = stream
        limits = self._receiving.limits()
        return Want(self.publisher.key, limits.next, limits.published, limits.samples, limits.cost)

    def unwant(self) -> bool:
        """Ends the stream. False: a subscriber has come meanwhile."""
        if not self._core.restart(0):
            return False
        self.stream = 0
        self._ended = None
        self._ready.clear()
        self._stop_telling()
        self._receiving = ReceivingStream()
        return True

    def credit(self) -> Credit:
        """What the sender is to be told now."""
        self._stop_telling()
        limits = self._receiving.limits()
        return Credit(limits.next, limits.published, limits.samples, limits.cost)

    def lose_lanes(self) -> None:
        """The connection is gone, and with it what was under way."""
        self._receiving.lose_lanes()

    # What comes.
    def begin(self, lane: str, begin: Begin) -> None:
        cost = cost_of(begin.size, len(begin.fields))
        arriving = Arriving(begin)
        self._receiving.begin(
            lane, Incoming(begin.index, begin.sequence, cost, begin.size, arriving)
        )
        self._widen(cost)
        if begin.tensors:
            self._make_room(arriving)
        if begin.size == 0:
            self._add(lane, 0)

    def chunk_target(self, lane: str, length: int) -> memoryview:
        sample = self._receiving.under_way(lane)
        if length > sample.missing:
            raise ProtocolError(f"CHUNK.length: {length}, where {sample.missing} are missing")
        return sample.payload.target(length)

    def on_chunk(self, lane: str, length: int) -> None:
        self._receiving.under_way(lane).payload.filled += length
        self._add(lane, length)

    def end(self, ended: Ended) -> None:
        """The sender's last word on the stream."""
        self._ended = ended

    @property
    def over(self) -> bool:
        """The stream has ended, and all of it was published."""
        return (
            self._ended is not None
            and self._receiving.index >= self._ended.samples
            and (not self._ready)
        )

    def close(self, *, complete: bool | None = None) -> None:
        """Ends the publisher: as its original was closed, or as if its process had died."""
        if complete is None:
            complete = self._ended is not None and self._ended.complete and self.over
        self._stop_looking()
        self._stop_telling()
        self._ready.clear()
        if complete:
            self._core.close()
        else:
            self._core.break_off()

    # Without a view the bytes are thrown away.
    def _make_room(self, arriving: Arriving) -> None:
        size = arriving.begin.size
        if size > self._budget:
            return
        try:
            arriving.view = self._core.loan_bytes(size, 0)
            arriving.is_loan = True
        except OutOfMemory:
            # The credit bounds what lies in private memory, which the kernel gives when it is used.
            if self.publisher.reliable:
                arriving.view = memoryview(mmap.mmap(-1, max(size, 1)))[:size]

    def _add(self, lane: str, length: int) -> None:
        ready = self._receiving.add(lane, length)
        if ready:
            self._ready.extend(ready)
            self.publish()

    # What may be under way is the larger of two samples and what a slow network carries in a while.
    def _widen(self, cost: int) -> None:
        least = min(2 * cost, _MOST_WINDOW)
        if self.publisher.reliable:
            least = max(least, _MOST_WINDOW // 8)
        self._receiving.window = max(self._receiving.window, least, _SLOW_WINDOW)

    def publish(self) -> None:
        """Publishes what has arrived, as far as there is room."""
        while self._ready:
            if not self._publish(self._ready[0]):
                self._look_again()
                break
            self._ready.popleft()
            self._receiving.mark_published()
        if self.stream == 0:
            return
        if self._receiving.worth_telling():
            self._tell(self)
        elif self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(0.002, self._tell, self)

    # False: there is no room now.
    def _publish(self, sample: Incoming[Arriving]) -> bool:
        arriving = sample.payload
        begin = arriving.begin
        if begin.tensors and arriving.view is None:
            if not self.discarded:
                self._warn(f"a sample of {begin.size} bytes does not fit into the budget")
            self.discarded += 1
            return True
        if begin.tensors and not arriving.is_loan and not self._move_to_loan(arriving):
            return False
        outgoing = _core.Outgoing()
        try:
            for tensor in begin.tensors:
                assert arriving.view is not None
                outgoing.add_at(
                    arriving.view,
                    tensor.dtype,
                    tensor.shape,
                    tensor.strides,
                    tensor.flags,
                    tensor.offset,
                )
            timestamp = begin.timestamp - self._offset_of()
            told = self._core.publish_as(
                outgoing,
                begin.fields,
                begin.fingerprint,
                sample.sequence,
                max(0, min(timestamp, _LATEST)),
                0.0,
            )
        except OutOfMemory:
            return False
        # The peer wrote nonsense: tensors beyond their bytes, no dtype, numbers beyond the core's.
        except (Error, TypeError) as error:
            if not self.bad:
                self._warn(f"a sample makes no sense: {error}")
            self.bad += 1
            return True
        if told is Outcome.TIMED_OUT:
            return False
        self.received += 1
        self.received_bytes += begin.size
        return True

    # Once for each mirror: the status counts the others.
    def _warn(self, what: str) -> None:
        logger.warning("%s of %s: %s", self.publisher.topic, self._machine, what)

    def _move_to_loan(self, arriving: Arriving) -> bool:
        try:
            loan = self._core.loan_bytes(arriving.begin.size, 0)
        except OutOfMemory:
            return False
        assert arriving.view is not None
        loan[:] = arriving.view
        arriving.view, arriving.is_loan = loan, True
        return True

    # The descriptor tells of room in the rings; of memory, and of a subscriber that is stopped,
    # nobody tells.
    def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        if self._again is None:
            self._again = loop.call_later(_LOOK_AGAIN, self._publish_again)
        if not self._core.ready() and not self._polled:
            self._polled = True
            loop.add_reader(self._core.fileno(), self._publish_again)

    def _publish_again(self) -> None:
        self._stop_looking()
        self.publish()

    def _stop_looking(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._polled:
            self._polled = False
            asyncio.get_running_loop().remove_reader(self._core.fileno())

    def _stop_telling(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
