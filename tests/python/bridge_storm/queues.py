"""A storm of queues: programs of two machines put and get, and a ledger of all items balances."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from bridge_storm.queue_roles import QUEUES
from bridge_storm.storm import PATIENCE, Fault, Storm
from support.bridge.machines import Machine

PROGRAMS = {"home": "home", "producer": "produce", "getter": "get"}
ENOUGH = 4  # items of each queue and program in a calm


class QueueStorm(Storm):
    """The queues are on the first machine; most getters are on the second one."""

    def _places(self, one: Machine, two: Machine) -> dict[str, Machine]:
        getters = {"getter one": one, "getter two": two, "getter three": two}
        return {"home one": one, "producer one": one, "producer two": two, **getters}

    def _command(self, role: str) -> list[str]:
        return ["bridge_storm.queue_roles", PROGRAMS[role.split()[0]]]

    def _faults(self) -> list[Fault]:
        return [
            *self._faults_of_the_wire(),
            (40, self._kill_homes_bridge),
            (6, lambda: self._kill_and_start("bridge two")),
            (4, lambda: self._replace(f"producer {self._random.choice(('one', 'two'))}")),
            (8, lambda: self._replace(f"getter {self._random.choice(('one', 'two', 'three'))}")),
            (10, self._stop),
        ]

    def _kill_homes_bridge(self) -> str:
        self._wait_for_items("getter two")  # else nothing is under way
        self._pause(0.1)
        self._kill_and_start("bridge one")
        return "kill -9 of the bridge of the queues"

    def _wait_for_items(self, role: str) -> None:
        before = self._read(role).get("once", 0)
        deadline = time.monotonic() + PATIENCE
        while self._read(role).get("once", 0) in (0, before) and not self.wrong:
            if time.monotonic() > deadline:
                self.wrong.append(f"{role}: no item comes")
            time.sleep(0.02)

    def _why_not_calm(self, before: dict[str, Any]) -> str:
        for role in self._programs:
            if role.split()[0] not in ("producer", "getter"):
                continue
            now = self._read(role)
            for queue in QUEUES:
                least = before[role].get(queue, 0) + ENOUGH
                if now.get(queue, 0) < least:
                    return f"{role}, {queue}: {now.get(queue, 0)} items, expected {least}"
        return ""

    def _totals(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for queue in QUEUES:
            put, got = self._ledger(queue)
            totals[f"{queue}: put"] = len(put)
            totals[f"{queue}: got"] = got.total()
            totals[f"{queue}: got twice or more"] = sum(1 for count in got.values() if count > 1)
            totals[f"{queue}: put and not got"] = len(put - got.keys())
            totals[f"{queue}: counted as lost"] = self._state(queue).get("lost", 0)
        return totals

    def _check(self) -> None:
        """When all producers have ended, and what they had put is gone."""
        (self._folder / "stop").touch()
        for role in ("producer one", "producer two"):
            self._programs.pop(role).wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while any(self._state(queue)["unfinished"] for queue in QUEUES):
            if time.monotonic() > deadline:
                self.wrong.append(f"not empty: {[self._state(queue) for queue in QUEUES]}")
                return
            time.sleep(0.1)
        for queue, redeliver in QUEUES.items():
            put, got = self._ledger(queue)
            missing = sorted(put - got.keys())
            lost = 0 if redeliver else self._state(queue)["lost"]
            if len(missing) > lost:
                self.wrong.append(f"{queue}: {lost} lost, but never got: {missing[:5]}")
            twice = sorted(item for item, count in got.items() if count > 1)
            if twice and not redeliver:
                self.wrong.append(f"{queue}: got twice: {twice[:5]}")

    def _state(self, queue: str) -> dict[str, int]:
        state: dict[str, int] = self._read("home one").get(queue, {})
        return state

    def _ledger(self, queue: str) -> tuple[set[str], Counter[str]]:
        """What was put, and how often each item was got."""
        put: set[str] = set()
        got: Counter[str] = Counter()
        path = self._folder / "ledger"
        for line in path.read_text().splitlines() if path.exists() else ():
            kind, of, item = line.split(maxsplit=2)
            if of == queue and kind == "put":
                put.add(item)
            elif of == queue:
                got[item] += 1
        return put, got
