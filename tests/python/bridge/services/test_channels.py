"""Channels over lanes that are cut at every frame, without sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.cut_lanes import Side, Wire
from support.harness import PATIENCE
from tensorbus import _core
from tensorbus._base.errors import Closed, OutOfMemory, ProtocolError, Unsupported
from tensorbus._base.participant import participant
from tensorbus._codec.fields import unflatten
from tensorbus.bridge._streams.channel import BY_ACCEPTOR, BY_OPENER, Channel, ChannelMessage
from tensorbus.bridge._wire.frames import Begin, Credit, Open, TensorEntry
from tensorbus.bridge._wire.frames import Closed as ClosedFrame
from tensorbus.bridge._wire.lane import BULK, EXPRESS

SMALL, LARGE = 1000, 1_100_000  # bytes of tensors that go on the one lane and on the other


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE))  # type: ignore[arg-type]


def sample_of(data: Any) -> _core.Sample:
    with tb.share(data) as shared:
        found = _core.attach(shared.handle._core, _core.Access.READ, None, participant())
    assert isinstance(found, _core.Sample)
    return found


async def data_of(message: ChannelMessage) -> Any:
    """What its fields and tensors are together."""
    shared = _core.share(await message.outgoing(), message.fields, 0, None, False, participant())
    found = _core.attach(shared.handle, _core.Access.READ, None, participant())
    assert isinstance(found, _core.Sample)
    return unflatten(found, None)


def send_data(channel: Channel, verb: str, data: Any) -> None:
    sample = sample_of(data)
    channel.send(verb, fields=sample.fields, sample=sample)


# What crosses in each direction: of all sizes, one after the other.
SIZES = [SMALL, LARGE, 0, SMALL]


def content(seed: int, size: int) -> dict[str, Any]:
    return {"n": seed, "array": np.full(size, seed, np.uint8)}


async def exchange(wire: Wire, served: asyncio.Future[list[int]]) -> None:
    """Both sides send all at once; then the opener closes."""
    channel = wire.here.channels.open("test", "a key")
    await wire.run(talk(channel))
    channel.close("enough")
    assert await wire.run(served) == list(range(len(SIZES)))
    with pytest.raises(Closed):
        await wire.run(channel.receive())


async def talk(channel: Channel) -> None:
    for seed, size in enumerate(SIZES):
        send_data(channel, "data", content(seed, size))
        channel.send("word", seed, "text", fields=b"\0\1")
    for seed, size in enumerate(SIZES):
        message = await channel.receive()
        data = await data_of(message)
        assert (message.verb, data["n"], data["array"].tolist()) == ("data", seed, [seed] * size)
        message = await channel.receive()
        assert (message.verb, message.arguments, message.fields) == (
            "word",
            [seed, "text"],
            b"\0\1",
        )


async def one_run(cut_at: set[int], seed: int) -> int:
    """Returns how many parts were delivered."""
    served: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    async def serve(channel: Channel) -> None:
        assert (channel.kind, channel.key, channel.opened_here) == ("test", "a key", False)
        await talk(channel)
        with pytest.raises(Closed, match="enough"):
            await channel.receive()
        served.set_result(list(range(len(SIZES))))

    wire = Wire(Side(), Side({"test": serve}), seed)
    wire.cut_at = set(cut_at)
    await exchange(wire, served)
    await wire.settle()
    assert not wire.cut_at or max(wire.cut_at) >= wire.delivered
    for side in (wire.here, wire.there):
        assert not side.errors
        assert not side.channels._channels
    return wire.delivered


def test_messages_of_both_sides_arrive_once_and_in_order_over_a_cut_at_every_part() -> None:
    async def test() -> None:
        parts = await one_run(set(), 0)
        for at in range(parts):
            await one_run({at}, 0)

    run(test)


def test_messages_of_both_sides_arrive_once_and_in_order_over_any_number_of_cuts() -> None:
    async def test() -> None:
        for seed in range(20):
            chance = random.Random(seed)
            await one_run({chance.randrange(100) for _ in range(chance.randrange(12))}, seed)

    run(test)


def test_what_was_sent_before_the_task_of_a_channel_ends_still_arrives() -> None:
    async def test() -> None:
        async def serve(channel: Channel) -> None:
            for number in range(200):
                channel.send("answer", number)

        wire = Wire(Side(), Side({"test": serve}))
        channel = wire.here.channels.open("test", "")
        for number in range(200):
            assert (await wire.run(channel.receive())).numbers(1) == [number]
        with pytest.raises(Closed):
            await wire.run(channel.receive())
        await wire.settle()
        assert not wire.here.channels._channels
        assert not wire.there.channels._channels

    run(test)


def test_the_reason_of_an_error_arrives() -> None:
    async def test() -> None:
        async def serve(channel: Channel) -> None:
            raise OutOfMemory("there is none")

        wire = Wire(Side(), Side({"test": serve}))
        with pytest.raises(Closed, match="there is none"):
            await wire.run(wire.here.channels.open("test", "").receive())

    run(test)


def test_a_channel_of_a_kind_that_nobody_serves_ends() -> None:
    async def test() -> None:
        wire = Wire(Side(), Side())
        channel = wire.here.channels.open("future", "")
        channel.send("hello")
        with pytest.raises(Closed, match="serves no 'future'"):
            await wire.run(channel.receive())
        with pytest.raises(Closed, match="serves no 'future'"):
            channel.send("hello")

    run(test)


def test_a_channel_that_one_side_has_left_during_a_cut_ends_at_the_other() -> None:
    async def test() -> None:
        accepted: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

        async def serve(channel: Channel) -> None:
            accepted.set_result(channel)
            await channel.receive()

        for leaver in ("opener", "acceptor"):
            accepted = asyncio.get_running_loop().create_future()
            wire = Wire(Side(), Side({"test": serve}))
            channel = wire.here.channels.open("test", "")
            other = await wire.run(accepted)
            wire.cut()
            leaves, stays = (channel, other) if leaver == "opener" else (other, channel)
            side = wire.here if leaver == "opener" else wire.there
            side.channels._forget(leaves)
            leaves.end("")
            wire.connect()
            with pytest.raises(Closed):
                await wire.run(stays.receive() if leaver == "acceptor" else _ended(stays))
            await wire.settle()
            assert not wire.here.channels._channels
            assert not wire.there.channels._channels

    async def _ended(channel: Channel) -> None:
        while True:
            channel.send("hello")
            await asyncio.sleep(0)

    run(test)


def test_the_end_of_the_session_ends_its_channels_and_their_tasks() -> None:
    async def test() -> None:
        ended = asyncio.Event()

        async def serve(channel: Channel) -> None:
            try:
                await channel.receive()
            finally:
                ended.set()

        wire = Wire(Side(), Side({"test": serve}))
        channel = wire.here.channels.open("test", "")
        await wire.settle()
        wire.cut()
        wire.there.channels.close("over")
        await asyncio.wait_for(ended.wait(), PATIENCE)
        waiting = asyncio.ensure_future(channel.receive())
        await asyncio.sleep(0)
        wire.here.channels.close("the session is over")
        with pytest.raises(Closed, match="the session is over"):
            await waiting
        with pytest.raises(Closed, match="the session is over"):
            channel.send("hello")

    run(test)


def test_frames_of_a_channel_that_is_over_may_come_late() -> None:
    async def test() -> None:
        wire = Wire(Side(), Side())
        channel = wire.here.channels.open("future", "")
        with pytest.raises(Closed):
            await wire.run(channel.receive())
        for side, by in ((wire.here, BY_ACCEPTOR), (wire.there, BY_OPENER)):
            side.receive(BULK, Begin(0, 0, 0, 0, b"", [], 4), 1 | by)
            side.receive(BULK, b"1234", 1 | by)
            side.receive(EXPRESS, Credit(0, 0, 1, 1), 1 | by)
            side.receive(EXPRESS, ClosedFrame("again"), 1 | by)

    run(test)


def begin(index: int, fields: bytes, size: int = 0, *tensors: TensorEntry) -> Any:
    return Begin(index, index, 0, 0, fields, list(tensors), size)


@pytest.mark.parametrize(
    "frames",
    [
        [(Open("test", "", 0, 0, 9, 9), 1)],
        [(Open("test", "", 0, 0, 9, 9), 1 | BY_ACCEPTOR)],
        [(Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER)] * 2,
        [(begin(0, b""), 1 | BY_OPENER)],
        [(b"1", 1 | BY_OPENER)],
        [(Credit(0, 0, 1, 1), 1 | BY_ACCEPTOR)],
        [(ClosedFrame(""), 1 | BY_OPENER)],
        [(Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER), (b"1", 1 | BY_OPENER)],
        [(Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER), (begin(1 << 20, b""), 1 | BY_OPENER)],
        [
            (Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER),
            (Begin(5, 0, 0, 0, b"", [], 0), 1 | BY_OPENER),
        ],
        [(Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER), (Credit(0, 0, 0, 0), 1 | BY_OPENER)],
    ],
)
def test_a_frame_that_makes_no_sense_is_an_error_of_the_peers(
    frames: list[tuple[Any, int]],
) -> None:
    async def test() -> None:
        async def serve(channel: Channel) -> None:
            await channel.receive()

        side = Side({"test": serve})
        side.connect()
        for what, stream in frames[:-1]:
            side.receive(EXPRESS, what, stream)
        with pytest.raises(ProtocolError):
            side.receive(EXPRESS, *frames[-1])
        await asyncio.sleep(0)
        side.channels.close("")

    run(test)


@pytest.mark.parametrize(
    "fields",
    [b"", b"\xc1", b"\x93\xa1a\x90", b"\x92\xa1a\x90", b"\x93\x01\x90\xc4\x00", b"\x91" * 5000],
)
def test_a_message_that_makes_no_sense_is_an_error_of_the_peers(fields: bytes) -> None:
    async def test() -> None:
        async def serve(channel: Channel) -> None:
            await channel.receive()

        side = Side({"test": serve})
        side.connect()
        side.receive(EXPRESS, Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER)
        side.receive(EXPRESS, begin(0, fields), 1 | BY_OPENER)
        while not side.errors:
            await asyncio.sleep(0)

    run(test)


@pytest.mark.parametrize(
    "tensor",
    [
        TensorEntry("float32", [4], [1], 0, 0),
        TensorEntry("nonsense", [1], [1], 0, 0),
        TensorEntry("uint8", [1], [1], 0, 99),
        TensorEntry("uint8", [-1], [1], 0, 0),
        TensorEntry("uint8", [1, 1], [1], 0, 0),
    ],
)
def test_tensors_that_make_no_sense_are_an_error_of_the_peers(tensor: TensorEntry) -> None:
    async def test() -> None:
        async def serve(channel: Channel) -> None:
            await (await channel.receive()).outgoing()

        side = Side({"test": serve})
        side.connect()
        side.receive(EXPRESS, Open("test", "", 0, 0, 9, 9), 1 | BY_OPENER)
        words = b"\x93\xa1a\x90\xc4\x00"
        side.receive(EXPRESS, begin(0, words, 8, tensor), 1 | BY_OPENER)
        side.receive(EXPRESS, b"12345678", 1 | BY_OPENER)
        while not side.errors:
            await asyncio.sleep(0)

    run(test)


def test_a_message_that_cannot_cross_is_refused_and_the_next_one_arrives() -> None:
    async def test() -> None:
        arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def serve(channel: Channel) -> None:
            arrived.set_result((await channel.receive()).verb)

        wire = Wire(Side(), Side({"test": serve}))
        channel = wire.here.channels.open("test", "")
        with pytest.raises(Unsupported):
            channel.send("large", fields=bytes(1 << 20))
        channel.send("small")
        assert await wire.run(arrived) == "small"

    run(test)


def test_channels_share_a_connection_and_one_that_nobody_reads_stops_no_other() -> None:
    async def test() -> None:
        async def ignore(channel: Channel) -> None:
            await asyncio.Event().wait()

        async def echo(channel: Channel) -> None:
            while True:
                channel.send("echo", *(await channel.receive()).arguments)

        wire = Wire(Side(), Side({"ignore": ignore, "echo": echo}))
        ignored = wire.here.channels.open("ignore", "")
        for _ in range(200):
            send_data(ignored, "data", np.zeros(LARGE // 8, np.uint8))
        echoed = wire.here.channels.open("echo", "")
        for number in range(100):
            echoed.send("say", number)
            assert (await wire.run(echoed.receive())).numbers(1) == [number]
        assert ignored._sending.written < 200
        for side in (wire.here, wire.there):
            side.channels.close("")

    run(test)
