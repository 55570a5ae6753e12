"""Two sides of a bridge without sockets: lanes that a test cuts at any frame."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Mapping
from typing import Any

from support.harness import PATIENCE
from tensorbus import _core
from tensorbus._base.errors import ProtocolError
from tensorbus._base.participant import participant
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._streams.channels import Channels, Serve
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.frames import Begin, Credit, Frame, FrameReader, Open, Publishers
from tensorbus.bridge._wire.frames import Closed as ClosedFrame
from tensorbus.bridge._wire.lane import BULK, EXPRESS

SETTLED = 0.005  # seconds, in which a channel says what it has taken

Part = tuple[str, Any, int]  # lane, a frame or the bytes of a CHUNK, stream


class FakeLane:
    """Takes the bytes of one side apart again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.writable = True
        self.parts: deque[Part] = deque()  # written, and not delivered
        self._reader = FrameReader(self, 1 << 12)
        self._room = memoryview(b"")

    def send(self, frame: Frame, stream: int = 0) -> None:
        self.write(frames.encode(frame, stream))

    def write(self, *parts: bytes | memoryview) -> None:
        data = b"".join(parts)
        while data:
            room = self._reader.buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._reader.filled(count)
            data = data[count:]

    def on_frame(self, frame: Frame, stream: int) -> None:
        self.parts.append((self.name, frame, stream))

    def chunk_target(self, stream: int, length: int) -> memoryview:
        self._room = memoryview(bytearray(length))
        return self._room

    def on_chunk(self, stream: int, length: int) -> None:
        self.parts.append((self.name, bytes(self._room), stream))


class Side:
    """What a session has for channels."""

    def __init__(
        self, served: Mapping[str, Serve] | None = None, home: _core.Participant | None = None
    ) -> None:
        self.link = Link("machine", Rules(), home or participant())
        self.errors: list[ProtocolError] = []
        self.channels = Channels(self.link, served or {}, self.errors.append)
        self.lanes: list[FakeLane] = []

    def connect(self) -> None:
        self.lanes = [FakeLane(EXPRESS), FakeLane(BULK)]
        lanes: Any = self.lanes
        self.link.express = lanes[0]
        self.channels.connected()
        lanes[0].send(Publishers([], [], True))
        for lane in lanes:
            self.link.pump.add(lane)

    def disconnect(self) -> None:
        self.lanes = []
        self.link.express = None
        self.link.pump.clear()
        self.channels.disconnected()

    def receive(self, lane: str, what: Any, stream: int) -> None:
        channels = self.channels
        if isinstance(what, bytes):
            target = channels.chunk_target(lane, stream, len(what))
            if target is not None:
                target[:] = what
            channels.on_chunk(lane, stream, len(what))
        elif isinstance(what, Begin):
            channels.on_begin(lane, what, stream)
        elif isinstance(what, Open):
            channels.on_open(what, stream)
        elif isinstance(what, Credit):
            channels.on_credit(what, stream)
        elif isinstance(what, ClosedFrame):
            channels.on_closed(what, stream)
        else:
            channels.drop_unopened()


class Wire:
    """Joins two sides, delivers what they write a part at a time, and can be cut."""

    def __init__(self, here: Side, there: Side, seed: int = 0) -> None:
        self.here, self.there = here, there
        self.delivered = 0
        self.cut_at: set[int] = set()  # before the delivery of these parts
        self._random = random.Random(seed)
        self.connect()

    def connect(self) -> None:
        self.here.connect()
        self.there.connect()

    def cut(self) -> None:
        self.here.disconnect()
        self.there.disconnect()

    def deliver(self) -> bool:
        """One part, of any lane. False: there is none."""
        ways = [
            (lane, target)
            for source, target in ((self.here, self.there), (self.there, self.here))
            for lane in source.lanes
            if lane.parts
        ]
        if not ways:
            return False
        if self.delivered in self.cut_at:
            self.cut_at.discard(self.delivered)
            self.cut()
            self.connect()
            return True
        lane, target = self._random.choice(ways)
        target.receive(*lane.parts.popleft())
        self.delivered += 1
        return True

    async def run(self, until: Awaitable[Any]) -> Any:
        """Delivers until this is done."""
        wanted = asyncio.ensure_future(until)
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not wanted.done():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0 if self.deliver() else SETTLED / 2)
        return wanted.result()

    async def settle(self) -> None:
        """Until nobody says anything more."""
        quiet = False
        while not quiet:
            while self.deliver():
                await asyncio.sleep(0)
            await asyncio.sleep(SETTLED)
            quiet = not any(lane.parts for lane in (*self.here.lanes, *self.there.lanes))
