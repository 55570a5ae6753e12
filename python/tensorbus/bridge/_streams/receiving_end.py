"""The receiving end of a stream: where its bytes go, and what the sender is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tensorbus._base.errors import ProtocolError
from tensorbus.bridge._streams.message import Allocate, IncomingMessage
from tensorbus.bridge._streams.stream import Incoming, Limits, ReceivingStream, cost_of
from tensorbus.bridge._wire.frames import Begin, Credit

_TELL_AFTER = 0.02  # seconds; several small messages are settled by one CREDIT
_SLOW_WINDOW = 256 << 10  # bytes
_MOST_WINDOW = 64 << 20


class ReceivingEnd:
    """Puts what comes in order, and keeps it until it is taken.

    Args:
        tell: sends the Credit of `credit()`.
        allocate: memory of the bus for a message.
        budget: bytes of it, of all streams of this bridge.
        reliable: no message is left out for want of memory, and more may be under way.
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
        self.ready: deque[Incoming[IncomingMessage]] = deque()  # whole, in order, not taken

    @property
    def count(self) -> int:
        """How many messages have come, whole and in order."""
        return self._receiving.index

    def limits(self) -> Limits:
        """What is to be told to the sender now."""
        return self._receiving.limits()

    def credit(self) -> Credit:
        limits = self.limits()
        return Credit(limits.next, limits.published, limits.samples, limits.cost)

    def begin(self, lane: str, begin: Begin) -> bool:
        """A message begins. True: something is ready.

        Raises:
            ProtocolError: it may not begin here and now.
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
        """Where the bytes of a CHUNK go.

        Raises:
            ProtocolError: it is longer than what is missing.
        """
        sample = self._receiving.under_way(lane)
        if length > sample.missing:
            raise ProtocolError(f"CHUNK.length: {length}, where {sample.missing} are missing")
        return sample.payload.target(length)

    def on_chunk(self, lane: str, length: int) -> bool:
        """They have come. True: something is ready."""
        self._receiving.under_way(lane).payload.filled(length)
        return self._add(lane, length)

    def taken(self) -> None:
        """The oldest that was ready is done with: the sender may send more."""
        self.ready.popleft()
        self._receiving.mark_published()
        if self._receiving.worth_telling():
            self._say()
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_TELL_AFTER, self._say)

    def lose_lanes(self) -> None:
        """The connection is gone, and with it what was under way."""
        self._receiving.lose_lanes()

    def close(self) -> None:
        """Lets go of its owner, too: no cycle keeps that alive, and with it its descriptors."""
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

    # Under way may be the larger of two messages and what a slow network carries in a while.
    def _widen(self, cost: int) -> None:
        least = min(2 * cost, _MOST_WINDOW)
        if self._reliable:
            least = max(least, _MOST_WINDOW // 8)
        self._receiving.window = max(self._receiving.window, least, _SLOW_WINDOW)

    def _stop_telling(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None


def _do_nothing() -> None:
    pass
