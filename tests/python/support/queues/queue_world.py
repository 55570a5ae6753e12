"""Two bridges with a queue between them, as a model: everything but the code of both ends is fake.

The home and the mirror do what docs/internals/protocol.md, section 7, and
docs/internals/bridge_protocol.md, section 8, say of them, as simply as possible. Everything can be
pickled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tensorbus._core import Code, Outcome

BRIDGE = -1  # the get of a program of A's machine; others are of A's bridge


@dataclass
class Sent:
    """What a message says; `item` is its sample."""

    verb: str
    arguments: tuple[Any, ...]
    item: int | None


@dataclass
class Pipe:
    """One direction of a channel."""

    under_way: deque[Sent] = field(default_factory=deque)
    sent: int = 0
    written: int | None = None  # once nothing more is; None: everything that was sent

    def send(self, verb: str, *arguments: Any, fields: bytes = b"", sample: Any = None) -> int:
        self.under_way.append(Sent(verb, arguments, getattr(sample, "item", None)))
        self.sent += 1
        return self.sent - 1

    def may_have_arrived(self, message: int) -> bool:
        return message < (self.sent if self.written is None else self.written)

    def break_off(self) -> None:
        """What is under way was not sent to its end."""
        self.written = self.sent - len(self.under_way)
        self.under_way.clear()


@dataclass
class Sample:
    item: int
    fields: bytes = b""


@dataclass
class FakeHome:
    """The queue, with one program that gets there and one bridge."""

    redeliver: bool
    maxsize: int = 0
    waiting: list[int] = field(default_factory=list)
    gets: list[int] = field(default_factory=list)  # BRIDGE: of the program here
    offered: dict[int, int] = field(default_factory=dict)  # item by get, to the bridge
    in_hand: list[int] = field(default_factory=list)  # of the bridge
    putting: list[tuple[int, int]] = field(default_factory=list)  # id, item: wait for room
    joins: list[int] = field(default_factory=list)
    taken_here: list[int] = field(default_factory=list)
    held_here: int | None = None  # with `redeliver`
    put_items: list[int] = field(default_factory=list)
    lost: int = 0
    finished: int = 0
    shut: bool = False
    answers: deque[tuple[Any, ...]] = field(default_factory=deque)  # the bridge has not heard

    def get(self, get: int, *, waits: bool) -> None:
        self.gets.append(get)
        self.settle()
        if not waits and get in self.gets:
            self.gets.remove(get)
            self.answers.append(("none", get, Outcome.TIMED_OUT))

    def cancel_get(self, get: int) -> None:
        if get in self.gets:
            self.gets.remove(get)
        if get in self.offered:
            self.waiting = sorted([*self.waiting, self.offered.pop(get)])
        self.answers = deque(one for one in self.answers if one[:2] != ("item", get))
        self.settle()

    def accept(self, get: int) -> None:
        self.in_hand.append(self.offered.pop(get))
        self.settle()

    def spoil(self, get: int) -> None:
        del self.offered[get]
        self.lost += 1
        self.settle()

    def done(self, number: int) -> None:
        self.finished += self._leaves(number)
        self.settle()

    def give_back(self, number: int) -> None:
        if self.redeliver:
            self.waiting = sorted([*self.waiting, number])
        self.lost += self._leaves(number) * (not self.redeliver)
        self.settle()

    def put(self, id: int, item: Any, *, waits: bool) -> None:
        self.putting.append((id, item.item))
        self.settle()
        if not waits and (id, item.item) in self.putting:
            self.cancel(id)

    def call(self, id: int, verb: str, number: int) -> None:
        assert verb in ("shutdown", "join")
        if verb == "shutdown":
            self.shut = True
            self.answers.append(("answer", id, Outcome.DONE))
        else:
            self.joins.append(id)
        self.settle()

    def cancel(self, id: int) -> None:
        for one in [one for one in self.putting if one[0] == id]:
            self.putting.remove(one)
            self.answers.append(("answer", id, Outcome.TIMED_OUT))
        if id in self.joins:
            self.joins.remove(id)
            self.answers.append(("answer", id, Outcome.TIMED_OUT))

    def forget(self) -> None:
        """The bridge is dead. What it was offered may be in the hand of a getter elsewhere."""
        self.gets = [get for get in self.gets if get == BRIDGE]
        held = [*self.offered.values(), *self.in_hand]
        if self.redeliver:
            self.waiting = sorted([*self.waiting, *held])
        else:
            self.lost += len(held)
        self.offered.clear()
        self.in_hand.clear()
        self.putting.clear()
        self.joins.clear()
        self.settle()

    # Gives everybody what there is.
    def settle(self) -> None:
        while self.putting and not self.shut and self._has_room():
            id, item = self.putting.pop(0)
            self.waiting.append(item)
            self.put_items.append(item)
            self.answers.append(("answer", id, Outcome.DONE))
        while self.putting and self.shut:
            self.answers.append(("answer", self.putting.pop(0)[0], Outcome.SHUT_DOWN))
        while self.waiting and self.gets:
            get, item = self.gets.pop(0), self.waiting.pop(0)
            if get == BRIDGE:
                self.taken_here.append(item)
                self.held_here = item if self.redeliver else None
                self.finished += not self.redeliver
            else:
                self.offered[get] = item
                self.answers.append(("item", get, item))
            return self.settle()
        held_elsewhere = self.held_here is not None
        if self.shut and not self.waiting and not self.offered and not held_elsewhere:
            for get in [get for get in self.gets if get != BRIDGE]:
                self.gets.remove(get)
                self.answers.append(("none", get, Outcome.SHUT_DOWN))
        if not (self.waiting or self.offered or self.in_hand or held_elsewhere):
            self.answers.extend(("answer", id, Outcome.DONE) for id in self.joins)
            self.joins.clear()

    def _has_room(self) -> bool:
        return not self.maxsize or len(self.waiting) + len(self.offered) < self.maxsize

    def _leaves(self, number: int) -> int:
        if self.redeliver:
            self.in_hand.remove(number)
            return 1
        assert number <= len(self.in_hand), "more than were accepted"
        del self.in_hand[:number]
        return number


@dataclass
class Getter:
    """A program of B that gets."""

    asks: int  # times that it still will
    state: str = "idle"  # asking, offered, holding, dead, ended
    tag: int = 0


@dataclass
class FakeMirror:
    """The mirror in the core of B, and the programs that use it."""

    redeliver: bool
    getters: list[Getter]
    waiting: list[int] = field(default_factory=list)  # tags
    asking: list[int] = field(default_factory=list)  # getters
    events: list[tuple[Any, ...]] = field(default_factory=list)
    told: int = 0  # of the gets that wait
    over: bool = False
    died: int = 0  # items, with `redeliver`
    closed: bool = False
    owed: set[int] = field(default_factory=set)  # puts and calls of programs
    answered: dict[int, list[str]] = field(default_factory=dict)
    next_id: int = 1

    # For the bridge.
    def take_events(self) -> list[tuple[Any, ...]]:
        events, self.events = self.events, []
        return events

    def offer(self, tag: int) -> None:
        self.waiting.append(tag)
        self.settle()

    def withdraw(self, tag: int) -> bool:
        if tag not in self.waiting:
            return False
        self.waiting.remove(tag)
        return True

    def surplus(self) -> list[int]:
        return [] if self.asking else sorted(self.waiting, reverse=True)

    def answer(self, id: int, outcome: Outcome, values: Any) -> None:
        self.answered.setdefault(id, []).append(outcome.name)
        self.owed.discard(id)
        self.settle()
        for getter in self.getters:
            if getter.state == "polling" and getter.tag == id:
                getter.state = "idle"
                self.asking.remove(self.getters.index(getter))

    def deny(self, id: int, code: Code, text: str) -> None:
        self.answer(id, Outcome.CLOSED, ())

    def end_gets(self, died: int) -> None:
        self.over = self.over or died == self.died or not self.redeliver
        self.settle()

    def close(self) -> None:
        self.closed = True
        for getter in self.getters:
            if getter.state in ("asking", "offered", "polling"):
                getter.state = "ended"
        self.owed.clear()
        self.events.clear()

    # For its programs.
    def ask(self, which: int, *, waits: bool) -> None:
        getter = self.getters[which]
        getter.asks -= 1
        getter.state = "asking" if waits else "polling"
        if not waits:
            getter.tag = self.request("call", "poll", 0)
        self.asking.append(which)
        self.settle()

    def request(self, kind: str, *arguments: Any) -> int:
        id = self.next_id
        self.next_id += 1
        self.owed.add(id)
        self.events.append((kind, id, *arguments))
        return id

    def give_up(self, which: int) -> None:
        """Its time is up, or it is dead: what it was offered goes to another."""
        getter = self.getters[which]
        if which in self.asking:
            self.asking.remove(which)
        elif getter.state == "offered":
            self.waiting = sorted([*self.waiting, getter.tag])
        getter.state = "idle"
        self.settle()

    def take(self, which: int) -> int:
        getter = self.getters[which]
        getter.state = "holding"
        self.events.append(("taken", getter.tag))
        self.settle()
        return getter.tag

    def finish(self, which: int, how: str) -> None:
        getter = self.getters[which]
        if not self.closed:
            self.events.append((how, getter.tag if self.redeliver else 1))
        if how == "died" and self.redeliver:
            self.died += 1
            self.over = False
        getter.state = "dead" if how == "died" else "idle"
        self.settle()

    def settle(self) -> None:
        while self.waiting and self.asking:
            getter = self.getters[self.asking.pop(0)]
            if getter.state == "polling":
                self.owed.discard(getter.tag)  # it has an item and needs no answer
            getter.state, getter.tag = "offered", self.waiting.pop(0)
        kept = any(one.state == "offered" for one in self.getters)
        kept = kept or (self.redeliver and any(one.state == "holding" for one in self.getters))
        if self.over and not self.waiting and not kept:
            for which in self.asking:
                self.getters[which].state = "ended"
            self.asking.clear()
        waits = sum(1 for which in self.asking if self.getters[which].state == "asking")
        if not self.closed and (waits != self.told or (self.waiting and not waits)):
            self.events.append(("demand", waits))
            self.told = waits
