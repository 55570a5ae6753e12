"""Expectations: their values, their grace, and the named cause of what is not met."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.inspections import (
    MIB,
    SECOND,
    STOPPED,
    inspection,
    link,
    participant,
    peer,
    publisher,
    queue,
    silent,
    subscriber,
)
from support.pipelines import Up
from tensorbus._inspection.report import Inspection, QueueClientReport
from tensorbus._up.causes import cause_of
from tensorbus._up.client import ask, find
from tensorbus._up.control import Request
from tensorbus._up.expectation import parse
from tensorbus._up.health import Watched
from tensorbus._up.measures import Measures

Start = Callable[..., Up]
CAMERA, MODEL, VIEWER = 100, 200, 300


def camera_of(sent: int, **changes: int) -> Inspection:
    viewer = link(peer(VIEWER), node="viewer", **changes)
    image = publisher("image", viewer, sent=sent, node="camera")
    return inspection(participant(CAMERA, "camera", publishers=(image,)))


def value(subject: str, text: str, *found: Inspection) -> float | None:
    """The value after inspections that are a second apart."""
    expected = parse(subject, text)
    measures = Measures([subject])
    for second, each in enumerate(found):
        measures.add(each, float(second))
    return measures.value(expected)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    found = [camera_of(sent) for sent in (1000, 1010, 1020, 1030)]
    assert value("image", ">= 20 Hz", *found) == 10.0
    assert value("image", ">= 20 Hz", *found, *[found[-1]] * 2) == 0.0
    # Of a slow topic there is nothing in two seconds.
    slow = [camera_of(second // 4) for second in range(17)]
    assert value("image", ">= 0.25 Hz", *slow) == 0.25
    assert math.isnan(value("image", ">= 20 Hz", found[0]) or 0.0)


def test_a_stopped_publisher_has_a_rate_of_0_and_goes_on_with_its_own_count() -> None:
    running = [camera_of(10), camera_of(20)]
    stopped = inspection(silent(CAMERA, "camera", topics=("image",)))
    assert value("image", ">= 20 Hz", *running, *[stopped] * 3) == 0.0
    # 5 samples in the two seconds before the last inspection, and not 25.
    assert value("image", ">= 20 Hz", *running, stopped, stopped, camera_of(25)) == 2.5


def test_a_restarted_publisher_is_counted_from_its_start() -> None:
    again = publisher("image", sent=5)
    other = inspection(participant(CAMERA + 1, "camera", publishers=(again,)))
    assert value("image", ">= 20 Hz", camera_of(1000), other, other) == 0.0


def test_the_age_is_that_of_the_last_sample() -> None:
    assert value("image", "age < 1s", camera_of(1), camera_of(2)) == 0.0
    assert value("image", "age < 1s", camera_of(1), camera_of(2), camera_of(2)) == 1.0
    assert value("image", "age < 1s", inspection()) is None


def test_the_lag_is_that_of_the_slowest_subscriber() -> None:
    assert value("image", "lag < 3", camera_of(1, waiting=7)) == 7.0
    assert value("image", "held < 3", camera_of(1, held=4)) == 4.0
    assert value("image", "lag < 3", inspection()) == 0.0


def test_items_and_requests() -> None:
    jobs = queue("jobs", items=3)
    mean = queue("service:mean", items=2, service="mean")
    found = inspection(participant(CAMERA, queues=(jobs, mean)))
    assert value("queue:jobs", "< 3 items", found) == 3.0
    assert value("service:mean", "< 3 requests", found) == 2.0
    assert value("queue:other", "< 3 items", found) is None


def test_an_expectation_is_unmet_after_its_grace() -> None:
    watched = Watched(parse("image", ">= 20 Hz"), grace=5.0)
    changes = [
        watched.update(False, "slow", 0.0),
        watched.update(False, "slow", 4.9),
        watched.update(True, "", 5.0),
        watched.update(False, "slow", 6.0),
        watched.update(False, "slow", 10.9),
    ]
    assert changes == [False] * 5
    assert watched.update(False, "slower", 11.0)
    assert watched.cause == "slower"
    assert not watched.update(False, "slowest", 12.0)
    assert watched.cause == "slowest"
    assert watched.update(True, "", 13.0)
    assert watched.cause == ""


def cause(subject: str, text: str, found: Inspection, provider: str = "") -> str:
    expected = parse(subject, text)
    return cause_of(expected, found, provider, value(subject, text, found))


def test_the_cause_is_the_stopped_publisher() -> None:
    found = inspection(silent(CAMERA, "camera", topics=("image",)))
    assert cause("image", ">= 20 Hz", found) == f"camera (pid 100) cannot be inspected: {STOPPED}"


def test_the_cause_may_be_what_the_topic_is_made_from() -> None:
    model = participant(
        MODEL,
        "model",
        publishers=(publisher("features"),),
        subscribers=(subscriber("image"),),
    )
    found = inspection(silent(CAMERA, "camera", topics=("image",)), model)
    assert cause("features", ">= 1 Hz", found).startswith("camera (pid 100) cannot be inspected")


def test_the_cause_is_the_subscriber_without_room() -> None:
    found = camera_of(1, waiting=8, blocked_ns=3 * SECOND)
    text = "viewer (pid 300) has had no room on image for 3.0 s: camera waits"
    assert cause("image", ">= 20 Hz", found) == text


def test_the_cause_is_the_slow_or_leaking_subscriber() -> None:
    found = camera_of(1, waiting=8, held=70, held_bytes=70 * MIB, oldest_held_ns=9 * SECOND)
    assert cause("image", "lag < 5", found) == "viewer (pid 300) is slow: 8 samples wait for it"
    text = "viewer (pid 300) holds 70 samples (70.0 MiB), the oldest for 9.0 s"
    assert cause("image", "held < 50", found) == text


def test_the_cause_of_a_full_queue_is_who_has_its_items() -> None:
    getting = QueueClientReport(peer(MODEL, "model"), in_hand=3, waiting_puts=0, waiting_gets=0)
    busy = inspection(participant(CAMERA, queues=(queue("jobs", getting, items=9),)))
    text = "9 items wait; model (pid 200) is slow: it has 3 items in hand"
    assert cause("queue:jobs", "< 5 items", busy) == text
    unused = inspection(participant(CAMERA, queues=(queue("jobs", items=9),)))
    assert cause("queue:jobs", "< 5 items", unused) == "9 items wait, and no process gets them"


def test_the_cause_is_the_process_that_is_not_there() -> None:
    text = "camera is failed: exit 1"
    assert cause("image", ">= 20 Hz", inspection(), text) == text
    assert cause("image", ">= 20 Hz", inspection()) == "no process has image"


# Real processes.

SENSOR = """
import time
import numpy as np
import tensorbus as tb
with tb.Publisher("image", depth=64, reliable=False) as publisher:
    while True:
        publisher.publish(np.zeros(10))
        time.sleep(0.01)
"""
READER = """
import tensorbus as tb
with tb.Subscriber("image", depth=64, max_held=100_000, timeout=600) as images:
    kept = []
    for sample in images:
        print("sample")
        ACT
"""
PIPELINE = """
[process.camera]
run = "python camera.py"
provides = ["image"]

[process.model]
run = "python model.py"
after = ["image"]
expect = { image = EXPECTED }
grace = "2s"
"""


def started(up: Start, expected: str, act: str, extra: str = "") -> tuple[Up, dict[str, int]]:
    """A camera and a model, and their pids, after the first sample."""
    text = PIPELINE.replace("EXPECTED", expected) + extra
    pipeline = up(text, camera=SENSOR, model=READER.replace("ACT", act))
    pipeline.until(kind="log", process="model")
    found = {
        each["process"]: each["pid"]
        for each in pipeline.seen
        if each["kind"] == "process_state" and each["state"] == "running"
    }
    return pipeline, found


def test_a_stopped_camera_is_named(up: Start) -> None:
    pipeline, pids = started(up, '">= 5 Hz"', "pass")
    os.kill(pids["camera"], signal.SIGSTOP)
    found = pipeline.until(kind="expectation", met=False)
    assert (found["process"], found["expectation"]) == ("model", "image >= 5 Hz")
    assert found["cause"].startswith(f"camera (pid {pids['camera']}) cannot be inspected")
    os.kill(pids["camera"], signal.SIGCONT)
    pipeline.until(kind="expectation", met=True)
    assert pipeline.end()[0] == 130


@pytest.mark.parametrize(
    ("expected", "act", "why"),
    [
        ('"lag < 10 samples"', "import time; time.sleep(1000)", "is slow: "),
        ('"held < 10 samples"', "kept.append(sample)", "holds "),
    ],
)
def test_a_slow_model_and_a_leaking_subscriber_are_named(
    expected: str, act: str, why: str, up: Start
) -> None:
    pipeline, pids = started(up, expected, act)
    found = pipeline.until(kind="expectation", met=False)
    assert found["cause"].startswith(f"model (pid {pids['model']}) {why}")


def test_a_process_that_is_not_well_is_started_again(up: Start) -> None:
    text = '"lag < 10 samples"'
    pipeline, pids = started(up, text, "import time; time.sleep(1000)", "unhealthy = 'restart'\n")
    pipeline.until(kind="expectation", met=False)
    pipeline.state("model", "stopping")
    again = pipeline.state("model", "backing off")["reason"]
    assert again == "image lag < 10 samples was not met, starts again in 0.5 s"
    assert pipeline.state("model", "running")["pid"] != pids["model"]
    pipeline.until(kind="expectation", met=False)  # its grace has begun again


def test_a_process_that_is_not_well_may_end_the_pipeline(up: Start) -> None:
    pipeline, _ = started(up, '">= 5000 Hz"', "pass", "unhealthy = 'stop'\n")
    assert pipeline.finish()[0] == 1
    assert any("ends, because model is not well" in str(each.get("text")) for each in pipeline.seen)


CHAIN = """
import os, time
import tensorbus as tb
name = os.environ["NAME"]
with tb.Publisher(name) as out, tb.Subscriber(os.environ["FROM"], timeout=600) as source:
    for sample in source:
        out.publish(sample.data)
"""
CHAINED = """
[process.camera]
run = "python camera.py"
provides = ["image"]
expect = { image = ">= 5 Hz" }
unhealthy = "restart"
grace = "2s"
stop_timeout = 0
backoff = "2s"
restart_limit = 0

[process.left]
run = "python chain.py"
env = { NAME = "left", FROM = "image" }
after = ["image"]
provides = ["left"]
expect = { left = ">= 5 Hz" }
unhealthy = "restart"
grace = "2s"

[process.right]
run = "python chain.py"
env = { NAME = "right", FROM = "left" }
after = ["left"]
expect = { right = ">= 5 Hz" }
unhealthy = "restart"
grace = "2s"
"""


@pytest.mark.parametrize("expects", [True, False])
def test_those_that_wait_for_a_process_that_is_not_well_are_not_started_again(
    expects: bool, up: Start
) -> None:
    text = CHAINED if expects else CHAINED.replace('expect = { image = ">= 5 Hz" }\n', "")
    pipeline = up(text, camera=SENSOR, chain=CHAIN)
    pipeline.state("right", "running")
    ask(find(None, None), Request("wait"), PATIENCE)  # until all are well
    camera = ask(find(None, None), Request("status", "camera"))["processes"][0]["pid"]
    os.kill(camera, signal.SIGSTOP)
    wanted = {("left", False), ("right", False)}
    while wanted:
        line = pipeline.until(kind="expectation")
        wanted.discard((line["process"], line["met"]))
    if not expects:
        os.kill(camera, signal.SIGCONT)
    wanted = {("left", True), ("right", True)}
    while wanted:
        line = pipeline.until(kind="expectation")
        wanted.discard((line["process"], line["met"]))
    status = ask(find(None, None), Request("status"))["processes"]
    assert [each["restarts"] > 0 for each in status] == [expects, False, False]
    assert pipeline.end()[0] == 130


def test_a_process_is_at_fault_when_nothing_that_it_waits_for_is() -> None:
    watched = Watched(parse("image", ">= 20 Hz"), grace=5.0)
    for now in range(0, 20):
        watched.update(False, "why", float(now), excused=now < 10)
        assert watched.is_own_fault(float(now)) == (now >= 15)
    watched.update(True, "", 20.0)
    assert not watched.is_own_fault(20.0)
    watched.update(False, "why", 21.0)
    assert not watched.is_own_fault(25.0)
    assert watched.is_own_fault(26.0)


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_has_ended_well_excuses_nobody(replicas: int, up: Start, tmp_path: Path) -> None:
    """The model is at fault: one of those that provide what it waits for has done its work."""
    pipeline = up(
        f"""
[process.init]
run = "python init.py"
provides = ["map"]
replicas = {replicas}
[process.model]
run = "sleep 1000"
after = ["map"]
expect = {{ out = ">= 5 Hz" }}
grace = "1s"
unhealthy = "restart"
backoff = 0
""",
        init=f"""
import os, time
from pathlib import Path
import tensorbus as tb
with tb.Publisher("map"):
    while not Path({str(tmp_path / "go")!r}).exists() or os.environ["TENSORBUS_REPLICA"] == "2":
        time.sleep(0.01)
""",
    )
    pipeline.state("model", "running")
    (tmp_path / "go").touch()
    pipeline.state("init.1" if replicas == 2 else "init", "ended")
    assert "out >= 5 Hz was not met" in pipeline.state("model", "backing off")["reason"]


def test_a_name_of_another_domain_is_another_name(up: Start, tmp_path: Path) -> None:
    pipeline = up(
        f"""
[process.a]
run = "true"
provides = ["x"]
[process.b]
run = "true"
domain = {str(tmp_path / "other")!r}
after = ["x"]
"""
    )
    pipeline.state("b", "waiting")
    with tb.Publisher("x", domain=str(tmp_path / "other")):
        assert pipeline.finish()[0] == 0
