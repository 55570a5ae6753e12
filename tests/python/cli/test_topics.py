"""`tensorbus topic`: what it shows is what the processes know of themselves."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, publishing, tell
from support.screens.commands import Tensorbus, program
from tensorbus import _core


@dataclass
class Speed(tb.Message):
    """Of a robot."""

    v: float
    id: int = 0


def mirror(topic: str, machine: str) -> _core.Publisher:
    """As a bridge makes one."""
    return _core.Publisher(
        topic,
        tb.participant(),
        depth=8,
        history=0,
        reliable=False,
        lag_timeout=None,
        shared=False,
        origin=(machine, f"{'5f' * 16}.1"),
    )


def test_the_list_has_types_counts_and_machines(tensorbus: Tensorbus) -> None:
    far = mirror("far", "gpu-host")
    with (
        tb.Publisher("speed", Speed),
        tb.Publisher("speed", Speed),
        tb.Subscriber("speed"),
        tb.Subscriber("nobody"),
    ):
        rows = {row["topic"]: row for row in tensorbus("topic", "list", "--json").rows}
        table = {line[0]: line[1:] for line in tensorbus("topic", "list").lines}
    assert far.number
    assert [each.splitlines()[0] for each in rows["speed"]["types"]] == ["test_topics.Speed"]
    assert (rows["speed"]["publishers"], rows["speed"]["subscribers"]) == (2, 1)
    assert (rows["nobody"]["publishers"], rows["nobody"]["subscribers"]) == (0, 1)
    assert rows["far"]["machines"] == ["gpu-host"]
    assert table["speed"] == ["test_topics.Speed", "2", "1"]
    assert table["far"] == ["1", "0", "gpu-host"]


def test_info_says_what_publisher_and_subscriber_count(
    elsewhere: Elsewhere, tensorbus: Tensorbus
) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")

    def publish() -> None:
        with tb.Publisher("image", depth=3, reliable=False, node="camera") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for _ in range(10):
                publisher.publish(publisher.loan(1000, dtype="uint8"))
            tell(dict(publisher.stats))
            hear()

    camera = elsewhere.start(publish)
    with tb.Subscriber("image", timeout=PATIENCE) as subscriber:
        counters = camera.hear()
        held = subscriber.receive()
        topic, publisher, received = tensorbus("topic", "info", "image", "--json").rows
        text = tensorbus("topic", "info", "image").out
        assert received["stats"] == {**received["stats"], **dict(subscriber.stats)}
    camera.tell()
    assert held
    assert (topic["publishers"], topic["subscribers"]) == (1, 1)
    assert publisher["pid"] == camera.pid
    assert {**publisher["stats"], "bytes_in_flight": 0} == {**counters, "bytes_in_flight": 0}
    (link,) = publisher["links"]
    assert (link["subscriber"]["pid"], link["waiting"], link["held"]) == (os.getpid(), 2, 1)
    assert link["dropped_depth"] == counters["dropped_depth"] == 7
    assert f"({camera.pid}), node camera" in text
    assert "sent 10 (" in text
    assert "received 1, missed" in text


def test_rates_are_what_is_published(tensorbus: Tensorbus) -> None:
    with tb.Publisher("image") as publisher, tb.Publisher("other"):
        begin = time.monotonic()
        with publishing(publisher, b"x" * 1000):
            image, other = tensorbus("topic", "hz", "--count", "1", "--json").rows
        rate = publisher.stats.sent / (time.monotonic() - begin)
        delivered = publisher.stats.delivered
    assert (image["topic"], other["topic"], other["hz"]) == ("image", "other", 0)
    assert rate / 3 < image["hz"] < rate * 3
    assert 1000 <= image["bytes_per_second"] / image["hz"] < 1100
    assert delivered == 0  # it does not subscribe


@pytest.mark.parametrize("command", ["hz", "bw"])
def test_rates_are_shown_for_one_topic_or_all(command: str, tensorbus: Tensorbus) -> None:
    far = mirror("far", "gpu-host")
    window = ("--count", "2", "--window", "0.01")
    with tb.Publisher("image"):
        one = tensorbus("topic", command, "image", *window)
        everything = tensorbus("topic", command, *window, "--json")
    assert far.number
    assert [line[0] for line in one.lines] == ["TOPIC", "image", "TOPIC", "image"]
    far_row, image_row, *_ = everything.rows
    assert [(row["topic"], row["machines"]) for row in everything.rows] == 2 * [
        ("far", ["gpu-host"]),
        ("image", [""]),
    ]
    assert far_row["time_ns"] == image_row["time_ns"] < everything.rows[2]["time_ns"]


ECHO = ("topic", "echo", "topic", "--count", "1")


def test_echo_shows_a_message(tensorbus: Tensorbus) -> None:
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    values = np.array([[1.0, np.nan], [3.0, 4.0]], np.float32)
    message = {"id": 7, "name": "a\x1bb", "data": values, "inner": {"flags": [True, None]}}
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(message)
        head, *lines, end = tensorbus(*ECHO).out.splitlines()
        found = tensorbus(*ECHO, "--json").row
    assert head.startswith("topic #0, ")
    assert lines == [
        "id: 7",
        r"name: 'a\x1bb'",
        "data: float32 (2, 2) on cpu, min 1, mean 2.66667, max 4, 1 NaN: 1 nan 3 4",
        "inner:",
        "  flags: [True, None]",
    ]
    assert end == "---"
    assert found["data"]["data"] == {
        "dtype": "float32",
        "shape": [2, 2],
        "device": "cpu",
        "min": 1.0,
        "mean": pytest.approx(8 / 3),
        "max": 4.0,
        "nan_count": 1,
        "first": [1.0, "NaN", 3.0, 4.0],
    }
    assert found["data"]["inner"] == {"flags": [True, None]}


def test_echo_writes_tables(tensorbus: Tensorbus) -> None:
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"pose": [1.5, 2.0], "v": np.arange(2), "image": np.arange(100)})
        text = tensorbus(*ECHO, "--csv").out
        position = tensorbus(*ECHO, "--csv", "--field", "pose.1").out
    (row,) = csv.DictReader(io.StringIO(text))
    del row["timestamp_ns"]
    assert row == {
        "sequence": "0",
        "pose.0": "1.5",
        "pose.1": "2.0",
        "v.0": "0",
        "v.1": "1",
        "image.min": "0.0",
        "image.mean": "49.5",
        "image.max": "99.0",
        "image.nan_count": "0",
    }
    assert position.splitlines()[0] == "sequence,timestamp_ns,pose.1"


def test_numbers_that_json_has_not_are_texts(tensorbus: Tensorbus) -> None:
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    value = {"range": float("nan"), "all": [-np.inf, 0.5], "v": np.array([np.inf, np.nan])}
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(value)
        data = tensorbus(*ECHO, "--json").row["data"]
    assert (data["range"], data["all"]) == ("NaN", ["-Infinity", 0.5])
    assert (data["v"]["max"], data["v"]["first"]) == ("Infinity", ["Infinity", "NaN"])


def on_a_terminal(*arguments: str) -> str:
    """What the program prints on a terminal."""
    ours, its = os.openpty()
    with subprocess.Popen([program(), *arguments], stdout=its) as process:
        os.close(its)
        out = b""
        with suppress(OSError):  # nobody has the other end any more
            while more := os.read(ours, 65536):
                out += more
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    return out.decode()


def test_a_terminal_gets_no_escapes_from_another_process(tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"a\x1b[2J": "b\x1b[3J"})
        assert "a\x1b[2J" in tensorbus(*ECHO, "--csv").out
        out = on_a_terminal(*ECHO, "--csv")
    assert "\x1b" not in out
    assert "a?[2J" in out
    assert "b?[3J" in out


def test_echo_shows_a_field_of_a_typed_message(tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic", Speed, history=1) as publisher:
        publisher.publish(Speed(1.5, 3))
        assert tensorbus(*ECHO, "--field", "v").lines[1:] == [["1.5"], ["---"]]
        wrong = tensorbus(*ECHO, "--field", "w")
    assert (wrong.status, wrong.out) == (1, "")
    assert "has no field 'w'" in wrong.err


def test_echo_draws_images(tensorbus: Tensorbus) -> None:
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    image = np.zeros((3, 2, 3), np.uint8)
    image[0, 0] = 10, 20, 30
    image[1, 0] = 40, 50, 60
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(image)
        drawn = tensorbus(*ECHO, "--image").out
        assert "\x1b" not in tensorbus(*ECHO).out
    first, second = drawn.splitlines()[2:4]
    assert first.startswith("\x1b[38;2;10;20;30;48;2;40;50;60m▀")
    assert first.count("▀") == second.count("▀") == 2
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"image": image, "encoding": "bgr8"})
        drawn = tensorbus(*ECHO, "--image").out
    assert "\x1b[38;2;30;20;10;48;2;60;50;40m▀" in drawn


def test_echo_shows_what_numpy_does_not_have(tensorbus: Tensorbus, torch: Any) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish([torch.full((2,), 1.5, dtype=torch.bfloat16), torch.ones(2)])
        lines = tensorbus(*ECHO).out.splitlines()
    assert lines[1] == "0: bfloat16 (2,) on cpu, min 1.5, mean 1.5, max 1.5, 0 NaN: 1.5 1.5"
    assert lines[2] == "1: float32 (2,) on cpu, min 1, mean 1, max 1, 0 NaN: 1 1"


def test_echo_names_the_parts_of_what_only_pytorch_has(tensorbus: Tensorbus, torch: Any) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(torch.eye(2).to_sparse())
        done = tensorbus(*ECHO)
    assert done.status == 0
    assert "torch.sparse('sparse_coo', [2, 2], " in done.out


def test_delay_counts_what_comes(tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic") as publisher, publishing(publisher, 1):
        found = tensorbus("topic", "delay", "topic", "--count", "1", "--json").row
    assert found["samples"] > 0
    assert 0 < found["min_ns"] <= found["mean_ns"] <= found["max_ns"]
    assert (found["machine"], found["clock_uncertainty_ns"]) == ("", 0)


def test_delays_are_not_those_of_samples_that_have_waited(tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic", history=60_000) as publisher:
        publisher.publish(0)
        time.sleep(1)  # until it is old
        with publishing(publisher, 1):
            found = tensorbus("topic", "delay", "topic", "--count", "1", "--json").row
        assert publisher.stats.delivered > 0  # the old one is the first
    assert found["max_ns"] < 1e9


def test_delays_are_grouped_by_machine(tensorbus: Tensorbus) -> None:
    far = mirror("topic", "gpu-host")

    def publish() -> None:
        while not ended.wait(0.005):
            far.publish(_core.Outgoing(), b"\x01", 5)

    ended = threading.Event()
    thread = threading.Thread(target=publish)
    thread.start()
    try:
        with tb.Publisher("topic") as publisher, publishing(publisher, 1):
            rows = tensorbus("topic", "delay", "topic", "--count", "1", "--json").rows
    finally:
        ended.set()
        thread.join()
    assert {row["machine"] for row in rows} == {"", "gpu-host"}
    assert all(row["samples"] > 1 for row in rows)
