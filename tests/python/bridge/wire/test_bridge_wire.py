"""Bridges of two machines over a wire that loses, delays, reorders, stalls and is cut.

No test here has an upper bound of time: the machine may be busy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.machines import Machine, Machines
from support.bridge.wire import Wire
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell

pytestmark = pytest.mark.machines

SIZES = (100, 40_000, 150_000)  # bytes: on the express lane, and on the bulk lane


def content(number: int) -> np.ndarray:
    size = SIZES[number % len(SIZES)]
    return np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)


def publish_as_told(topic: str) -> None:
    with tb.Publisher[Any](topic, reliable=True, depth=4) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        tell("ready")
        while True:
            for number in range(*hear()):
                publisher.publish(content(number))
            tell("published")


def check_as_told(topic: str) -> None:
    with tb.Subscriber[Any](topic, timeout=2 * PATIENCE) as subscriber:
        tell("ready")
        while True:
            for number in range(*hear()):
                sample = subscriber.receive()
                assert sample.header.sequence == number
                assert np.array_equal(sample.data, content(number))
            tell(subscriber.stats["missed"])


class Flow:
    """Reliable topics in both directions, and the bridges that carry them."""

    def __init__(self, machines: Machines, folder: Path) -> None:
        self.machines = machines
        elsewhere = Elsewhere(folder)
        one, two = machines
        self.bridges = [
            start_bridge(one, "--listen", f"{one.address}:7447"),
            start_bridge(two, "--connect", f"{one.address}:7447"),
        ]
        ways = ((one, two, "there"), (two, one, "back"))
        self.subscribers = [
            elsewhere.start(check_as_told, topic, machine=target) for _, target, topic in ways
        ]
        self.publishers = [
            elsewhere.start(publish_as_told, topic, machine=source) for source, _, topic in ways
        ]
        for process in (*self.subscribers, *self.publishers):
            assert process.hear() == "ready"
        self._next = 0

    def begin(self, count: int) -> None:
        """Publishes so many samples in both directions."""
        for process in (*self.subscribers, *self.publishers):
            process.tell((self._next, self._next + count))
        self._next += count

    def finish(self) -> None:
        """All has come, in order and byte by byte."""
        for process in self.publishers:
            assert process.hear(2 * PATIENCE) == "published"
        for process in self.subscribers:
            assert process.hear(2 * PATIENCE) == 0

    def said(self, text: str) -> list[int]:
        """How often each bridge has logged a text."""
        outputs = [
            machine.output(bridge)
            for machine, bridge in zip(self.machines, self.bridges, strict=True)
        ]
        return [output.count(text) for output in outputs]


LARGE = 700_000  # bytes; one frame
SLOW = 125_000  # bytes a second: 1 Mbit/s


def publish_large(topic: str) -> None:
    with tb.Publisher[Any](topic, reliable=True) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        tell("ready")
        hear()
        for number in range(2):
            publisher.publish(np.full(LARGE, number, np.uint8))
        tell("published")
        hear()


def check_large(topic: str) -> None:
    with tb.Subscriber[Any](topic, timeout=2 * PATIENCE) as subscriber:
        tell("ready")
        for number in range(2):
            assert np.array_equal(subscriber.receive().data, np.full(LARGE, number, np.uint8))
        tell(subscriber.stats["missed"])


@pytest.mark.slow
def test_a_slow_wire_under_zenoh_cuts_no_connection(tmp_path: Path) -> None:
    pytest.importorskip("zenoh")
    with Machines(2, wire=True, seed=1) as machines:
        one, two = machines
        endpoints = {"endpoints": [f"tcp/{one.address}:7447"]}
        bridges = []
        for machine, told in (
            (one, {"mode": "router", "listen": endpoints}),
            (two, {"mode": "client", "connect": endpoints}),
        ):
            path = tmp_path / f"{machine.name}.json5"
            path.write_text(json.dumps({**told, "scouting": {"multicast": {"enabled": False}}}))
            bridges.append(start_bridge(machine, "--zenoh", str(path)))
        elsewhere = Elsewhere(tmp_path)
        subscriber = elsewhere.start(check_large, "large", machine=two)
        publisher = elsewhere.start(publish_large, "large", machine=one)
        for process in (subscriber, publisher):
            assert process.hear(2 * PATIENCE) == "ready"
        machines.wire.limit(SLOW)
        publisher.tell("go")
        assert subscriber.hear(3 * PATIENCE) == 0
        for machine, bridge in zip(machines, bridges, strict=True):
            assert "connection lost" not in machine.output(bridge)


def more_often(now: list[int], before: list[int]) -> bool:
    """Both bridges have said it since."""
    return all(one > other for one, other in zip(now, before, strict=True))


def start_bridge(machine: Machine, *options: str) -> subprocess.Popen[Any]:
    command = [sys.executable, "-m", "tensorbus", "bridge", "--trust-network", *options]
    return machine.run([*command, "--timeout", "60"])


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    with Machines(2, wire=True, seed=1) as machines:
        yield Flow(machines, tmp_path_factory.mktemp("flow"))


@pytest.fixture
def wire(flow: Flow) -> Iterator[Wire]:
    yield flow.machines.wire
    flow.machines.wire.mend()


def test_a_wire_that_loses_loses_no_sample(flow: Flow, wire: Wire) -> None:
    wire.lose(5)
    before = wire.counts().lost
    flow.begin(60)
    flow.finish()
    assert wire.counts().lost > before


def test_a_slow_wire_loses_no_sample(flow: Flow, wire: Wire) -> None:
    wire.delay(0.2)
    flow.begin(40)
    flow.finish()


def test_a_wire_that_reorders_changes_no_order(flow: Flow, wire: Wire) -> None:
    wire.delay(0.01, jitter=0.04)
    before = wire.counts().reordered
    flow.begin(40)
    flow.finish()
    assert wire.counts().reordered > before


def test_a_wire_that_stalls_loses_no_sample(flow: Flow, wire: Wire) -> None:
    wire.stall()
    flow.begin(60)
    eventually(lambda: wire.counts().waiting > 0)
    wire.mend()
    flow.finish()


@pytest.mark.parametrize("source", [0, 1])
def test_both_bridges_notice_a_half_open_connection_and_lose_nothing(
    flow: Flow, wire: Wire, source: int
) -> None:
    before = flow.said("connection lost")
    wire.cut(source=flow.machines[source])
    flow.begin(60)
    eventually(lambda: more_often(flow.said("connection lost"), before))
    wire.mend()
    flow.finish()
    assert flow.said("session ended") == [0, 0]


def test_both_bridges_notice_a_wire_that_is_cut(flow: Flow, wire: Wire) -> None:
    before = flow.said("connection lost")
    wire.cut()
    flow.begin(60)
    eventually(lambda: more_often(flow.said("connection lost"), before))
    wire.mend()
    flow.finish()
    assert flow.said("session ended") == [0, 0]
