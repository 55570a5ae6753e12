"""How far the clock of another machine is from ours."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_KEPT = 64  # exchanges
_DRIFT_NS = 10_000_000  # of two clocks at most while exchanges are kept, if nobody sets them


@dataclass(frozen=True)
class Offset:
    """What is known of a peer's clock."""

    offset_ns: int = 0  # the peer's clock minus ours
    uncertainty_ns: int | None = None  # None: nothing is known


class Clock:
    """Estimates the offset of a peer's clock from PING and PONG (RFC 5905, section 8).

    The exchange with the shortest way says most: its offset is wrong by half of the way at most.
    """

    def __init__(self) -> None:
        self._exchanges: deque[tuple[int, int]] = deque(maxlen=_KEPT)  # way, offset

    def heard(self, sent: int, received: int, replied: int, now: int) -> None:
        """One exchange, in ns: sent and heard by our clock, received and replied by the peer's."""
        way = (now - sent) - (replied - received)
        if way < 0:  # one of the clocks was set meanwhile
            return self._exchanges.clear()
        offset = ((received - sent) + (replied - now)) // 2
        if self._exchanges:  # both offsets are right at most by half of their ways
            best_way, best = min(self._exchanges)
            if abs(offset - best) > (way + best_way) // 2 + _DRIFT_NS:
                self._exchanges.clear()
        self._exchanges.append((way, offset))

    @property
    def offset(self) -> Offset:
        if not self._exchanges:
            return Offset()
        way, offset = min(self._exchanges)
        return Offset(offset, way // 2)
