"""A storm of topics: on each machine a publisher and a subscriber of all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bridge_storm.roles import KINDS
from bridge_storm.storm import Fault, Storm
from support.bridge.machines import Machine

WAYS = ("there", "back")  # from the first machine to the second one, and the other way
ENOUGH = 4  # samples of each topic in a calm


class TopicStorm(Storm):
    def _places(self, one: Machine, two: Machine) -> dict[str, Machine]:
        return {
            "subscriber there": two,
            "publisher there": one,
            "subscriber back": one,
            "publisher back": two,
        }

    def _command(self, role: str) -> list[str]:
        part, way = role.split()
        return [
            "bridge_storm.roles",
            {"publisher": "publish", "subscriber": "subscribe"}[part],
            way,
        ]

    def _faults(self) -> list[Fault]:
        return [
            *self._faults_of_the_wire(),
            (4, self._kill_bridge),
            (10, self._stop),
            (2, lambda: self._replace(f"publisher {self._random.choice(WAYS)}")),
            (2, self._clock),
        ]

    def _totals(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for way in WAYS:
            for topic, one in self._read(f"subscriber {way}").items():
                totals["samples checked"] += one["samples"]
                totals["bytes checked"] += one["bytes"]
                totals[f"gaps, {topic.split('/')[0]}"] += one["gaps"]
        return totals

    def _why_not_calm(self, before: dict[str, Any]) -> str:
        for way in WAYS:
            publisher, subscriber = f"publisher {way}", f"subscriber {way}"
            found, told = self._read(subscriber), self._read(publisher)
            if not found or not told:
                return f"{way}: not started"
            for topic in KINDS:
                who, number = found[topic]["newest"]
                if who != self._names[publisher]:
                    return f"{way}/{topic}: the last sample is of {who!r}"
                at_first = before[subscriber].get(topic, {"newest": ["", -1]})["newest"]
                if number < (at_first[1] if at_first[0] == who else -1) + ENOUGH:
                    return f"{way}/{topic}: only up to {number} of {who}, from {at_first}"
                if (count := found[topic]["publishers"]) != 1:
                    return f"{way}/{topic}: {count} publishers"
                if (count := told["subscribers"][topic]) != 1:
                    return f"{way}/{topic}: {count} subscribers"
        return ""
