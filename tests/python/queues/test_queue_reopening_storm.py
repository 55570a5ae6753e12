"""Producers and consumers with `reopen=True`, while the queue's server is killed again and again.

Each process writes a ledger. An item may be lost only with a queue that was killed, and may arrive
twice only if a server was killed during its put.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, eventually, hear, tell

NAME = "storm"
KILLS = 100
QUIET = 10  # the traffic pauses before each tenth kill


def serve(redeliver: bool) -> None:
    """Forks a server for the queue each time that it is told to, and then kills it."""
    life, end_of_life = os.pipe()  # a server ends with this process, too
    while hear():
        server = os.fork()
        if server == 0:
            os.close(end_of_life)
            with tb.Queue(name=NAME, maxsize=8, redeliver=redeliver):
                tell("ready")
                os.read(life, 1)
            os._exit(0)
        hear()
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        tell("killed")


class Orders:
    """What the test says to a producer, heard by a thread."""

    def __init__(self) -> None:
        self._told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            self._told.put(hear())

    def go_on(self) -> bool:
        """Pauses when it is told; False at the end."""
        try:
            order = self._told.get_nowait()
        except queue.Empty:
            return True
        if order == "pause":
            tell("paused")
            order = self._told.get()
        return bool(order == "go")


def produce(who: int, ledger: str) -> None:
    """Puts items until it is told to end: (who, number), some with an array."""
    jobs = tb.Queue.open(NAME, reopen=True)
    orders, number, count = Orders(), 0, 1
    with open(ledger, "w", buffering=1) as file:
        while orders.go_on():
            if count:  # else the last put was in vain: its item may be in a queue that has ended
                began = time.monotonic_ns()
            count = put_some(jobs, who, number)
            ended = time.monotonic_ns()
            for each in range(number, number + count):
                file.write(f"{each} {began} {ended}\n")
            number += count


def put_some(jobs: tb.Queue[Any], who: int, number: int) -> int:
    match number % 5:
        case 0:
            jobs.put((who, number, np.full(50_000, number)))
        case 1:
            asyncio.run(jobs.put_async((who, number, np.full(100, number))))
        case 2:
            return jobs.put_many([(who, number), (who, number + 1, np.full(10, number + 1))])
        case _:
            try:
                jobs.put((who, number), timeout=0.02)
            except queue.Full:
                return 0
    return 1


def consume(how: str, ledger: str) -> None:
    """Gets items until this object shuts the queue down."""
    jobs = tb.Queue.open(NAME, reopen=True)

    def end() -> None:
        hear()
        jobs.shutdown()

    threading.Thread(target=end, daemon=True).start()
    with open(ledger, "w", buffering=1) as file:

        def note(item: Any) -> None:
            who, number, *arrays = item
            assert all((array == number).all() for array in arrays)
            file.write(f"{who} {number} {time.monotonic_ns()}\n")
            jobs.task_done()

        async def consume_async() -> None:
            async for item in jobs:
                note(item)

        if how == "async":
            asyncio.run(consume_async())
        elif how == "iteration":
            for item in jobs:
                note(item)
        else:
            consume_with_timeouts(jobs, note)


def consume_with_timeouts(jobs: tb.Queue[Any], note: Any) -> None:
    while True:
        try:
            for item in jobs.get_many(3, timeout=0.02):
                note(item)
        except queue.Empty:
            continue
        except tb.ShutDown:
            return


@dataclass(frozen=True)
class Span:
    """From one moment to another, on the monotonic clock."""

    began: int
    ended: int

    def overlaps(self, other: Span) -> bool:
        return self.began <= other.ended and other.began <= self.ended


class Ledgers:
    """What the processes have written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def puts(self) -> dict[tuple[int, int], Span]:
        found = {}
        for path in self.folder.glob("put-*"):
            for line in complete_lines(path):
                number, began, ended = map(int, line.split())
                found[int(path.name[4:]), number] = Span(began, ended)
        return found

    def arrivals(self) -> Counter[tuple[int, int]]:
        lines = (line for path in self.folder.glob("got-*") for line in complete_lines(path))
        parts = (line.split() for line in lines)
        return Counter((int(who), int(number)) for who, number, _ in parts)


def complete_lines(path: Path) -> list[str]:
    text = path.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


def wrong_in(ledgers: Ledgers, kills: list[Span], since: int) -> list[str]:
    """What contradicts the promises; no put that began after `since` may be missing."""
    arrivals, puts = ledgers.arrivals(), ledgers.puts()
    twice = [
        f"{item} came {count} times"
        for item, count in arrivals.items()
        if item in puts and count > 1 + sum(map(puts[item].overlaps, kills))
    ]
    return twice + [
        f"{item} was lost" for item, put in puts.items() if put.began > since and not arrivals[item]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("redeliver", [False, True])
def test_a_server_is_killed_a_hundred_times(
    elsewhere: Elsewhere, tmp_path: Path, redeliver: bool
) -> None:
    moments = random.Random(redeliver)
    ledgers = Ledgers(tmp_path / "ledgers")
    ledgers.folder.mkdir()
    producers = [
        elsewhere.start(produce, who, str(ledgers.folder / f"put-{who}")) for who in range(3)
    ]
    consumers = [
        elsewhere.start(consume, how, str(ledgers.folder / f"got-{how}"))
        for how in ("iteration", "timeouts", "async")
    ]
    servers = elsewhere.start(serve, redeliver)
    kills: list[Span] = []
    for life in range(KILLS + 1):
        servers.tell("start")
        assert servers.hear() == "ready"
        since = time.monotonic_ns()
        before = sum(ledgers.arrivals().values())
        eventually(lambda: sum(ledgers.arrivals().values()) > before)  # noqa: B023
        if life % QUIET == 0:
            check_in_quiet(producers, ledgers, kills, since)
        if life < KILLS:
            time.sleep(moments.uniform(0, 0.02))  # at any moment
            began = time.monotonic_ns()
            servers.tell("kill")
            assert servers.hear() == "killed"
            kills.append(Span(began, time.monotonic_ns()))
    for each in producers:
        each.tell("end")
        each.finish()
    for each in consumers:
        each.tell("end")
    for each in consumers:
        each.finish()
    assert wrong_in(ledgers, kills, since) == []
    assert len(ledgers.arrivals()) > KILLS
    servers.tell("kill")
    assert servers.hear() == "killed"


def check_in_quiet(
    producers: list[Process], ledgers: Ledgers, kills: list[Span], since: int
) -> None:
    """Lets the consumers take what waits, and finish it, while nothing is put."""
    pause(producers)
    jobs = tb.Queue.open(NAME, timeout=PATIENCE)
    eventually(lambda: jobs.stats.unfinished == 0)
    assert wrong_in(ledgers, kills, since) == []
    for producer in producers:
        producer.tell("go")


def pause(producers: list[Process]) -> None:
    for producer in producers:
        producer.tell("pause")
    for producer in producers:
        assert producer.hear() == "paused"
