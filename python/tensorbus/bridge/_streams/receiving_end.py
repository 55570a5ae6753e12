"""The receiving end of a stream: stores the received bytes, and sends limits to the sender."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tensorbus._base.errors import ProtocolError
from tensorbus.bridge._streams.message import Allocate, IncomingMessage
from tensorbus.bridge._streams.stream import Incoming, Limits, ReceivingStream, cost_of
from tensorbus.bridge._wire.frames import Begin, Credit

_TELL_AFTER = 0.02  # seconds, so that one CREDIT settles several small messages
_SLOW_WINDOW = 256 << 10  # min. window in bytes: what a slow network carries in a short time
_MAX_WINDOW = 64 << 20  # bytes


class ReceivingEnd:
    """Puts received messages in order, and keeps them until they are taken.

    Args:
        tell: sends the Credit of `credit()`.
        allocate: returns memory of the bus for a message.
        budget: bytes of memory of the bus for all streams of this bridge. Larger messages are
            discarded.
        reliable: discard no message because memory is short, and use a larger window.
        next: the sequence number to begin with.
    """

    def __init__(
        self,
        tell: Callable[[], None],
        allocate: Allocate,
        budget: int,
        *,
        reliable: bool,
        next: int = 0,
    ) -> None:
        self._tell = tell
        self._allocate = allocate
        self._budget = budget
        self._reliable = reliable
        self._receiving = ReceivingStream[IncomingMessage](next)
        self._telling: asyncio.TimerHandle | None = None
        self.ready: deque[Incoming[IncomingMessage]] = deque()  # complete, in order, not taken

    @property
    def count(self) -> int:
        """The number of messages received, complete and in order."""
        return self._receiving.index

    def limits(self) -> Limits:
        """Returns the current limits for the sender."""
        return self._receiving.limits()

    def credit(self) -> Credit:
        limits = self.limits()
        return Credit(limits.next, limits.published, limits.samples, limits.cost)

    def begin(self, lane: str, begin: Begin) -> bool:
        """Begins a message. Returns True if a message is ready.

        Raises:
            ProtocolError: the message may not begin now.
        """
        cost = cost_of(begin.size, len(begin.fields))
        message = IncomingMessage(begin)
        self._receiving.begin(
            lane, Incoming(begin.index, begin.sequence, cost, begin.size, message)
        )
        self._widen(cost)
        message.make_room(self._allocate, self._budget, keeps=self._reliable)
        return begin.size == 0 and self._add(lane, 0)

    def chunk_target(self, lane: str, length: int) -> memoryview:
        """Returns the buffer for the bytes of a CHUNK.

        Raises:
            ProtocolError: the CHUNK is longer than the missing bytes, or no message has begun.
        """
        sample = self._receiving.under_way(lane)
        if length > sample.missing:
            raise ProtocolError(f"CHUNK.length: {length}, where {sample.missing} are missing")
        return sample.payload.target(length)

    def on_chunk(self, lane: str, length: int) -> bool:
        """Called when that buffer is filled. Returns True if a message is ready."""
        self._receiving.under_way(lane).payload.filled(length)
        return self._add(lane, length)

    def taken(self) -> None:
        """Removes the oldest ready message; the sender may send more."""
        self.ready.popleft()
        self._receiving.mark_published()
        if self._receiving.worth_telling():
            self._say()
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_TELL_AFTER, self._say)

    def lose_lanes(self) -> None:
        """Drops messages that are incomplete or not in order: the connection is gone."""
        self._receiving.lose_lanes()

    def close(self) -> None:
        """Drops the messages that are ready, and the reference to the owner.

        So no reference cycle keeps the owner alive, and with it its descriptors.
        """
        self._stop_telling()
        self.ready.clear()
        self._tell = _do_nothing

    def _say(self) -> None:
        self._stop_telling()
        self._tell()

    def _add(self, lane: str, length: int) -> bool:
        ready = self._receiving.add(lane, length)
        self.ready.extend(ready)
        return bool(ready)

    # The window has room for two messages like this one, but at most _MAX_WINDOW. It has at least
    # _SLOW_WINDOW; if `reliable`, at least an eighth of _MAX_WINDOW. It never shrinks.
    def _widen(self, cost: int) -> None:
        least = min(2 * cost, _MAX_WINDOW)
        if self._reliable:
            least = max(least, _MAX_WINDOW // 8)
        self._receiving.window = max(self._receiving.window, least, _SLOW_WINDOW)

    def _stop_telling(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None


def _do_nothing() -> None:
    pass
