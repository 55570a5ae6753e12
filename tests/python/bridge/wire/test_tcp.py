"""Connecting to a name that has several addresses, and reading from peers that take long."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest

from support.harness import PATIENCE
from tensorbus.bridge._clock import Clock
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire import lane as lane_module
from tensorbus.bridge._wire.frames import HEADER_BYTES
from tensorbus.bridge._wire.lane import EXPRESS, Lane
from tensorbus.bridge._wire.tcp import TcpNetwork

ALIVE, DEAD = "127.0.0.1", "127.0.0.2"


@contextmanager
def listening() -> Iterator[int]:
    """A port at which ALIVE answers, and DEAD answers nothing: it takes no more connections."""
    with ExitStack() as stack:
        alive = stack.enter_context(socket.create_server((ALIVE, 0)))
        port: int = alive.getsockname()[1]
        dead = stack.enter_context(socket.socket())
        dead.bind((DEAD, port))
        dead.listen(0)
        with suppress(TimeoutError):
            while True:
                stack.enter_context(socket.create_connection((DEAD, port), timeout=0.2))
        yield port


def uvloop() -> asyncio.AbstractEventLoop:
    module = pytest.importorskip("uvloop", reason="uvloop is not installed")
    return module.new_event_loop()  # type: ignore[no-any-return]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop])
@pytest.mark.parametrize("addresses", [(DEAD, ALIVE), (DEAD, DEAD, DEAD, ALIVE), (DEAD,)])
def test_an_address_that_does_not_answer_keeps_no_other_from_a_try(
    new_loop: Callable[[], Any], addresses: tuple[str, ...]
) -> None:
    async def resolve(host: str, port: int, **options: Any) -> Any:
        if host != "name":  # uvloop looks at each address again
            return await real(host, port, **options)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, str(number), (address, port))
            for number, address in enumerate(addresses)
        ]

    async def dial(port: int) -> str:
        ended = asyncio.Event()

        def gone(_lane: Lane, _why: str) -> None:
            ended.set()

        lane = Lane(lambda *_: pytest.fail("nobody says HELLO"), gone)
        await TcpNetwork(None, None).dial(f"name:{port}", "", EXPRESS, lane)
        address = lane.peer.address
        lane.close("the test is over")
        await asyncio.wait_for(ended.wait(), PATIENCE)
        return address

    loop = new_loop()
    real, loop.getaddrinfo = loop.getaddrinfo, resolve
    try:
        with listening() as port:
            if ALIVE in addresses:
                assert loop.run_until_complete(dial(port)) == f"{ALIVE}:{port}"
            else:
                with pytest.raises((OSError, asyncio.TimeoutError)):
                    loop.run_until_complete(dial(port))
    finally:
        loop.close()


class SlowOwner:
    """Takes 20 ms of processor time for each frame."""

    def on_frame(self, *_: object) -> None:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    def on_lost(self, *_: object) -> None: ...


@asynccontextmanager
async def greeted() -> AsyncIterator[tuple[Lane, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A lane of a slow owner, and the peer's end of its connection."""
    lanes: list[Lane] = []
    owner: Any = SlowOwner()

    def accept() -> Lane:
        lanes.append(Lane(lambda *_: owner, lambda *_: None))
        return lanes[0]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(accept, ALIVE, 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    hello = frames.Hello(frames.MAGIC, frames.VERSION, "id", "peer", EXPRESS, "first", "", [])
    writer.write(frames.encode(hello))
    while not (lanes and lanes[0].name):
        await asyncio.sleep(0.001)
    yield lanes[0], reader, writer
    writer.close()
    server.close()


def test_a_peer_whose_frames_take_long_gives_turns_to_others() -> None:
    """It is not read for as long as its frames took."""

    async def test() -> None:
        async with greeted() as (lane, _, writer):
            transport: Any = lane._transport
            assert transport.is_reading()
            writer.write(frames.encode(frames.Unwant(), 1))
            while transport.is_reading():
                await asyncio.sleep(0.001)
            while not transport.is_reading():
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


class Stepped:
    """The module `time` after the wall clock was set forward by so many ns."""

    monotonic_ns = staticmethod(time.monotonic_ns)

    def __init__(self, step: int) -> None:
        self._step = step

    def time_ns(self) -> int:
        return time.time_ns() + self._step


def test_a_step_of_our_clock_is_no_part_of_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    step = 10**10  # ns
    monkeypatch.setattr(lane_module, "PING_EVERY", 0.01)

    async def test() -> None:
        async with greeted() as (lane, reader, writer):
            lane.clock = Clock()
            length, number, *_ = frames._HEADER.unpack(await reader.readexactly(HEADER_BYTES))
            ping = frames.decode(number, await reader.readexactly(length))
            assert isinstance(ping, frames.Ping)
            now = time.time_ns()
            monkeypatch.setattr(lane_module, "time", Stepped(step))
            writer.write(frames.encode(frames.Pong(ping.sent, now, now)))
            while lane.clock.offset.uncertainty_ns is None:
                await asyncio.sleep(0.001)
            assert lane.clock.offset.uncertainty_ns < step // 10
            assert abs(lane.clock.offset.offset_ns + step) < step // 10

    asyncio.run(asyncio.wait_for(test(), PATIENCE))
