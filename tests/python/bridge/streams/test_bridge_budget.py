"""What a bridge spends on a peer: one that asks for too much harms nobody else."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.bridge.bridge_queues import opened
from support.bridge.bridges import Machine, appears, machines, two_machines
from support.harness import PATIENCE, eventually
from tensorbus import _core
from tensorbus._base.errors import OutOfMemory, ProtocolError
from tensorbus._base.participant import participant
from tensorbus.bridge import _budget
from tensorbus.bridge._budget import Budget, LogLines, PeerBudget, Pool, Share
from tensorbus.bridge._rules import Peer, Rules
from tensorbus.bridge._session import Session
from tensorbus.bridge._wire.frames import (
    Frame,
    Open,
    PublisherEntry,
    Publishers,
    QueueEntry,
    Queues,
)
from tensorbus.bridge._wire.lane import EXPRESS

MANY = 200  # more than a bridge with that limit mirrors
LIMIT = 128  # descriptors


@contextmanager
def at_most(machine: Machine, descriptors: int) -> Iterator[None]:
    """The bridge of the machine opens no more than so many descriptors."""
    before = resource.prlimit(machine.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, (descriptors, before[1]))
    try:
        yield
    finally:
        resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, before)


def test_what_was_made_while_no_descriptor_was_left_crosses(tmp_path: Path) -> None:
    with two_machines(tmp_path) as (here, there), ExitStack() as stack:
        with at_most(here, 3):
            stack.enter_context(tb.Publisher[Any]("new", domain=here.domain))
            queue = stack.enter_context(tb.Queue[int](name="new", domain=here.domain))
            eventually(lambda: "not looked at" in here.output)
        appears(there, "new")
        opened("new", there).put(1)
        assert queue.get(timeout=PATIENCE) == 1
        assert "Traceback" not in here.output, here.output


def test_a_connection_that_takes_the_last_descriptor_is_closed(tmp_path: Path) -> None:
    with machines(tmp_path, "here") as (here,):
        here.start("--listen", here.address)
        here.status()
        with socket.create_connection(("127.0.0.1", here.port)) as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(b"no HELLO" * 8)
            while connection.recv(4096):  # it accepts: all that it needs is open
                pass
        with at_most(here, here.descriptors() + 1), socket.socket() as connection:
            connection.settimeout(PATIENCE)
            connection.connect(("127.0.0.1", here.port))
            assert connection.recv(1) == b""
        with socket.create_connection(("127.0.0.1", here.port)) as connection:
            connection.settimeout(PATIENCE)
            assert connection.recv(1) == b""  # it has said no HELLO
        assert "Exception in callback" not in here.output


def test_connections_without_a_hello_keep_no_bridge_out(tmp_path: Path) -> None:
    with machines(tmp_path, "here", "there") as (here, there), ExitStack() as stack:
        here.start("--listen", here.address)
        here.status()
        with at_most(here, LIMIT):
            for _ in range(LIMIT):
                stack.enter_context(socket.create_connection(("127.0.0.1", here.port)))
            there.start("--connect", here.address)
            here.wait_for_peer("there")


def test_a_peer_with_many_queues_leaves_room_for_others_and_loses_none(tmp_path: Path) -> None:
    with machines(tmp_path, "here", "greedy", "other") as (here, greedy, other):
        here.start("--listen", here.address)
        here.status()
        with at_most(here, LIMIT), ExitStack() as stack:
            names = [f"q{number}" for number in range(MANY)]
            made = [tb.Queue[int](name=name, domain=greedy.domain) for name in names]
            stack.callback(lambda: [queue.close() for queue in made])
            greedy.start("--connect", here.address)
            eventually(lambda: "queues of greedy wait" in here.output)
            other.start("--connect", here.address)
            with (
                tb.Publisher[Any]("data", domain=other.domain, history=1) as publisher,
                tb.Subscriber[Any]("data", domain=here.domain, timeout=PATIENCE) as subscriber,
            ):
                publisher.publish("it crosses")
                assert subscriber.receive().data == "it crosses"
            mirrored = queues_at(here)
            assert 0 < len(mirrored) < MANY
            waits = next(name for name in names if name not in mirrored)
            for name, queue in zip(names, made, strict=True):
                if name != waits:
                    queue.close()
            opened(waits, here).put(1)
            assert made[names.index(waits)].get(timeout=PATIENCE) == 1
        assert here.output.count("wait") <= 4
        assert "Traceback" not in here.output, here.output


def queues_at(machine: Machine) -> set[str]:
    return {one.name for one in _core.list_queues(tb.participant(machine.domain))}


class FakeLane:
    """Keeps what the session sends."""

    def __init__(self) -> None:
        self.name = EXPRESS
        self.peer = Peer("here", None)
        self.clock = None
        self.writable = True
        self.sent: list[tuple[Frame, int]] = []

    def send(self, frame: Frame, stream: int = 0) -> None:
        self.sent.append((frame, stream))

    def close(self, why: str) -> None:
        pass


def hear(*frames: tuple[Frame, int]) -> PeerBudget:
    """A session hears these, and what it has spent then is returned."""

    async def run() -> PeerBudget:
        budget = PeerBudget("robot", Budget())
        session = Session(
            *("peer", "robot", Rules(), participant(), lambda: {}, {}, lambda *_: None, {}),
            budget,
        )
        lane: Any = FakeLane()
        session.connect(lane, "1", "peer")
        try:
            for frame, stream in frames:
                session.on_frame(lane, frame, stream)
            return budget
        finally:
            session.end("the test is over")

    return asyncio.run(run())


def publisher(number: int, topic: str, type: str = "") -> PublisherEntry:
    return PublisherEntry(f"{number:032x}.1", topic, "", type, 8, 0, False)


@pytest.mark.parametrize(
    "frames",
    [
        [(Publishers([publisher(1, "tensorbus/x")], [], False), 0)],
        [(Queues([QueueEntry("key", "tensorbus/x", 0, 0, False)], [], False), 0)],
        [(Open("nonsense", "", 0, 0, 0, 0), 1 << 62 | 1)],
        [
            (Publishers([publisher(1, "x")], [], False), 0),
            (Publishers([], [publisher(1, "x").key], False), 0),
        ],
    ],
    ids=["publishers that may not cross", "queues that may not cross", "channels", "what is gone"],
)
def test_nothing_is_remembered_of_what_is_of_no_use(frames: list[tuple[Frame, int]]) -> None:
    assert hear(*frames)._remembered == 0


@pytest.mark.parametrize("topic", ["x", ""], ids=["good", "refused"])
def test_a_peer_whose_names_take_too_much_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setattr(_budget, "_MAX_REMEMBERED", 1 << 20)
    entries = [publisher(number, topic, "T" * 60_000) for number in range(20)]
    with pytest.raises(ProtocolError, match="names"):
        hear((Publishers(entries, [], False), 0))


def take_all(share: Share) -> None:
    while True:
        share.take(1)


def test_each_peer_has_a_share_and_something_is_left() -> None:
    pool = Pool("things", lambda: 80)  # of which 70 are for peers
    shares = [Share(pool, f"peer {number}", lambda: None) for number in range(3)]
    for share in shares:
        with pytest.raises(OutOfMemory, match="things"):
            take_all(share)
    assert [share.taken for share in shares] == [46, 16, 5]
    shares[0].give_back(46)
    shares[2].take(10)


def test_the_lines_of_a_peer_are_bounded_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        lines = LogLines("robot")
        for number in range(1000):
            lines.warning("line %d", number)
        lines.close()

    asyncio.run(run())
    assert len(caplog.messages) < 100
    assert caplog.messages[-1] == f"robot: {1001 - len(caplog.messages)} more lines were left out"
