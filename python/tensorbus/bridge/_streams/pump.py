"""The order in which the sending ends of a connection write."""

from __future__ import annotations

import asyncio
from collections import deque

from tensorbus.bridge._streams.sending_end import SendingEnd
from tensorbus.bridge._wire.lane import BULK, EXPRESS, Lane

# Frames written before other callbacks of the event loop run; frames of the bulk lane are large.
_IN_A_ROW = {EXPRESS: 8, BULK: 1}


class Pump:
    """Writes on the lanes of a connection while the kernel takes the bytes.

    A sending end with a higher priority writes first. Those with the same priority take turns.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._turns: dict[str, deque[SendingEnd]] = {EXPRESS: deque(), BULK: deque()}
        self._writing: set[Lane] = set()

    def add(self, lane: Lane) -> None:
        self._lanes[lane.name] = lane
        self.write(lane)

    def clear(self) -> None:
        """Removes the lanes and all turns: the connection is gone."""
        self._lanes.clear()
        for turns in self._turns.values():
            turns.clear()

    def take_turn(self, end: SendingEnd) -> None:
        """Queues a sending end that may have something to write."""
        turns = self._turns[end.lane]
        if end in turns:
            return
        _enter(turns, end)
        lane = self._lanes.get(end.lane)
        if lane is not None:
            self.write(lane)

    def write(self, lane: Lane) -> None:
        """Writes frames on a lane.

        Nested calls for the same lane do nothing: with TLS, asyncio may report a lane as writable
        in the middle of a write.
        """
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


# Inserts the sending end after those with the same priority.
def _enter(turns: deque[SendingEnd], end: SendingEnd) -> None:
    at = len(turns)
    while at > 0 and turns[at - 1].priority < end.priority:
        at -= 1
    turns.insert(at, end)
