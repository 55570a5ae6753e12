"""What a session does with frames that come late, and with a clock that jumps."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus._base.errors import ProtocolError
from tensorbus._base.participant import participant
from tensorbus.bridge._clock import Clock
from tensorbus.bridge._rules import Peer, Rules
from tensorbus.bridge._session import Session
from tensorbus.bridge._wire.frames import (
    MAGIC,
    VERSION,
    Begin,
    Ended,
    Frame,
    Hello,
    PublisherEntry,
    Publishers,
    Unwant,
    Want,
    encode,
)
from tensorbus.bridge._wire.lane import BULK, EXPRESS, ConnectionOver, Lane, LaneOwner

KEY = "00112233445566778899aabbccddeeff.7"


class FakeLane:
    """Keeps what the session sends."""

    refused = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.peer = Peer("here", None)
        self.clock: Clock | None = None
        self.writable = True
        self.sent: list[tuple[Frame, int]] = []

    def send(self, frame: Frame, stream: int = 0) -> None:
        self.sent.append((frame, stream))

    def close(self, why: str) -> None:
        pass


def test_frames_of_a_stream_that_is_over_may_come_late_on_the_other_lane() -> None:
    async def run() -> None:
        session = Session(
            "peer", "robot", Rules(), participant(), lambda: {}, {}, lambda *_: None, {}
        )
        express, bulk = (FakeLane(name) for name in (EXPRESS, BULK))
        lanes: Any = (express, bulk)
        session.connect(lanes[0], "1", "peer")
        session.add_bulk(lanes[1])
        entry = PublisherEntry(KEY, "topic", "", "", 8, 0, False)
        session.on_frame(lanes[0], Publishers([entry], [], True), 0)
        number = next(iter(session._mirrors._by_number))

        async def sent(kind: type[Frame]) -> int:
            while not any(isinstance(frame, kind) for frame, _ in express.sent):
                await asyncio.sleep(0.01)
                session.look_at_demand([number])
            return next(stream for frame, stream in express.sent if isinstance(frame, kind))

        with tb.Subscriber[Any]("topic", timeout=PATIENCE):
            stream = await asyncio.wait_for(sent(Want), PATIENCE)
        assert await asyncio.wait_for(sent(Unwant), PATIENCE) == stream
        session.on_frame(lanes[0], Ended(False, 0, ""), stream)
        session.on_frame(lanes[1], Begin(0, 0, 0, 0, b"\xc4\x00", [], 4), stream)
        assert len(session.chunk_target(lanes[1], stream, 4)) == 4
        session.on_chunk(lanes[1], stream, 4)
        session.on_frame(lanes[0], Ended(False, 0, ""), stream)
        with pytest.raises(ProtocolError, match="nobody wanted the stream"):
            session.on_frame(lanes[0], Ended(False, 0, ""), stream + 1)
        session.end("it is over")

    asyncio.run(run())


def test_a_bulk_lane_that_comes_after_a_cut_is_closed() -> None:
    async def run() -> None:
        cuts: list[str] = []
        session = Session(
            *("peer", "robot", Rules(), participant(), lambda: {}, {}),
            lambda _, why: cuts.append(why),
            {},
        )
        lanes: list[Any] = [FakeLane(name) for name in (EXPRESS, BULK)]
        session.connect(lanes[0], "1", "peer")
        session.on_lost(lanes[0], "it is cut")
        with pytest.raises(ConnectionOver):
            session.add_bulk(lanes[1])
        session.on_lost(lanes[1], "it was closed")
        assert cuts == ["it is cut"]
        session.end("it is over")

    asyncio.run(run())


class FakeWriter:
    """Keeps what a lane writes."""

    unsent = 0

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def close(self) -> None:
        pass

    def write(self, *parts: bytes | memoryview) -> None:
        self.written += map(bytes, parts)


def test_a_lane_of_a_connection_that_has_ended_is_no_protocol_error() -> None:
    """Three of these in a row would end the session, and the peer has done nothing wrong."""

    def over(lane: Lane, hello: Hello) -> LaneOwner:
        raise ConnectionOver

    async def run() -> None:
        lane, writer = Lane(over, lambda *_: None), FakeWriter()
        lane.begin(Peer("there", None), cast("Any", writer), lambda: None)
        hello = encode(Hello(MAGIC, VERSION, "peer", "robot", BULK, "1", "", []), 0)
        buffer = lane.get_buffer(0)
        while hello:
            count = min(len(hello), len(buffer))
            buffer[:count], hello = hello[:count], hello[count:]
            lane.buffer_updated(count)
            buffer = lane.get_buffer(0)
        assert lane.closed
        assert lane.why == "the other lane of the connection has ended meanwhile"
        assert not lane.refused
        assert writer.written == []
        lane.connection_lost(None)

    asyncio.run(run())


def test_a_clock_that_was_set_is_known_at_once_to_its_peer() -> None:
    clock = Clock()
    for offset in (0, 5_000_000, 10**15, -(10**15)):  # ns; the second is no more than drift
        for way in (100, 500_000, 2_000_000):
            sent = 10**18
            there = sent + offset + way // 2
            clock.heard(sent, there, there, sent + way)
    assert clock.offset.offset_ns == -(10**15)
    assert clock.offset.uncertainty_ns == 50
