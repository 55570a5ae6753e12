"""The figures for Prometheus: what they are of, how they add up, and that they stay few."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

from prometheus_client.registry import CollectorRegistry

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.inspections import (
    FRAME,
    SECOND,
    inspection,
    link,
    memory,
    participant,
    peer,
    publisher,
    queue,
    silent,
    subscriber,
)
from support.repository import ROOT
from tensorbus._cli.bridge_status import status_of
from tensorbus._cli.collector import METRICS, OTHER, BusCollector
from tensorbus._cli.metrics import BridgeWatch
from tensorbus._inspection.report import LentReport
from tensorbus.bridge._bridge import STATUS_TOPIC

DASHBOARD = ROOT / "examples/metrics/dashboard.json"
NAME = "python3"  # of all processes
IMAGE = {"topic": "image", "process": NAME, "machine": ""}


class Bus:
    """A domain of which a test says what its processes and its bridge say."""

    def __init__(self, most: int = 100) -> None:
        self.inspection = inspection()
        self.status: dict[str, Any] | None = None
        self._registry = CollectorRegistry()
        self._registry.register(BusCollector(lambda: self.inspection, lambda: self.status, most))

    def says(self, *participants: Any) -> None:
        self.inspection = inspection(*participants)

    def value(self, metric: str, **labels: str) -> float | None:
        """Of what one scrape finds."""
        return self._registry.get_sample_value(f"tensorbus_{metric}", labels)

    def topics(self, metric: str) -> dict[str, float]:
        (found,) = (each for each in self._registry.collect() if each.name == f"tensorbus_{metric}")
        return {
            each.labels["topic"]: each.value
            for each in found.samples
            if not each.name.endswith("_created")
        }


def test_a_counter_is_that_of_the_publisher() -> None:
    bus = Bus()
    bus.says(participant(1, publishers=(publisher("image", sent=7),)))
    assert bus.value("published_samples_total", **IMAGE) == 7
    assert bus.value("published_bytes_total", **IMAGE) == 7 * FRAME


def test_a_sum_does_not_fall_when_one_of_its_processes_ends() -> None:
    bus = Bus()
    one, two = (participant(pid, publishers=(publisher("image", sent=5),)) for pid in (1, 2))
    bus.says(one, two)
    assert bus.value("published_samples_total", **IMAGE) == 10
    bus.says(one)
    assert bus.value("published_samples_total", **IMAGE) == 10
    bus.says(one, participant(3, publishers=(publisher("image", sent=2),)))
    assert bus.value("published_samples_total", **IMAGE) == 12
    assert bus.value("publishers", **IMAGE) == 2


def test_a_process_that_was_stopped_is_not_counted_twice() -> None:
    bus = Bus()
    bus.says(participant(1, publishers=(publisher("image", sent=5),)))
    assert bus.value("published_samples_total", **IMAGE) == 5
    bus.says(silent(1))
    assert bus.value("published_samples_total", **IMAGE) == 5
    assert bus.value("silent_processes", process=NAME) == 1
    bus.says(participant(1, publishers=(publisher("image", sent=6),)))
    assert bus.value("published_samples_total", **IMAGE) == 6
    assert bus.value("silent_processes", process=NAME) is None


def test_more_topics_than_may_be_are_summed_up() -> None:
    bus = Bus(most=3)
    publishers = [publisher(f"topic{at}", sent=1, number=at) for at in range(10)]
    bus.says(participant(1, publishers=tuple(publishers)))
    for metric in ("published_samples", "publishers"):
        assert bus.topics(metric) == {"topic0": 1, "topic1": 1, "topic2": 1, OTHER: 7}


def test_topics_that_are_gone_make_room() -> None:
    bus = Bus(most=2)
    for round_ in range(5):
        bus.says(participant(round_, publishers=(publisher(f"topic{round_}", sent=1),)))
        found = bus.topics("published_samples")
        assert f"topic{round_}" in found
        assert len(found) <= 2


def test_states_of_links_and_memory() -> None:
    bus = Bus()
    viewer, other = peer(3, "viewer"), peer(2)
    links = (
        link(other, waiting=3, held=1, held_bytes=100, oldest_held_ns=2 * SECOND),
        link(viewer, waiting=1, held=2, held_bytes=200, oldest_held_ns=5 * SECOND, blocked_ns=7),
    )
    heard = replace(subscriber("image").stats, received=4, missed=2)
    lent = LentReport(viewer, leases=2, bytes=200, oldest_ns=5 * SECOND)
    jobs, mean = queue("jobs", items=3), queue("", service="mean", number=1)
    bus.says(
        participant(1, publishers=(publisher("image", *links),), memory=memory(lent)),
        participant(3, process="viewer", subscribers=(subscriber("image", stats=heard),)),
        participant(4, queues=(jobs, mean), memory=None),
    )
    assert bus.value("waiting_samples", **IMAGE) == 4
    assert bus.value("held_bytes", **IMAGE) == 300
    assert bus.value("oldest_held_seconds", **IMAGE) == 5
    assert bus.value("blocked_seconds", **IMAGE) == pytest.approx(7e-9)
    assert bus.value("missed_samples_total", topic="image", process="viewer", machine="") == 2
    assert bus.value("queue_items", queue="jobs", process=NAME, machine="") == 3
    assert bus.value("queue_items", queue="service:mean", process=NAME, machine="") == 0
    used = memory().used_bytes
    assert bus.value("memory_used_bytes", process=NAME, device="cpu") == used
    assert bus.value("memory_lent_bytes", process=NAME, holder="viewer") == 200
    assert bus.value("oldest_lease_seconds", process=NAME, holder="viewer") == 5


def stream(topic: str, samples: int, **others: int) -> dict[str, Any]:
    return {"topic": topic, "publisher": "5f.1", "samples": samples, "bytes": samples, **others}


def status(connected: bool = True, samples: int = 4) -> dict[str, Any]:
    peer = {
        "machine": "gpu-host",
        "bridge": "ab",
        "address": "gpu-host:7447",
        "connected": connected,
        "clock_offset_ns": 2_000_000,
        "clock_uncertainty_ns": 1_000_000,
        "sending": [stream("image", samples, missed=1, unsent=2)],
        "receiving": [stream("result", 2, discarded=3, bad=4)],
        "queues": ["jobs"],
        "services": [],
    }
    return {"machine": "robot", "bridge": "cd", "publishers": 1, "peers": [peer]}


def test_the_bridge_is_in_the_figures() -> None:
    bus = Bus()
    assert bus.value("bridge_up") == 0
    bus.status = status()
    crossed = {"topic": "image", "peer": "gpu-host", "direction": "sending"}
    assert bus.value("bridge_up") == 1
    assert bus.value("bridge_connected", peer="gpu-host") == 1
    assert bus.value("bridge_clock_offset_seconds", peer="gpu-host") == pytest.approx(0.002)
    assert bus.value("bridge_samples_total", **crossed) == 4
    assert bus.value("bridge_lost_samples_total", **crossed) == 1 + 2
    came = {"topic": "result", "peer": "gpu-host", "direction": "receiving"}
    assert bus.value("bridge_lost_samples_total", **came) == 3 + 4
    bus.status = None
    assert bus.value("bridge_up") == 0
    bus.status = status(connected=False, samples=6)
    assert bus.value("bridge_samples_total", **crossed) == 6
    assert bus.value("bridge_connected", peer="gpu-host") == 0


def test_the_status_of_a_bridge_is_there_if_it_publishes_one() -> None:
    assert status_of(None, timeout=0) is None
    with tb.Publisher[Any](STATUS_TOPIC, history=1) as bridge:
        bridge.publish(status())
        assert status_of(None) == status()


def test_the_status_of_a_bridge_is_heard_while_it_runs() -> None:
    with BridgeWatch(None) as watch, tb.Publisher[Any](STATUS_TOPIC, history=1) as bridge:
        assert watch.status() is None
        bridge.publish(status())
        eventually(lambda: watch.status() == status())
        assert watch.status() == status()


def test_what_is_no_status_of_a_bridge_is_not_taken_for_one() -> None:
    wrong = status()
    wrong["peers"][0]["sending"][0]["samples"] = "many"
    with (
        BridgeWatch(None) as watch,
        tb.Publisher[Any](STATUS_TOPIC, history=1) as bridge,
        tb.Publisher[Any](STATUS_TOPIC, history=1) as other,
    ):
        other.publish(7)
        assert status_of(None, timeout=0.1) is None
        bridge.publish(status())
        eventually(lambda: watch.status() == status())
        for message in ({}, 7, {**status(), "peers": [7]}, wrong):
            other.publish(message)
            assert watch.status() == status()


@pytest.mark.parametrize("seconds", [-6, 6])
def test_a_status_that_is_not_of_now_is_none(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BridgeWatch(None) as watch, tb.Publisher[Any](STATUS_TOPIC, history=1) as bridge:
        bridge.publish(status())
        eventually(lambda: watch.status() == status())
        now = time.time_ns() + seconds * SECOND
        monkeypatch.setattr("time.time_ns", lambda: now)
        assert watch.status() is None


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    shown = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            shown |= set(re.findall(r"tensorbus_\w+", target["expr"]))
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            legend = re.findall(r"{{(\w+)}}", target["legendFormat"])
            assert not grouped or set(legend) <= set(grouped[0].split(", "))
    names = {
        f"tensorbus_{name}{'_total' * (kind.what == 'counter')}" for name, kind in METRICS.items()
    }
    assert len(shown) > 15
    assert shown <= names


def test_the_endpoint_says_what_a_process_knows_of_itself(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("image", history=1) as publisher:
            for _ in range(7):
                publisher.publish(b"x" * 100)
            tell(publisher.stats.sent)
            hear()

    camera = elsewhere.start(publish)
    sent = camera.hear()
    command = (sys.executable, "-m", "tensorbus", "metrics", "--port", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as endpoint:
        assert endpoint.stdout is not None
        url = endpoint.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url)
        text = urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
        endpoint.send_signal(signal.SIGINT)
        assert endpoint.wait(PATIENCE) == 130
    camera.tell()
    found = re.findall(r'^tensorbus_published_samples_total{.*topic="image".*} (.*)$', text, re.M)
    assert [float(value) for value in found] == [sent]
