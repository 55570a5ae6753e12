"""The programs of the storm: python -m bridge_storm.roles ROLE WAY NAME FOLDER

A publisher publishes all topics of a way, a subscriber of the other machine checks what comes.
Each writes what it has done to a file, and what is wrong to its output.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tensorbus as tb

REPORT_EVERY = 0.1  # seconds
IDLE = 0.002


class Kind(NamedTuple):
    """Topics of a way."""

    reliable: bool
    depth: int
    size: int  # bytes, at most
    period: float  # seconds between two samples


KINDS = {
    "reliable/small": Kind(True, 16, 1_000, 0.005),
    "reliable/large": Kind(True, 4, 1_000_000, 0.1),
    "depth/small": Kind(False, 16, 1_000, 0.005),
    "depth/large": Kind(False, 4, 1_000_000, 0.1),
}


def content(topic: str, who: str, number: int, size: int) -> np.ndarray:
    """What this sample of this publisher has, byte by byte."""
    random = np.random.default_rng(zlib.crc32(f"{topic} {who} {number}".encode()))
    return random.integers(0, 256, int(random.integers(1, size)), dtype=np.uint8)


class Report:
    """A file that another process may read at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = 0.0

    def write(self, value: Any) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + REPORT_EVERY
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(value))
            new.replace(self._path)


def publish(way: str, name: str, folder: Path) -> None:
    publishers = {
        topic: tb.Publisher[Any](f"{way}/{topic}", reliable=kind.reliable, depth=kind.depth)
        for topic, kind in KINDS.items()
    }
    published: Counter[str] = Counter()
    due = dict.fromkeys(KINDS, time.monotonic())
    report = Report(folder / f"{name}.json")
    while True:
        now = time.monotonic()
        for topic, publisher in publishers.items():
            kind = KINDS[topic]
            if now < due[topic]:
                continue
            number = published[topic]
            data = content(f"{way}/{topic}", name, number, kind.size)
            message = {"who": name, "number": number, "data": data}
            try:
                publisher.publish(message, **({"timeout": 0} if kind.reliable else {}))
            except tb.Timeout:  # its subscriber has no room: this number comes again
                due[topic] = now + kind.period
                continue
            published[topic] += 1
            due[topic] = max(due[topic] + kind.period, now - kind.period)
        subscribers = {topic: one.stats["subscribers"] for topic, one in publishers.items()}
        report.write({"published": published, "subscribers": subscribers})
        time.sleep(IDLE)


class Checker:
    """What one subscriber has seen of one topic."""

    def __init__(self, topic: str, kind: Kind) -> None:
        self.topic = topic
        self.kind = kind
        self.samples = 0
        self.bytes = 0
        self.gaps = 0  # where the bridge's publisher has changed, or with depth
        self.newest = ["", -1]  # publisher and number
        self._last: dict[str, tuple[int, str]] = {}

    def check(self, sample: tb.Sample[Any]) -> None:
        who, number, data = (sample.data[name] for name in ("who", "number", "data"))
        what = f"{self.topic} {number} of {who}"
        mirror = sample.header.publisher
        if sample.header.sequence != number:
            wrong(f"{what}: its sequence number is {sample.header.sequence}")
        if not np.array_equal(data, content(self.topic, who, number, self.kind.size)):
            wrong(f"{what}: other bytes")
        before, mirror_before = self._last.get(who, (-1, mirror))
        if number <= before:
            wrong(f"{what}: after {before}")
        elif number > before + 1 and before >= 0:
            self.gaps += 1
            if self.kind.reliable and mirror == mirror_before:
                wrong(f"{what}: after {before}, though neither session nor process has ended")
        self._last[who] = (number, mirror)
        self.samples += 1
        self.bytes += len(data)
        self.newest = [who, number]


def subscribe(way: str, name: str, folder: Path) -> None:
    checkers = {topic: Checker(f"{way}/{topic}", kind) for topic, kind in KINDS.items()}
    subscribers = {topic: tb.Subscriber[Any](f"{way}/{topic}", max_held=4) for topic in KINDS}
    report = Report(folder / f"{name}.json")
    while True:
        idle = True
        for topic, subscriber in subscribers.items():
            sample = subscriber.try_receive()
            if sample is not None:
                checkers[topic].check(sample)
                idle = False
        report.write(
            {
                topic: {
                    "samples": checker.samples,
                    "bytes": checker.bytes,
                    "gaps": checker.gaps,
                    "newest": checker.newest,
                    "publishers": subscribers[topic].stats["publishers"],
                }
                for topic, checker in checkers.items()
            }
        )
        if idle:
            time.sleep(IDLE)


def bridge(way: str, name: str, folder: Path) -> None:
    """A bridge whose clock jumps when `folder/NAME.clock` says so: by these nanoseconds."""
    import tensorbus.bridge._wire.lane as lane
    from tensorbus._cli.command import main

    path = folder / f"{name}.clock"

    class Clock:
        monotonic_ns = staticmethod(time.monotonic_ns)

        @staticmethod
        def time_ns() -> int:
            return time.time_ns() + (int(path.read_text() or 0) if path.exists() else 0)

    lane.time = Clock  # type: ignore[assignment]
    sys.exit(main(["bridge", "--name", name, *way.split()]))


def wrong(text: str) -> None:
    print(f"WRONG {text}", flush=True)


if __name__ == "__main__":
    role, way, name, folder = sys.argv[1:]
    {"publish": publish, "subscribe": subscribe, "bridge": bridge}[role](way, name, Path(folder))
