"""Rounds of kills, each of which ends when nobody but the survivors is there, with a balance."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from storm.actor import Stage
from storm.ledger import Life, Totals, balance
from storm.survivors import REDELIVER, SURVIVORS
from storm.zygote import Zygote

AT_A_TIME = 5
ROUND = 100  # kills
WARM_UP = 2  # rounds after which the survivors have what they need
PATIENCE = 10.0
MAX_TOLD = 10  # wrong entries of a round
ENOUGH = 200  # wrong entries, after which there is nothing new to hear
# What a survivor may have more than after the warm-up, after any number of rounds: caches,
# connections to workers of the pool and to those who died just now, and its own allocator.
SLACK = {"descriptors": 16, "mappings": 8, "private KiB": 16 << 10, "arena bytes": 0}


@dataclass
class Storm:
    folder: Path
    seed: int
    zygote: Zygote = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rounds: int = 0
    _last: dict[str, dict[str, int]] = field(default_factory=dict)
    _first: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stage = Stage({}, list(make_files(self.folder)))
        self.zygote = Zygote(self.folder, self.seed, stage)
        for name in SURVIVORS:
            self.zygote.start_survivor(name)
            if name == "host":
                stage.addresses = dict(self.zygote.hear(name))  # type: ignore[call-overload]
            self.zygote.hear(name)
        self._last = {name: {"lost": 0, "unfinished": 0} for name in REDELIVER}

    def run(self, kills: int, seconds: float) -> None:
        """Until both are reached."""
        began = time.monotonic()
        while len(self.wrong) < ENOUGH and (
            self.counts["killed"] < kills or time.monotonic() - began < seconds
        ):
            self.round(min(ROUND, max(1, kills - self.counts["killed"])))
        self.counts["seconds"] = round(time.monotonic() - began)
        self.zygote.end()

    def round(self, kills: int) -> None:
        zygote, chance = self.zygote, self.zygote.disturbance
        for name in zygote.survivors:
            zygote.ask(name, "go")
        enough = zygote.counts["killed"] + kills
        while zygote.counts["killed"] < enough:
            while len(zygote.victims) < AT_A_TIME:
                zygote.start_victim()
            if chance.random() < 0.01:
                zygote.hold_up(chance.choice(["host", "steady", "service"]))
            if chance.random() < 0.02:
                zygote.kill_a_worker()
            zygote.turn()
        while zygote.victims:
            zygote.turn()
        for name in ("pool", "steady", "host", "service"):
            zygote.ask(name, "rest")
        self.rounds += 1
        self.check_the_balance()

    def check_the_balance(self) -> None:
        """Repeats it for a while: the host may not have noticed the last deaths yet."""
        until = time.monotonic() + PATIENCE
        lives: list[Life] = []
        while True:
            stats: Any = self.zygote.ask("host", "empty")
            lives += self.zygote.take_lives()
            found = balance(lives, REDELIVER, self.since_the_last(stats))
            if not found.wrong or time.monotonic() > until:
                break
        self._last = stats
        found.wrong += self.not_as_before()
        self.counts += found.counts
        self.wrong += found.wrong
        self.counts["killed"] = self.zygote.counts["killed"]
        for line in found.wrong[:MAX_TOLD]:
            print(f"round {self.rounds}, after {self.counts['killed']} kills: {line}", flush=True)

    def since_the_last(self, stats: dict[str, dict[str, int]]) -> dict[str, Totals]:
        return {
            name: Totals(
                each["lost"] - self._last[name]["lost"],
                each["items"],
                each["unfinished"] - self._last[name]["unfinished"],
            )
            for name, each in stats.items()
        }

    def not_as_before(self) -> list[str]:
        """What survivors have that they did not need after the first rounds; said once."""
        until = time.monotonic() + PATIENCE
        while True:
            now: Any = {name: self.zygote.ask(name, "possessions") for name in SURVIVORS}
            grown = [
                (name, what)
                for name in self._first
                for what in SLACK
                if now[name][what] > self._first[name][what] + SLACK[what]
            ]
            if not grown or time.monotonic() > until:
                break
        warm = self.rounds > WARM_UP
        wrong = [
            f"{name} has {now[name][what]} {what}, and had {self._first[name][what]}"
            for name, what in grown
            if warm
        ]
        for name, has in now.items():
            first = self._first.setdefault(name, dict(has))
            first.update({what: has[what] for what in SLACK if (name, what) in grown or not warm})
        return wrong

    def report(self) -> dict[str, Any]:
        zygote = self.zygote.counts
        seconds = self.counts["seconds"]
        return {
            "seed": self.seed,
            "killed": zygote["killed"],
            "left by themselves": zygote["left"],
            "stopped": zygote["SIGSTOP"] + zygote["survivors stopped"],
            "workers killed": zygote["workers killed"],
            "seconds": seconds,
            "kills per second": round(zygote["killed"] / max(1, seconds), 1),
            "balances": self.rounds,
            **{name: self.counts[name] for name in sorted(self.counts) if " " in name},
            "items": self.counts["items"],
            "deliveries": self.counts["deliveries"],
            "delivered again, by the rules": self.counts["again"],
            "lost, and counted": self.counts["lost"],
            "wrong": len(self.wrong),
            **Counter(f"wrong: {kind_of(line)}" for line in self.wrong),
        }


def kind_of(wrong: str) -> str:
    """Without numbers and names of processes: the same for all that went wrong in one way."""
    kind = re.sub(r"\b[a-z]+-\d+: |0x[0-9a-f]+|\d+", "", wrong.splitlines()[-1])
    return " ".join(kind.split())[:60]


def make_files(folder: Path) -> list[Path]:
    """Each full of its own place in the list."""
    paths = [folder / f"mapped-{place}.npy" for place in range(3)]
    for place, path in enumerate(paths):
        np.save(path, np.full(5000, place))
    return paths


def tell(report: dict[str, Any]) -> None:
    for name, value in report.items():
        print(f"{name:32} {value}")
    sys.stdout.flush()
