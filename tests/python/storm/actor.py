"""A process of the storm: the calls of one step each, with an intent before and an outcome after.

The content of every tensor is its item's pattern, checked when it comes and again before it is let
go.
"""

from __future__ import annotations

import queue
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tensorbus as tb
from storm.records import DONE, EMPTY, FULL, GET, INTENT, OK, PUT, UNKNOWN, Recorder

# Seconds that a step waits at most: when a round ends, all are soon done with their last one.
LONG, SHORT, IMPATIENT = 0.2, 0.01, 0.0006
ITEM_BITS = 24  # an item's number is its producer's, and its own


@dataclass
class Stage:
    """Where it happens: known before the first victim, inherited by all."""

    addresses: Mapping[str, str]  # of the queues
    files: list[Path]  # each full of its place in this list


@dataclass
class Actor:
    serial: int
    stage: Stage
    recorder: Recorder
    chance: random.Random
    queues: dict[str, tb.Queue] = field(default_factory=dict)
    held: deque[Any] = field(default_factory=lambda: deque(maxlen=6))
    shares: deque[tb.Shared] = field(default_factory=lambda: deque(maxlen=4))
    clients: dict[str, tb.Client] = field(default_factory=dict)
    made: int = 0

    def queue(self, name: str) -> tb.Queue:
        if name not in self.queues:
            self.queues[name] = tb.Queue.open(self.stage.addresses[name])
        return self.queues[name]

    def any_queue(self) -> str:
        return self.chance.choice(list(self.stage.addresses))

    def number(self) -> int:
        self.made += 1
        return (self.serial << ITEM_BITS) + self.made

    def check(self, content: Any, where: str) -> None:
        data, pattern, number = content["data"], content["pattern"], content["number"]
        if not all((each == pattern).all() for each in data):
            found = [np.unique(each)[:4].tolist() for each in data]
            self.recorder.wrong(f"torn: {number:#x} has {found} for {pattern:#x}", where, number)

    def hold(self, content: Any, where: str) -> None:
        """For a while: the oldest is looked at again, and let go."""
        self.held.append((content, where))
        if self.chance.random() < 0.5:
            self.check(*self.held.popleft())

    def let_go(self) -> None:
        while self.held:
            self.check(*self.held.popleft())
        for share in self.shares:
            share.close()
        self.shares.clear()

    # Steps of one call each.

    def put(self, name: str, content: dict[str, Any], timeout: float) -> None:
        number = content["number"] = self.number()
        self.recorder.write(PUT, INTENT, name, number)
        outcome = OK
        try:
            self.queue(name).put(content, timeout=timeout)
        except queue.Full:
            outcome = FULL
        except tb.Timeout:
            outcome = UNKNOWN
        self.recorder.write(PUT, outcome, name, number)

    def get(self, name: str, timeout: float) -> Any:
        self.recorder.write(GET, INTENT, name)
        try:
            content = self.queue(name).get(timeout=timeout)
        except queue.Empty:
            self.recorder.write(GET, EMPTY, name)
            return None
        return self.got(name, content)

    def got(self, name: str, content: Any) -> Any:
        self.recorder.write(GET, OK, name, content["number"])
        self.check(content, name)
        return content

    def done(self, name: str, content: Any) -> None:
        number = content["number"]
        self.recorder.write(DONE, INTENT, name, number)
        outcome = OK
        try:
            self.queue(name).task_done()
        except tb.Timeout:
            outcome = UNKNOWN
        except ValueError as error:
            self.recorder.wrong(f"in hand, but {error}", name, number)
            outcome = UNKNOWN
        self.recorder.write(DONE, outcome, name, number)

    def patience(self) -> float:
        return self.chance.random() * self.chance.choice([0, IMPATIENT, SHORT, LONG])


def make_content(actor: Actor) -> dict[str, Any]:
    """A message that is full of one number."""
    pattern = actor.number()
    form = actor.chance.choice(["small", "page", "large", "own", "several", "file", "none"])
    if form == "file":
        place = actor.chance.randrange(len(actor.stage.files))
        data = [tb.map_file(str(actor.stage.files[place]))]
        return {"pattern": place, "data": data, "fresh": True}
    if form == "own":
        own = tb.empty((3000,), "int64")
        own[:] = pattern
        return {"pattern": pattern, "data": [own], "fresh": True}
    sizes = {"small": [7], "page": [600], "large": [40_000], "several": [5, 700, 3], "none": []}
    data = [np.full(size, pattern) for size in sizes[form]]
    return {"pattern": pattern, "data": data, "fresh": True}
