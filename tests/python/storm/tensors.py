"""python -m storm.tensors [--seconds S] [--seed S] [--redeliver]

Arrays through three queues, between processes that put, get, hold, hand on, fork, are stopped and
killed. The elements of an array count up, so that it tells of itself whether it is whole. It is
read again and again while somebody holds it: memory that was given to others too early is found
out. At the end nothing may be left of any item.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import queue
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import tensorbus as tb
from storm.folders import folder_with_domain

PLAYERS = 4
MAXSIZES = (0, 64, 5)
MAX_WAITING = 500
SIZES = (8, 64, 64, 64, 1_000, 3_000, 20_000)  # of int64
TORN = 77  # the exit code of who read what was not whole


def arrays_in(item: Any) -> Iterator[Any]:
    if isinstance(item, dict):
        item = tuple(item.values())
    if isinstance(item, tuple):
        for part in item:
            yield from arrays_in(part)
    elif hasattr(item, "shape"):
        yield item


class Player:
    """What every process does with the queues, the maker of the queues too."""

    def __init__(self, queues: list[Any], seed: int) -> None:
        self._queues = queues
        self._random = random.Random(seed)
        self._held: list[Any] = []
        self._made = 0
        self.got = 0

    def step(self) -> None:
        """One of the things that a program does. What is full, empty or late is left alone."""
        ways, weights = zip(*self._WAYS, strict=True)
        (way,) = self._random.choices(ways, weights)
        with suppress(queue.Empty, queue.Full, tb.Timeout):
            way(self, self._random.choice(self._queues))
        while len(self._held) > self._random.choice((3, 60)):
            self._held.pop(self._random.randrange(len(self._held)))

    def let_go(self) -> None:
        self._held.clear()

    def _new(self) -> Any:
        self._made += 1
        first = os.getpid() << 20 | self._made & 0xFFFFF
        return np.arange(first, first + self._random.choice(SIZES))

    def _put(self, to: Any) -> None:
        if to.qsize() < MAX_WAITING:
            to.put(self._new(), timeout=self._random.choice((0, 0.00005, 0.01)))

    def _put_two(self, to: Any) -> None:
        if to.qsize() < MAX_WAITING:
            to.put({"one": self._new(), "number": self._made, "two": self._new()}, timeout=0)

    def _hand_on(self, to: Any) -> None:
        if self._held and to.qsize() < MAX_WAITING:
            array = self._random.choice(self._held)
            to.put((array, self._new()) if self._random.random() < 0.3 else array, timeout=0)

    def _get(self, of: Any) -> None:
        self._take(of.get(timeout=self._random.choice((0, 0.00003, 0.0003, 0.002))))
        if self._random.random() < 0.7:
            of.task_done()

    def _get_many(self, of: Any) -> None:
        for item in of.get_many(self._random.choice((2, 50)), timeout=0.001):
            self._take(item)

    def _take(self, item: Any) -> None:
        self.got += 1
        for array in arrays_in(item):
            self._require_whole(array)
            self._held.append(array)

    def _look(self, _: Any) -> None:
        for array in self._held:
            self._require_whole(array)

    def _fork(self, _: Any) -> None:
        """The child reads what it inherited; its parent lets go of it meanwhile."""
        child = os.fork()
        if child == 0:
            for _ in range(self._random.choice((1, 20))):
                self._look(None)
                time.sleep(0.0005)
            os._exit(0)
        self.let_go()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            os._exit(TORN)

    def _require_whole(self, array: Any) -> None:
        array = np.asarray(array)
        if not np.array_equal(array, np.arange(array[0], array[0] + len(array))):
            print(f"{os.getpid()} has {array}", file=sys.stderr, flush=True)
            os._exit(TORN)

    _WAYS = (
        *((_put, 350), (_put_two, 70), (_hand_on, 80)),
        *((_get, 400), (_get_many, 10), (_look, 60), (_fork, 1)),
    )


def play(addresses: list[str], seed: int) -> None:
    """Another process, until the queues end or it is killed."""
    player = Player([tb.Queue.open(address) for address in addresses], seed)
    with suppress(tb.Closed, tb.ShutDown):
        while True:
            player.step()


class Attack:
    """The maker of the queues, which plays too, and kills and stops the others."""

    def __init__(self, seed: int, redeliver: bool) -> None:
        self._random = random.Random(seed)
        self._queues = [tb.Queue(maxsize=maxsize, redeliver=redeliver) for maxsize in MAXSIZES]
        self._player = Player(self._queues, seed)
        self._others = [self._start() for _ in range(PLAYERS)]
        self.found = {"kills": 0, "stops": 0, "torn": 0}

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._play(0.25)
            index = self._random.randrange(PLAYERS)
            if self._random.random() < 0.6:
                self._others[index].kill()
                self.found["kills"] += 1
            else:
                self._others[index].send_signal(signal.SIGSTOP)
                self._play(self._random.choice((0.01, 0.2)))
                self._others[index].send_signal(signal.SIGCONT)
                self.found["stops"] += 1
            self._others = [self._still(other) for other in self._others]

    def end(self) -> dict[str, int]:
        for other in self._others:
            other.kill()
            self._note(other)
        self._player.let_go()
        for one in self._queues:
            one.shutdown(immediate=True)
            one.close()
        until = time.monotonic() + 20
        while self._left() and time.monotonic() < until:
            time.sleep(0.01)
        return {**self.found, "got": self._player.got, "left_bytes": self._left()}

    def _play(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._player.step()

    def _start(self) -> subprocess.Popen[bytes]:
        addresses = [one.address for one in self._queues]
        seed = str(self._random.randrange(10**6))
        return subprocess.Popen([sys.executable, "-m", __spec__.name, "--play", seed, *addresses])

    def _still(self, other: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """It, or another one in its place."""
        if other.poll() is None:
            return other
        self._note(other)
        return self._start()

    def _note(self, ended: subprocess.Popen[bytes]) -> None:
        if ended.wait() != -signal.SIGKILL:  # nothing else ends one before the queues do
            self.found["torn"] += 1

    def _left(self) -> int:
        gc.collect()
        used: int = tb.participant().arena["used_bytes"]
        return used


def main() -> int:
    parser = argparse.ArgumentParser(prog="storm.tensors", description=(__doc__ or "").strip())
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--redeliver", action="store_true")
    parser.add_argument("--play", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(options.play[1:], int(options.play[0]))
        return 0
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    with folder_with_domain():
        attack = Attack(options.seed, options.redeliver)
        attack.run(options.seconds)
        found = attack.end()
    print(json.dumps(found))
    return 1 if found["torn"] or found["left_bytes"] else 0


if __name__ == "__main__":
    sys.exit(main())
