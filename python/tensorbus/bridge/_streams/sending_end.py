"""The sending end of a stream: chooses the next message and its lane."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tensorbus.bridge._streams.message import OutgoingMessage
from tensorbus.bridge._streams.stream import (
    MAX_SAMPLES_UNDER_WAY,
    Limits,
    Outgoing,
    SendingStream,
)
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.compression import compressed
from tensorbus.bridge._wire.lane import BULK, EXPRESS, Lane

_MAX_UNSETTLED = 4096  # unsettled messages of a channel at which settled() waits
_MAX_BYTES = 64 << 20  # bytes of fields in such messages above which settled() waits
_SMALL = 64 << 10  # max. bytes of tensors of a message on the express lane


class SendingEnd:
    """Holds messages until the peer has settled them, and writes them as the limits allow.

    Args:
        stream: the number in the frames.
        limits: of the peer.
        priority: sending ends with a higher priority write first.
        on_ready: called when there may be something to write on `lane`.
        on_idle: called when nothing may be written now.
        compress: compress tensors, if the peer can read that.
    """

    def __init__(
        self,
        stream: int,
        limits: Limits,
        priority: int,
        on_ready: Callable[[SendingEnd], None],
        on_idle: Callable[[], None],
        *,
        compress: bool = False,
    ) -> None:
        self.stream = stream
        self.priority = priority
        self.lane = EXPRESS
        self.room = asyncio.Event()  # set when may_take() may have changed
        self.written = 0  # messages that were written completely on any connection
        self.written_bytes = 0  # of their tensors
        self._compress = compress
        self._on_ready = on_ready
        self._on_idle = on_idle
        self._sending = SendingStream[OutgoingMessage](limits)
        self._under_way: deque[memoryview] = deque()  # pieces of one message
        self._index = 0  # of that message
        self._size = 0  # of that message

    def may_take(self) -> bool:
        """Returns True if a message with the cost of the last one could be sent at once."""
        return self._sending.may_take()

    def take(self, sequence: int, message: OutgoingMessage) -> None:
        """Takes a message, which is sent when the limits allow it."""
        self._sending.take(sequence, message.cost, message)
        self._on_ready(self)

    @property
    def taken(self) -> int:
        """The total of messages taken."""
        return self._sending.taken

    @property
    def all_sent(self) -> bool:
        """True if all taken messages were sent on this connection."""
        return self._sending.all_sent

    async def settled(self) -> None:
        """Waits while this side keeps too many messages or bytes that the peer has not settled."""
        while self._sending.unsettled >= _MAX_UNSETTLED or self._unsettled_bytes() > _MAX_BYTES:
            self.room.clear()
            await self.room.wait()

    def _unsettled_bytes(self) -> int:
        """Returns the bytes of fields. Tensors do not count: they are leased, not copied."""
        if self._sending.unsettled <= MAX_SAMPLES_UNDER_WAY:
            return 0
        return sum(len(one.fields) for one in self._sending.held())

    # Called for frames of the peer.
    def credit(self, limits: Limits) -> None:
        self._sending.credit(limits)
        self.tell()

    def resume(self, limits: Limits) -> None:
        """Continues on a new connection: messages that are not settled are sent again."""
        self._sending.resume(limits)
        self.tell()

    def lose_connection(self) -> None:
        self._sending.lose_connection()
        self._under_way.clear()

    def close(self) -> None:
        """Drops all messages, and the reference to the owner, so that no cycle keeps it alive."""
        self._under_way.clear()
        self._sending.clear()
        self._on_idle = _do_nothing
        self.room.set()

    def tell(self) -> None:
        self.room.set()
        self._on_ready(self)

    def write_to(self, lane: Lane) -> bool:
        """Writes one or two frames. Returns False if nothing may be written on this lane now."""
        if lane.name != self.lane:
            return False
        if self._under_way:
            piece = self._under_way.popleft()
            if not self._under_way:
                self._end_message()
            self._write_chunk(lane, piece)
            return True
        item = self._sending.next_to_send()
        if item is None:
            self._on_idle()
            return False
        if item.payload.size > _SMALL and lane.name != BULK:
            self.lane = BULK  # for good
            self._on_ready(self)
            return False
        self._begin(item, lane)
        return True

    def _begin(self, item: Outgoing[OutgoingMessage], lane: Lane) -> None:
        message = item.payload
        self._sending.mark_sent()
        head = frames.encode(message.begin(item.sequence, item.index), self.stream)
        if 0 < message.size <= _SMALL:
            self._write_chunk(lane, b"".join(message.pieces(_SMALL)), head)
        else:
            lane.write(head)
            self._under_way = message.pieces(frames.MAX_BYTES)
        self._index, self._size = item.index, message.size
        if not self._under_way:
            self._end_message()
        self.room.set()

    def _end_message(self) -> None:
        if self._index >= self.written:  # otherwise already counted on an earlier connection
            self.written = self._index + 1
            self.written_bytes += self._size
        self.room.set()

    def _write_chunk(self, lane: Lane, piece: bytes | memoryview, head: bytes = b"") -> None:
        shorter = compressed(piece) if self._compress and lane.reads_zstd else None
        if shorter is not None:
            lane.write(head + frames.zstd_chunk(shorter, self.stream))
        else:
            lane.write(head + frames.chunk_header(len(piece), self.stream), piece)


def _do_nothing() -> None:
    pass
