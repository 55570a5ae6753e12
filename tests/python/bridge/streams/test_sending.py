"""The sending side: what it counts, and what it does with a peer that wants more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.cut_lanes import FakeLane
from tensorbus import _core
from tensorbus._base.errors import ProtocolError
from tensorbus._base.participant import participant
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._streams.message import OutgoingMessage
from tensorbus.bridge._streams.sending_end import SendingEnd
from tensorbus.bridge._streams.stream import Limits
from tensorbus.bridge._topics.exports import Exports
from tensorbus.bridge._wire.frames import PublisherEntry, Want
from tensorbus.bridge._wire.lane import BULK, EXPRESS


@contextmanager
def exports(*topics: str) -> Iterator[tuple[Exports, list[tb.Publisher[Any]], list[str]]]:
    """Of publishers of these topics, and the keys of those."""
    with ExitStack() as stack:
        publishers = [stack.enter_context(tb.Publisher[Any](topic)) for topic in topics]
        found = {info.topic: info.publisher for info in _core.list_publishers(participant())}
        entries = {
            found[topic]: PublisherEntry(found[topic], topic, "", "", 8, 0, False)
            for topic in topics
        }
        made = Exports(Link("machine", Rules(), participant()), lambda: entries)
        made.connected()
        yield made, publishers, [found[topic] for topic in topics]
        made.close()


def want(key: str) -> Want:
    return Want(key, 0, 0, 64, 1 << 20)


def test_a_publisher_is_wanted_as_one_stream() -> None:
    async def test() -> None:
        with exports("topic") as (made, _, (key,)):
            made.on_want(want(key), 1)
            with pytest.raises(ProtocolError, match="is wanted"):
                made.on_want(want(key), 2)
            with pytest.raises(ProtocolError, match="is wanted"):
                made.on_want(want(key), 1)
            made.on_unwant(1)
            made.on_want(want(key), 2)
            assert len(made.status()) == 1

    asyncio.run(test())


def test_a_stream_of_an_earlier_connection_is_closed_when_another_takes_its_place() -> None:
    async def test() -> None:
        with exports("one", "two") as (made, _, (one, two)):
            made.on_want(want(one), 1)
            first = made._exports[1]
            made.disconnected()
            made.connected()
            made.on_want(want(one), 2)  # under another number
            assert first._task is None  # it is closed
            second = made._exports[2]
            made.disconnected()
            made.connected()
            made.on_want(want(two), 2)  # another publisher under the same number
            assert second._task is None
            assert [each["topic"] for each in made.status()] == ["two"]

    asyncio.run(test())


def test_wants_that_are_refused_leave_nothing_behind() -> None:
    async def test() -> None:
        with exports() as (made, _, _):
            for stream in range(1, 100):
                made.on_want(want("no such publisher"), stream)
            assert not made._wanted_again

    asyncio.run(test())


def test_a_peer_that_begins_streams_without_end_is_refused() -> None:
    async def test() -> None:
        with exports("topic") as (made, _, (key,)):
            for stream in range(1, 33):
                made.on_want(want(key), stream)
                made.on_unwant(stream)
            with pytest.raises(ProtocolError, match="more than 32 times"):
                made.on_want(want(key), 33)

    asyncio.run(test())


LIMITS = Limits(0, 0, 64, 1 << 30)


class FakeSample:
    """Of one tensor."""

    timestamp_ns = 0
    fingerprint = 0

    def __init__(self, size: int) -> None:
        self._size = size

    def ranges(self) -> tuple[list[memoryview], int, list[Any]]:
        tensor = ("uint8", [self._size], [1], 0, 0)
        return [memoryview(bytes(self._size))], self._size, [tensor]


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_what_is_sent_again_on_a_new_connection_counts_once(size: int) -> None:
    lanes: list[Any] = [FakeLane(EXPRESS), FakeLane(BULK)]
    for lane in lanes:
        lane.reads_zstd = False

    def write(frames: int) -> None:
        for _ in range(frames):
            for lane in lanes:
                end.write_to(lane)

    end = SendingEnd(1, LIMITS, 0, lambda _: None, lambda: None)
    for number in range(3):
        core: Any = FakeSample(size)
        end.take(number, OutgoingMessage(b"", core))
    write(3)
    end.lose_connection()
    end.resume(LIMITS)
    write(30)
    assert (end.written, end.written_bytes) == (3, 3 * size)


def test_a_message_that_was_cut_is_not_sent() -> None:
    lane: Any = FakeLane(BULK)
    lane.reads_zstd = False
    end = SendingEnd(1, LIMITS, 0, lambda _: None, lambda: None)
    core: Any = FakeSample(3_000_000)
    end.take(0, OutgoingMessage(b"", core))
    end.lane = BULK
    for _ in range(2):  # BEGIN, and the first of three chunks
        end.write_to(lane)
    end.lose_connection()
    assert (end.written, end.written_bytes) == (0, 0)
