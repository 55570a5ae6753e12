"""Every order of what can happen to a queue between two machines, on the code of both bridges."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

import tensorbus as tb
from support.queues.queue_world import BRIDGE, FakeHome, FakeMirror, Getter, Pipe, Sample
from tensorbus.bridge._queues.export import QueueExport
from tensorbus.bridge._queues.mirror import QueueMirror

Step = tuple[Any, ...]  # the name of a method of World, and its arguments


@dataclass
class World:
    """Programs, a home and a mirror, and between them the code of both bridges.

    The numbers say how often what need not happen may happen.
    """

    redeliver: bool
    items: int  # that wait at home
    asks: tuple[int, ...]  # of each getter of B
    asks_here: int = 0  # of the program of A
    polls: int = 0
    puts: int = 0  # of programs of B
    maxsize: int = 0
    gives_up: int = 0
    deaths: int = 0
    stopped: bool = False  # the first getter of B, when it would take
    cancels: int = 0
    shuts: bool = False
    joins: int = 0
    ends: bool = False
    kills: bool = False  # A's bridge
    over_at_a: bool = False
    over_at_b: bool = False
    got: list[tuple[int, int]] = field(default_factory=list)  # item, getter of B

    def __post_init__(self) -> None:
        self.home = FakeHome(self.redeliver, self.maxsize, list(range(self.items)))
        self.mirror = FakeMirror(self.redeliver, [Getter(asks) for asks in self.asks])
        self.to_a, self.to_b = Pipe(), Pipe()
        self.export = QueueExport(self.home, self.to_b, "jobs", redeliver=self.redeliver)
        self.image = QueueMirror(self.mirror, self.to_a)
        self.next_item = self.items
        self.tags: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.must_look = False

    def steps(self) -> list[Step]:
        """What may happen now."""
        steps: list[Step] = []
        mirror = self.mirror
        if self.to_a.under_way and not self.over_at_a:
            steps.append(("deliver_to_a",))
        if self.to_b.under_way and not self.over_at_b:
            steps.append(("deliver_to_b",))
        if self.home.answers and not self.over_at_a:
            steps.append(("hear_home",))
        if (mirror.events or self.must_look) and not self.over_at_b:
            steps.append(("look",))
        if self.asks_here and BRIDGE not in self.home.gets:
            steps.append(("ask_here",))
        if self.home.held_here is not None:
            steps.append(("finish_here",))
        for which, getter in enumerate(mirror.getters):
            steps += self.steps_of(which, getter)
        if not self.over_at_b:
            if self.puts:
                steps.append(("put",))
            if self.shuts:
                steps.append(("shut_down",))
            if self.joins:
                steps.append(("join",))
            if self.cancels:
                steps += [("cancel", id) for id in sorted(mirror.owed)]
        if self.ends and not self.over_at_a:
            steps += [("end_at_a", True), ("end_at_a", False)]
        if self.ends and not self.over_at_b:
            steps.append(("end_at_b",))
        if self.kills and not self.over_at_a:
            steps.append(("kill_a",))
        return steps

    def steps_of(self, which: int, getter: Getter) -> list[Step]:
        steps: list[Step] = []
        if getter.state == "idle" and getter.asks and not self.over_at_b:
            steps.append(("ask", which, True))
            if self.polls:
                steps.append(("ask", which, False))
        if getter.state in ("asking", "offered") and self.gives_up and not self.over_at_b:
            steps.append(("give_up", which))
        if getter.state == "offered" and not (self.stopped and which == 0):
            steps.append(("take", which))
        if getter.state == "holding":
            steps.append(("finish", which, "done"))
            if self.deaths:
                steps.append(("finish", which, "died"))
        return steps

    # The bridges.
    def deliver_to_a(self) -> None:
        said = self.to_a.under_way.popleft()
        export = self.export
        if said.verb == "put":
            id, waits = said.arguments
            assert said.item is not None
            export.on_put(id, Sample(said.item), waits=bool(waits))
        elif said.verb == "call":
            export.on_call(*said.arguments)
        else:
            getattr(export, f"on_{said.verb}")(*said.arguments)

    def deliver_to_b(self) -> None:
        said = self.to_b.under_way.popleft()
        if said.verb == "item":
            assert said.item is not None
            (tag,) = said.arguments
            self.tags[tag] = said.item
            self.image.on_item(tag)
            self.mirror.offer(tag)
            self.image.offered(tag)
            self.must_look = True
        elif said.verb == "answer":
            id, outcome, *_ = said.arguments
            self.image.on_answer(id, outcome, (0, 0, 0, 0))
        else:
            getattr(self.image, f"on_{said.verb}")(*said.arguments)

    def hear_home(self) -> None:
        kind, which, what = self.home.answers.popleft()
        if kind == "item":
            self.export.on_item(which, Sample(what), b"", what)
        elif kind == "none":
            self.export.on_no_item(which, what)
        else:
            self.export.on_answer(which, what, (0, 0, 0, 0))

    def look(self) -> None:
        self.must_look = False
        self.image.look()

    def end_at_a(self, all_written: bool) -> None:
        if not all_written:
            self.to_b.break_off()
        self.over_at_a = True
        self.export.end()
        self.home.answers.clear()
        self.to_a.under_way.clear()

    def kill_a(self) -> None:
        """What it had sent still arrives."""
        self.over_at_a = True
        self.ends = True
        self.home.forget()
        self.home.answers.clear()
        self.to_a.under_way.clear()

    def end_at_b(self) -> None:
        self.over_at_b = True
        self.mirror.close()
        self.to_b.under_way.clear()

    # Programs.
    def ask_here(self) -> None:
        self.asks_here -= 1
        self.home.get(BRIDGE, waits=True)

    def finish_here(self) -> None:
        self.home.held_here = None
        self.home.finished += 1
        self.home.settle()

    def ask(self, which: int, waits: bool) -> None:
        self.polls -= not waits
        self.mirror.ask(which, waits=waits)

    def give_up(self, which: int) -> None:
        self.gives_up -= 1
        self.mirror.give_up(which)

    def take(self, which: int) -> None:
        self.got.append((self.tags[self.mirror.take(which)], which))

    def finish(self, which: int, how: str) -> None:
        self.deaths -= how == "died"
        self.mirror.finish(which, how)

    def put(self) -> None:
        self.puts -= 1
        self.mirror.request("put", Sample(self.next_item), True)
        self.next_item += 1

    def shut_down(self) -> None:
        self.shuts = False
        self.mirror.request("call", "shutdown", 0)

    def join(self) -> None:
        self.joins -= 1
        self.mirror.request("call", "join", 0)

    def cancel(self, id: int) -> None:
        self.cancels -= 1
        self.cancelled.add(id)
        self.mirror.events.append(("cancel", id))

    # What holds always.
    def check(self) -> None:
        home = self.home
        twice = [id for id, answers in self.mirror.answered.items() if len(answers) > 1]
        assert not twice, "a put or call was answered twice"
        times = Counter(item for item, _ in self.got)
        times.update(home.taken_here)
        if not self.redeliver:
            assert all(count == 1 for count in times.values()), "an item went to two getters"
            there = {*home.waiting, *home.offered.values()} if self.over_at_a else {*home.waiting}
            assert not there & set(times), "an item is offered again"
        if not self.over_at_a:
            held = [self.tags[one.tag] for one in self.mirror.getters if one.state == "holding"]
            held += [home.held_here] * (home.held_here is not None)
            assert len(held) == len(set(held)), "an item is in two hands"
            assert not {*held} & {*home.waiting}, "an item is in a hand, and waits"

    # What holds when nothing more can happen.
    def check_end(self) -> None:
        home, mirror = self.home, self.mirror
        if self.over_at_a:
            assert not [get for get in home.gets if get != BRIDGE], "A's bridge still waits"
            assert not home.offered, "an item is offered to nobody"
            assert not home.in_hand, "an item is in the hand of nobody"
            assert not home.putting, "a put waits for nobody"
            total = len(home.waiting) + home.lost + home.finished
            assert total == self.items + len(home.put_items), "an item is gone, and not counted"
        if self.over_at_b:
            assert not mirror.owed
        if self.over_at_a or self.over_at_b:
            return
        asking = [one for one in mirror.getters if one.state in ("asking", "polling")]
        if asking:
            assert not home.waiting, "a getter and an item wait for each other"
            assert not (home.shut and not home.in_hand), "a getter was not told of the end"
        offers = [one for one in mirror.getters if one.state == "offered"]
        assert len(home.offered) == len(offers), "an item waits at B, and nobody there does"
        assert not home.in_hand, "an item is held for nobody"
        full = bool(home.maxsize) and len(home.waiting) >= home.maxsize
        assert not mirror.owed or (full and home.putting), "a put or call is owed an answer"
        assert not mirror.owed & self.cancelled, "what was given up is owed an answer"
        assert full or len(mirror.answered) == mirror.next_id - 1
        total = len(home.waiting) + len(home.offered) + home.lost + home.finished
        assert total == self.items + len(home.put_items), "an item is gone"
        ended = [one for one in mirror.getters if one.state == "ended"]
        assert not (ended and home.waiting), "a getter was told of an end, and it was none"


def explore(first: World, most: int = 200_000) -> tuple[int, int]:
    """All that can be reached; how many states, and how many of them nothing leads out of."""
    start = pickle.dumps(first)
    known = {start}
    to_do = [start]
    ends = 0
    while to_do:
        state = to_do.pop()
        steps = pickle.loads(state).steps()
        for name, *arguments in steps:
            world: World = pickle.loads(state)
            getattr(world, name)(*arguments)
            world.check()
            after = pickle.dumps(world)
            if after not in known:
                known.add(after)
                to_do.append(after)
                assert len(known) < most
        if not steps:
            ends += 1
            pickle.loads(state).check_end()
    return len(known), ends


CASES: dict[str, dict[str, Any]] = {
    "two getters here and one at home": {"items": 2, "asks": (1, 1), "asks_here": 1},
    "a getter that gives up": {"items": 1, "asks": (2, 1), "gives_up": 1},
    "and another that does not": {"items": 2, "asks": (1, 1), "gives_up": 1},
    "one that is stopped": {"items": 2, "asks": (1, 1), "stopped": True},
    "getters that die": {"items": 2, "asks": (1, 1), "deaths": 1},
    "and one that comes back": {"items": 1, "asks": (2, 1), "deaths": 1},
    "gets that do not wait": {"items": 1, "asks": (2, 1), "polls": 2},
    "puts that are given up": {"items": 0, "asks": (1,), "puts": 3, "maxsize": 1, "cancels": 1},
    "a queue that is shut down": {"items": 1, "asks": (1, 2), "shuts": True, "deaths": 1},
    "calls that wait": {"items": 1, "asks": (1,), "joins": 2, "cancels": 1},
    "a session that ends": {"items": 1, "asks": (1, 1), "asks_here": 1, "ends": True},
    "with two items": {"items": 2, "asks": (2,), "ends": True},
    "with deaths": {"items": 1, "asks": (2,), "deaths": 1, "ends": True},
    "a bridge that is killed": {"items": 2, "asks": (1, 1), "asks_here": 1, "kills": True},
    "and others that die": {"items": 1, "asks": (2,), "deaths": 1, "kills": True},
    "a session that ends, and puts": {
        "items": 0,
        "asks": (1,),
        "puts": 2,
        "maxsize": 1,
        "ends": True,
    },
}


@pytest.mark.timeout(600)  # it only computes
@pytest.mark.parametrize("redeliver", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_order_gives_each_item_to_one_getter(case: str, redeliver: bool) -> None:
    states, ends = explore(World(redeliver, **CASES[case]))
    assert states > 50
    assert ends > 0


def does_nothing(*_: object) -> None:
    pass


def takes_it_back_though_it_was_sent(self: QueueExport) -> None:
    for item in self._items.values():
        self._home.cancel_get(item.get)
    self._items.clear()
    end(self)


end = QueueExport.end


def keeps_what_is_in_hand(self: QueueExport) -> None:
    self._in_hand.clear()
    self._count_in_hand = 0
    end(self)


def asks_and_gives_back_then(self: QueueExport, tag: int) -> None:
    self._come_back += 1
    self._over = False
    self._ask()
    self._home.give_back(self._leaves_hand(tag))


def ends_though_an_item_comes_back(self: FakeMirror, _: int) -> None:
    self.over = True
    self.settle()


def forgets_what_it_has_seen(self: QueueExport, count: int, _: int) -> None:
    self._demand = count
    self._ask()


def offers_again_what_it_was_offered(self: FakeHome) -> None:
    self.waiting = sorted([*self.waiting, *self.offered.values()])
    self.offered.clear()
    forget(self)


forget = FakeHome.forget


def tells_what_waits(self: QueueMirror) -> None:
    if self._told[0] != self._demand:
        self._told = (self._demand, self._seen)
        self._peer.send("demand", *self._told)


@pytest.mark.parametrize(
    ("end", "name", "mistake", "case", "redeliver"),
    [
        (QueueExport, "on_refused", does_nothing, "a getter that gives up", False),
        (QueueExport, "on_cancel", does_nothing, "puts that are given up", False),
        (QueueExport, "end", does_nothing, "a session that ends", True),
        (QueueExport, "end", takes_it_back_though_it_was_sent, "a session that ends", False),
        (QueueExport, "end", keeps_what_is_in_hand, "a session that ends", True),
        (QueueExport, "on_died", asks_and_gives_back_then, "a queue that is shut down", True),
        (QueueExport, "on_demand", forgets_what_it_has_seen, "one that is stopped", False),
        (FakeMirror, "end_gets", ends_though_an_item_comes_back, "a queue that is shut down", True),
        (FakeHome, "forget", offers_again_what_it_was_offered, "a bridge that is killed", False),
        (QueueMirror, "_tell_demand", tells_what_waits, "one that is stopped", False),
    ],
)
def test_a_planted_mistake_is_found(
    end: type,
    name: str,
    mistake: object,
    case: str,
    redeliver: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(end, name, mistake)
    with pytest.raises((AssertionError, tb.ProtocolError)):
        explore(World(redeliver, **CASES[case]))
