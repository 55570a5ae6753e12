"""Every order of what can happen to a stream between two bridges, on the code of both ends."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

import tensorbus as tb
from tensorbus.bridge._streams.stream import (
    Incoming,
    Limits,
    ReceivingStream,
    SendingStream,
)

# A sample is its number of chunks; one of more than one chunk goes on the bulk lane, and so does
# all that comes after it.
Samples = tuple[int, ...]


@dataclass
class World:
    """Two bridges, the lanes between them, a publisher at one end, and what came at the other."""

    to_publish: deque[tuple[int, int]]  # sequence, chunks
    cuts: int
    reliable: bool
    window: int
    most_cost: int
    ring: deque[tuple[int, int]] = field(default_factory=deque)
    sender: SendingStream[int] | None = None
    receiver: ReceivingStream[int] = field(default_factory=ReceivingStream)
    bulk: bool = False
    sending: tuple[int, int] | None = None  # index, chunks that are left
    lanes: dict[str, deque[tuple[str, int, int, int]]] = field(
        default_factory=lambda: {"express": deque(), "bulk": deque()}
    )
    told: deque[tuple[str, Limits]] = field(default_factory=deque)
    connected: bool = False
    waiting: deque[int] = field(default_factory=deque)  # received, to be published
    published: list[int] = field(default_factory=list)

    # Each of the following is one thing that may happen now; it returns whether it can.
    def publish(self) -> bool:
        if not self.to_publish:
            return False
        if self.reliable and len(self.ring) == 2:
            return False
        self.ring.append(self.to_publish.popleft())
        if len(self.ring) > 2:
            self.ring.popleft()
        return True

    def take(self) -> bool:
        if self.sender is None or not self.ring or not self.sender.may_take():
            return False
        sequence, chunks = self.ring.popleft()
        self.sender.take(sequence, chunks, chunks)
        return True

    def begin(self) -> bool:
        if not self.connected or self.sender is None or self.sending is not None:
            return False
        item = self.sender.next_to_send()
        if item is None:
            return False
        self.bulk = self.bulk or item.payload > 1
        self.lanes[self.lane()].append(("begin", item.index, item.sequence, item.payload))
        self.sending = (item.index, item.payload)
        self.sender.mark_sent()
        return True

    def chunk(self) -> bool:
        if not self.connected or self.sending is None:
            return False
        index, left = self.sending
        self.lanes[self.lane()].append(("chunk", index, 0, 0))
        self.sending = (index, left - 1) if left > 1 else None
        return True

    def lane(self) -> str:
        return "bulk" if self.bulk else "express"

    def deliver_express(self) -> bool:
        return self.deliver("express")

    def deliver_bulk(self) -> bool:
        return self.deliver("bulk")

    def deliver(self, lane: str) -> bool:
        if not self.lanes[lane]:
            return False
        kind, index, sequence, chunks = self.lanes[lane].popleft()
        if kind == "begin":
            self.receiver.begin(lane, Incoming(index, sequence, chunks, chunks, chunks))
        else:
            self.waiting.extend(sample.sequence for sample in self.receiver.add(lane, 1))
        return True

    def show(self) -> bool:
        """The mirror publishes what waits."""
        if not self.waiting:
            return False
        self.published.append(self.waiting.popleft())
        self.receiver.mark_published()
        return True

    def tell(self) -> bool:
        if not self.connected or self.sender is None:
            return False
        before = self.receiver._said
        said = self.receiver.limits()
        if said == before:
            return False
        self.told.append(("credit", said))
        return True

    def hear(self) -> bool:
        if not self.told:
            return False
        kind, limits = self.told.popleft()
        if kind == "credit":
            assert self.sender is not None
            self.sender.credit(limits)
        elif self.sender is None:
            self.sender = SendingStream(limits)
        else:
            self.sender.resume(limits)
        return True

    def cut(self) -> bool:
        if not self.connected or self.cuts == 0:
            return False
        self.cuts -= 1
        self.connected = False
        self.told.clear()
        for lane in self.lanes.values():
            lane.clear()
        self.sending = None
        if self.sender is not None:
            self.sender.lose_connection()
        self.receiver.lose_lanes()
        return True

    def connect(self) -> bool:
        if self.connected:
            return False
        self.connected = True
        self.told.append(("want", self.receiver.limits()))
        return True

    def steps(self) -> Iterator[Callable[[World], bool]]:
        yield from (World.publish, World.take, World.begin, World.chunk, World.deliver_express)
        yield from (World.deliver_bulk, World.show, World.tell, World.hear, World.cut)
        yield World.connect

    def check(self) -> None:
        assert self.published == sorted(set(self.published)), "twice, or out of order"
        if self.reliable:
            assert self.published == list(range(len(self.published))), "one was left out"
        if self.sender is not None:
            held = sum(self.receiver._received)
            held += sum(sample.cost for sample in self.receiver._all())
            assert held <= max(self.window, self.most_cost), "beyond what was granted"


def explore(first: World) -> tuple[int, int]:
    """All that can be reached; how many states, and how many of them nothing leads out of."""
    start = pickle.dumps(first)
    known = {start}
    to_do = [start]
    ends = 0
    while to_do:
        state = to_do.pop()
        world: World = pickle.loads(state)
        stuck = True
        for step in world.steps():
            other: World = pickle.loads(state)
            if not step(other):
                continue
            stuck = False
            other.check()
            if (after := pickle.dumps(other)) not in known:
                known.add(after)
                to_do.append(after)
        if stuck:
            ends += 1
            assert world.connected
            assert not world.to_publish
            assert not world.ring
            assert world.sender is not None
            assert world.sender.unsettled == 0, "a lease is never given back"
            assert world.published[-1:] == [world.receiver.next - 1]
            if world.reliable:
                assert world.published == list(range(world.receiver.next))
    return len(known), ends


def world(samples: Samples, *, reliable: bool, cuts: int = 2, window: int = 2) -> World:
    return World(
        deque(enumerate(samples)),
        cuts=cuts,
        reliable=reliable,
        window=window,
        most_cost=max(samples),
        receiver=ReceivingStream(window=window),
    )


@pytest.mark.parametrize("reliable", [False, True])
@pytest.mark.parametrize("samples", [(1, 1, 1), (1, 2, 1), (2, 2), (2, 1, 1, 1)])
def test_every_order_delivers_each_sample_once_and_in_order(
    reliable: bool, samples: Samples
) -> None:
    states, ends = explore(world(samples, reliable=reliable))
    assert states > 100
    assert ends > 0


def does_not_stop_at_a_cut(_: SendingStream[int]) -> None:
    pass


def sends_on_after_a_cut(self: SendingStream[int], limits: Limits) -> None:
    self.credit(limits)
    self._connected = True


def settles_nothing(self: SendingStream[int], limits: Limits) -> None:
    self.limits = limits


def keeps_what_was_under_way(_: ReceivingStream[int]) -> None:
    pass


def knows_no_limit(_: SendingStream[int], __: int, ___: int) -> bool:
    return True


@pytest.mark.parametrize(
    ("end", "name", "mistake"),
    [
        (SendingStream, "lose_connection", does_not_stop_at_a_cut),
        (SendingStream, "resume", sends_on_after_a_cut),
        (SendingStream, "credit", settles_nothing),
        (SendingStream, "_is_allowed", knows_no_limit),
        (ReceivingStream, "lose_lanes", keeps_what_was_under_way),
    ],
)
def test_a_planted_mistake_is_found(
    end: type, name: str, mistake: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end, name, mistake)
    with pytest.raises((AssertionError, tb.ProtocolError)):
        explore(world((1, 2, 1), reliable=True))
