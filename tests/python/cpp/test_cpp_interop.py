"""A C++ process and a Python process talk with each other: the programs of examples/cpp."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.programs.cpp_programs import MARKS, running
from tensorbus import messages

pytestmark = MARKS


def test_python_hears_cpp(programs: Path) -> None:
    with (
        tb.Subscriber("hello", timeout=PATIENCE) as subscriber,
        running(programs / "publisher"),
    ):
        samples = [subscriber.receive() for _ in range(3)]
    for sample in samples:
        count, multiples = sample.data["count"], sample.data["multiples"]
        assert list(sample.data) == ["count", "multiples"]
        assert count == sample.header.sequence
        assert multiples.dtype == np.float32
        assert multiples.tolist() == [count * number for number in range(5)]


def test_cpp_hears_python(programs: Path) -> None:
    with tb.Publisher("hello") as publisher, running(programs / "subscriber") as cpp:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert cpp.stdout
        for count in range(3):
            multiples = publisher.loan(5, dtype="float32")
            multiples[:] = np.arange(5) * count
            publisher.publish({"count": count, "multiples": multiples})
            numbers = " ".join(str(count * number) for number in range(5))
            assert cpp.stdout.readline() == f"{count} count={count} multiples={numbers} \n"


def test_cpp_that_is_killed_gives_back_what_it_held(programs: Path) -> None:
    with tb.Publisher("hello") as publisher:
        with running(programs / "subscriber") as cpp:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish({"count": 1, "multiples": np.zeros(5, np.float32)})
            assert cpp.stdout
            assert cpp.stdout.readline()
        publisher.publish({"count": 2, "multiples": np.zeros(5, np.float32)})
        eventually(lambda: publisher.stats["subscribers"] == 0)
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)  # when its lineage has ended


def test_two_cpp_processes_talk_with_each_other(programs: Path) -> None:
    with running(programs / "subscriber") as cpp, running(programs / "publisher"):
        assert cpp.stdout
        sequence, count, *_ = cpp.stdout.readline().split()
        assert count == f"count={sequence}"


@dataclass
class Brightness(tb.Message, name="example.Brightness"):
    """What examples/cpp/brightness.cpp declares as a struct."""

    mean: float
    by_row: np.ndarray
    encoding: str


def test_cpp_structs_are_the_types_of_python(programs: Path) -> None:
    types = subprocess.check_output([programs / "brightness", "--types"], text=True)
    fingerprints = {name: int(text) for name, text in map(str.split, types.splitlines())}
    assert fingerprints.pop("example.Brightness") == Brightness.fingerprint()
    assert fingerprints == {
        f"tensorbus.{name}": getattr(messages, name).fingerprint()
        for name in messages.__all__
        if name.endswith("Message") and name != "Message"
    }


def test_cpp_reads_and_writes_typed_messages(programs: Path) -> None:
    image = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    with (
        tb.Publisher("image", tb.ImageMessage) as publisher,
        tb.Subscriber("brightness", Brightness, timeout=PATIENCE) as subscriber,
        running(programs / "brightness"),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        publisher.publish(tb.ImageMessage(image, "bgr8"))
        answer = subscriber.receive().data
    assert answer.encoding == "bgr8"
    assert answer.mean == pytest.approx(image.mean())
    assert np.allclose(answer.by_row, image.mean(axis=(1, 2)))


def test_cpp_of_another_type_is_told_both(programs: Path) -> None:
    with (
        tb.Publisher("image", tb.PoseMessage),
        subprocess.Popen([programs / "brightness"], stderr=subprocess.PIPE, text=True) as refused,
    ):
        errors = refused.communicate(timeout=PATIENCE)[1]
    assert refused.returncode == 1
    assert "expected tensorbus.ImageMessage, published is tensorbus.PoseMessage" in errors
    assert tb.PoseMessage.definition() in errors
    assert tb.ImageMessage.definition().splitlines()[1] in errors
