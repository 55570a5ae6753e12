"""Connecting to a name that has several addresses, and reading from peers that take long."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from support.harness import PATIENCE
from tensorbus.bridge._wire import frames
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


def test_a_peer_whose_frames_take_long_gives_turns_to_others() -> None:
    """It is not read for as long as its frames took."""

    class Slow:
        def on_frame(self, *_: object) -> None:
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass

        def on_lost(self, *_: object) -> None: ...

    async def test() -> None:
        loop = asyncio.get_running_loop()
        lanes: list[Lane] = []
        owner: Any = Slow()

        def accept() -> Lane:
            lanes.append(Lane(lambda *_: owner, lambda *_: None))
            return lanes[0]

        server = await loop.create_server(accept, ALIVE, 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        hello = frames.Hello(frames.MAGIC, frames.VERSION, "id", "peer", EXPRESS, "first", "", [])
        writer.write(frames.encode(hello))
        while not (lanes and lanes[0].name):
            await asyncio.sleep(0.001)
        transport: Any = lanes[0]._transport
        assert transport.is_reading()
        writer.write(frames.encode(frames.Unwant(), 1))
        while transport.is_reading():
            await asyncio.sleep(0.001)
        while not transport.is_reading():
            await asyncio.sleep(0.001)
        writer.close()
        server.close()

    asyncio.run(asyncio.wait_for(test(), PATIENCE))
