"""Which of the sending ends of a connection writes next."""

from __future__ import annotations

import asyncio
from collections import deque

from tensorbus.bridge._streams.sending_end import SendingEnd
from tensorbus.bridge._wire.lane import BULK, EXPRESS, Lane

# Frames that are written before the event loop turns to others: those of the bulk lane are large.
_IN_A_ROW = {EXPRESS: 8, BULK: 1}


class Pump:
    """Writes on the lanes of a connection while the kernel takes it.

    Ends of one priority take turns, those of a higher one go first.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._turns: dict[str, deque[SendingEnd]] = {EXPRESS: deque(), BULK: deque()}
        self._writing: set[Lane] = set()

    def add(self, lane: Lane) -> None:
        self._lanes[lane.name] = lane
        self.write(lane)

    def clear(self) -> None:
        """The connection is gone."""
        self._lanes.clear()
        for turns in self._turns.values():
            turns.clear()

    def take_turn(self, end: SendingEnd) -> None:
        """It may have something to write."""
        turns = self._turns[end.lane]
        if end in turns:
            return
        _enter(turns, end)
        lane = self._lanes.get(end.lane)
        if lane is not None:
            self.write(lane)

    def write(self, lane: Lane) -> None:
        """Writes what is due. A call while it writes on that lane changes nothing: over TLS the
        event loop says that a lane is writable in the middle of a write."""
        if lane in self._writing:
            return
        self._writing.add(lane)
        try:
            self._write(lane)
        finally:
            self._writing.discard(lane)

    def _write(self, lane: Lane) -> None:
        turns = self._turns[lane.name]
        for _ in range(_IN_A_ROW[lane.name]):
            if not turns or not lane.writable or self._lanes.get(lane.name) is not lane:
                return
            end = turns.popleft()
            if end.write_to(lane):
                _enter(turns, end)
        if turns:
            asyncio.get_running_loop().call_soon(self.write, lane)


# After those of the same priority.
def _enter(turns: deque[SendingEnd], end: SendingEnd) -> None:
    at = len(turns)
    while at > 0 and turns[at - 1].priority < end.priority:
        at -= 1
    turns.insert(at, end)
