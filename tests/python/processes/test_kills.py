"""Processes are killed at any moment, many times; the one that survives neither errs nor loses
anything. This process is the survivor. TENSORBUS_KILLS says how many there are.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter, deque
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import Elsewhere, Process, eventually
from support.victims import FORMS, VICTIMS, check, publish, serve

KILLS = int(os.environ.get("TENSORBUS_KILLS", "100"))
AT_A_TIME = 3
WARM_UP = 20  # kills after which the survivor has the memory and the connections that it needs


class Survivor:
    """Publishes to the victims and receives from them, and holds some of it for long."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._stack = ExitStack()
        enter = self._stack.enter_context
        self.down = enter(tb.Publisher("down", history=2))
        self.reliable = enter(tb.Publisher("down/reliable", reliable=True, depth=4, timeout=0.02))
        self.shared = enter(tb.Publisher("down/shared", shared=True))
        self.up = enter(tb.Subscriber("up"))
        self.publishers = (self.down, self.reliable, self.shared)
        self._held: deque[tb.Sample] = deque(maxlen=100)
        self.counts: Counter[str] = Counter()
        # Some victims send what is ours back: the connection to ourselves, once made, stays.
        with tb.share(np.zeros(1)) as own:
            tb.attach(own.handle)

    def work(self) -> None:
        number = self.counts["published"] = self.counts["published"] + 1
        publish(self.down, self._chance.choice(FORMS), number)
        publish(self.shared, "torch loan", number)
        try:
            publish(self.reliable, self._chance.choice(FORMS), number)
        except tb.Timeout:
            self.counts["without room"] += 1
        for sample in itertools.islice(iter(self.up.try_receive, None), 20):
            check(sample)
            self.counts["received"] += 1
            if self._chance.random() < 0.1:
                self._held.append(sample)
        if self._held:
            check(self._chance.choice(self._held))

    def let_go(self) -> None:
        """Everything that is still there of the victims."""
        for sample in self._held:
            check(sample)
        self._held.clear()
        for sample in iter(self.up.try_receive, None):
            check(sample)

    def rests(self) -> bool:
        self.let_go()
        counters = [publisher.stats for publisher in self.publishers]
        return self.up.stats["publishers"] == self.up.stats["held"] == 0 and not any(
            stats["subscribers"] for stats in counters
        )

    def close(self) -> None:
        self._stack.close()


def mappings() -> int:
    """Of the bus's memory."""
    return Path("/proc/self/maps").read_text().count("memfd:tensorbus")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Victims:
    def __init__(self, server: Process, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self._living: list[tuple[int, str]] = []
        self.killed: Counter[str] = Counter()

    def _ask(self, command: str, argument: object) -> Any:
        self._server.tell((command, argument))
        return self._server.hear()

    def start(self) -> None:
        kind = self._chance.randrange(len(VICTIMS))
        pid = self._ask("fork", (kind, self._chance.randrange(10**6)))
        self._living.append((pid, VICTIMS[kind].__name__))

    def kill_one(self) -> None:
        pid, name = self._living.pop(self._chance.randrange(len(self._living)))
        code = self._ask("kill", pid)
        assert code == -signal.SIGKILL, f"{name} ended by itself\n{self._server.errors()}"
        self.killed[name] += 1

    def __len__(self) -> int:
        return len(self._living)


@pytest.mark.timeout(120 + KILLS)
def test_a_survivor_of_many_kills_errs_in_nothing_and_loses_nothing(
    elsewhere: Elsewhere, torch: ModuleType, domain: str
) -> None:
    chance = random.Random(KILLS)
    server = elsewhere.start(serve)
    assert server.hear() == "ready"
    victims = Victims(server, chance)
    survivor = Survivor(chance)
    began = time.monotonic()

    def kill(count: int) -> None:
        for _ in range(count):
            while len(victims) < AT_A_TIME:
                victims.start()
            until = time.monotonic() + chance.choice([0, 0.003, 0.03, 0.06]) * chance.random()
            while time.monotonic() < until:
                survivor.work()
            victims.kill_one()
        while len(victims):
            victims.kill_one()

    def settled() -> tuple[int, int]:
        eventually(survivor.rests)
        return descriptors(), mappings()

    kill(WARM_UP)
    first = settled()
    kill(KILLS - WARM_UP)
    last = settled()

    stats = [publisher.stats for publisher in survivor.publishers]
    print(
        f"\n{sum(victims.killed.values())} kills in {time.monotonic() - began:.1f} s: "
        f"{dict(victims.killed)}, {dict(survivor.counts)}, {survivor.up.stats}, {stats}"
    )
    assert survivor.up.stats["bad"] == 0
    assert all(counters["bad_returns"] == 0 for counters in stats)
    assert last[0] <= first[0]
    assert last[1] <= first[1]
    # What remains is the history of the one that has one.
    assert [counters["bytes_in_flight"] == 0 for counters in stats[1:]] == [True, True]
    survivor.close()
    assert all(publisher.stats["bytes_in_flight"] == 0 for publisher in survivor.publishers)
    # What victims sent back is returned by message.
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)
