"""The offset between the clock of another machine and the clock of this machine."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_KEPT = 64  # exchanges
_DRIFT_NS = 10_000_000  # max. drift of two clocks over the kept exchanges, unless a clock is set


@dataclass(frozen=True)
class Offset:
    """The estimated offset of a peer's clock."""

    offset_ns: int = 0  # the peer's clock minus this machine's clock
    uncertainty_ns: int | None = None  # None: the offset is unknown


class Clock:
    """Estimates the offset of a peer's clock from PING and PONG (RFC 5905, section 8).

    It uses the exchange with the shortest round trip: the error of its offset is at most half of
    the round trip.
    """

    def __init__(self) -> None:
        self._exchanges: deque[tuple[int, int]] = deque(maxlen=_KEPT)  # round trip, offset (ns)

    def heard(self, sent: int, received: int, replied: int, now: int) -> None:
        """Adds an exchange. All times are in ns.

        Args:
            sent, now: when PING was sent and PONG arrived, by this machine's clock.
            received, replied: when PING arrived and PONG was sent, by the peer's clock.
        """
        way = (now - sent) - (replied - received)
        if way < 0:  # a clock was set meanwhile
            return self._exchanges.clear()
        offset = ((received - sent) + (replied - now)) // 2
        if self._exchanges:  # the error of each offset is at most half of its round trip
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
