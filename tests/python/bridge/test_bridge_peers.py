"""What a bridge does with peers that say what they should not, and with its own end.

The bridge and the peers run in one event loop, so that every order of events can be had.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.bridge.bridges import free_port
from support.harness import PATIENCE
from tensorbus.bridge import Bridge, BridgeConfig
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.frames import Frame, Hello
from tensorbus.bridge._wire.lane import BULK, EXPRESS, Lane

HOST = "127.0.0.1"


class Peer:
    """A bridge of which only the lanes are real: it keeps what comes, and says what it is told."""

    def __init__(self, name: str = "peer") -> None:
        self.name = name
        self.bridge = name.encode().hex().ljust(32, "0")
        self.hellos: list[tuple[Lane, Hello]] = []
        self.frames: list[tuple[Frame, int]] = []
        self.lost: list[str] = []
        self.on_hello: Callable[[Lane, Hello], None] = self.answer

    def lane(self) -> Lane:
        return Lane(self._greeted, lambda _, why: self.lost.append(why))

    def hello(self, lane: str, connection: str, known: str = "") -> Hello:
        return Hello(
            frames.MAGIC, frames.VERSION, self.bridge, self.name, lane, connection, known, []
        )

    def answer(self, lane: Lane, hello: Hello) -> None:
        lane.send(self.hello(hello.lane, hello.connection, hello.known.strip("*")))

    async def listen(self) -> str:
        server = await asyncio.get_running_loop().create_server(self.lane, HOST, 0)
        return f"{HOST}:{server.sockets[0].getsockname()[1]}"

    async def dial(self, port: int, lane: str, connection: str, known: str = "") -> Lane:
        """Says HELLO, and waits for the answer."""
        self.on_hello = lambda *_: None
        count = len(self.hellos) + len(self.lost)
        made = self.lane()
        await connect(made, port)
        made.send(self.hello(lane, connection, known))
        await soon(lambda: len(self.hellos) + len(self.lost) > count)
        return made

    def _greeted(self, lane: Lane, hello: Hello) -> Peer:
        self.hellos.append((lane, hello))
        self.on_hello(lane, hello)
        return self

    # As the owner of its lanes.
    def on_frame(self, lane: Lane, frame: Frame, stream: int) -> None:
        self.frames.append((frame, stream))

    def chunk_target(self, lane: Lane, stream: int, length: int) -> memoryview:
        return frames.discarded(length)

    def on_chunk(self, lane: Lane, stream: int, length: int) -> None: ...
    def on_writable(self, lane: Lane) -> None: ...
    def on_lost(self, lane: Lane, why: str) -> None:
        self.lost.append(why)


async def connect(lane: Lane, port: int) -> None:
    """As soon as the bridge listens."""
    while True:
        with suppress(ConnectionRefusedError):
            await asyncio.get_running_loop().create_connection(lambda: lane, HOST, port)
            return
        await asyncio.sleep(0.01)


async def soon(condition: Callable[[], object]) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.002)


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Bridge]:
    bridge = Bridge(BridgeConfig("real", str(folder / "real"), trust_network=True, **options))
    task = asyncio.create_task(bridge.run())
    try:
        yield bridge
    finally:
        await stop(task)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        await asyncio.wait_for(test(), 2 * PATIENCE)

    asyncio.run(in_time())


def test_an_answer_for_another_lane_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        peer = Peer()

        def answer(lane: Lane, hello: Hello) -> None:
            lane.send(peer.hello("bulk", hello.connection))

        peer.on_hello = answer
        async with running(tmp_path, connect=(await peer.listen(),)) as bridge:
            await soon(lambda: peer.lost)
            assert "HELLO.lane" in peer.lost[0]
            assert bridge.status()["peers"] == []

    run(test)


def test_a_peer_with_the_id_of_another_machines_bridge_keeps_nobody_from_that(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        liar, honest, port = Peer("liar"), Peer("honest"), free_port()
        liar.bridge = honest.bridge
        address = await honest.listen()
        honest.on_hello = lambda *_: None
        async with running(tmp_path, listen=(f"{HOST}:{port}",), connect=(address,)) as bridge:
            await soon(lambda: honest.hellos)
            for lane_of_liar in (EXPRESS, BULK):
                await liar.dial(port, lane_of_liar, "connection")
            assert [peer["connected"] for peer in bridge.status()["peers"]] == [True]
            lane, hello = honest.hellos[0]
            honest.on_hello = honest.answer
            honest.answer(lane, hello)
            lane.close("it is cut")
            await soon(lambda: len(honest.hellos) >= 3)  # it connects again, with both lanes
            await soon(lambda: len(bridge.status()["peers"]) == 2)

    run(test)


def test_a_bridge_that_was_stopped_makes_no_session_of_an_answer(tmp_path: Path) -> None:
    async def test() -> None:
        peer = Peer()
        peer.on_hello = lambda *_: None  # the answer comes later
        async with running(tmp_path, connect=(await peer.listen(),)) as bridge:
            await soon(lambda: peer.hellos)
        lane, hello = peer.hellos[0]
        peer.answer(lane, hello)
        await soon(lambda: peer.lost)
        assert bridge.status()["peers"] == []

    run(test)


def test_a_bridge_that_was_stopped_makes_no_session_with_who_connects(tmp_path: Path) -> None:
    async def test() -> None:
        peer, port = Peer(), free_port()
        async with running(tmp_path, listen=(f"{HOST}:{port}",)) as bridge:
            lane = peer.lane()
            await connect(lane, port)
            await soon(lambda: bridge._pending)
        lane.send(peer.hello(EXPRESS, "connection"))
        await soon(lambda: peer.lost)
        assert bridge.status()["peers"] == []
        assert peer.hellos == []

    run(test)


def test_the_first_frames_of_a_session_that_are_sent_again_do_not_end_it(tmp_path: Path) -> None:
    async def test() -> None:
        honest, replay, port = Peer(), Peer(), free_port()
        async with running(tmp_path, listen=(f"{HOST}:{port}",)) as bridge:
            lane = await honest.dial(port, EXPRESS, "first")
            await honest.dial(port, BULK, "first")
            lane.close("it is cut")
            await soon(lambda: not bridge.status()["peers"][0]["connected"])
            (session,) = bridge._sessions.values()
            await replay.dial(port, EXPRESS, "first")
            assert "a session has begun with it" in replay.lost[0]
            assert list(bridge._sessions.values()) == [session]
            await honest.dial(port, EXPRESS, "second", known="first")
            assert honest.hellos[-1][1].known == "first"

    run(test)


def test_a_session_that_protocol_errors_cut_again_and_again_ends(tmp_path: Path) -> None:
    """Its two ends differ, as when the peer has a session of that name with someone else."""

    async def test() -> None:
        peer, port = Peer(), free_port()
        async with running(tmp_path, listen=(f"{HOST}:{port}",)) as bridge:
            for number in range(4):
                lane = await peer.dial(port, EXPRESS, f"{number}", known="0" if number else "")
                assert peer.hellos[-1][1].known == ("0" if 0 < number < 3 else "")
                await peer.dial(port, BULK, f"{number}")
                lost = len(peer.lost)
                lane.send(frames.Ended(False, 0, ""), 5)  # nobody wanted it
                await soon(lambda lost=lost: len(peer.lost) >= lost + 2)
            assert [one["connected"] for one in bridge.status()["peers"]] == [False]

    run(test)


@pytest.mark.parametrize("cut", [EXPRESS, BULK])
def test_a_peer_that_cuts_each_connection_at_once_is_dialled_with_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """It cuts either the second lane, or the first one when the second has come."""
    from tensorbus.bridge import _bridge

    monkeypatch.setattr(_bridge, "_FIRST_RETRY", 0.1)

    async def test() -> None:
        peer = Peer()

        def answer(lane: Lane, hello: Hello) -> None:
            if hello.lane == EXPRESS:
                peer.answer(lane, hello)
            elif cut == BULK:
                lane.close("there is no second lane")
            else:
                peer.answer(lane, hello)
                peer.hellos[-2][0].close("it is cut")

        peer.on_hello = answer
        begun = asyncio.get_running_loop().time()
        async with running(tmp_path, connect=(await peer.listen(),)):
            await soon(lambda: len(peer.hellos) >= 8)
        # Four connections, with pauses of 0.1, 0.2 and 0.25 seconds.
        assert asyncio.get_running_loop().time() - begun >= 0.5

    run(test)
