"""examples/cortex: programs that import nothing of ours but `tensorbus.cortex`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from support.repository import ROOT

pytestmark = pytest.mark.slow

PROGRAMS = ROOT / "examples/cortex"
ENDED_BY_SIGTERM = 0  # as by Ctrl-C: the node's run() returns


def started(name: str, *arguments: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAMS / name), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(program: subprocess.Popen[str], code: int = 0) -> list[str]:
    """What it printed until it ended, as it should."""
    try:
        out, err = program.communicate(timeout=100)
    finally:
        program.kill()
    assert (program.returncode, err) == (code, "")
    return out.splitlines()


def printed(what: str, number: int) -> str:
    """The line of the subscriber for the publisher's message of that number."""
    return {
        "array": f"frame_{number}: (480, 640) float32, mean {number}",
        "tensor": f"features_{number}: (8, 256) torch.float16, mean {number}",
        "dict": f"step {number}, idle: joint_6 {0.1 * number:.1f}, scan (3, 360)",
    }[what]


@pytest.mark.parametrize("what", ["array", "tensor", "dict"])
def test_a_subscriber_prints_what_the_publisher_of_its_pair_sends(what: str) -> None:
    if what == "tensor":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    subscriber = started(f"{what}_subscriber.py", 5)
    publisher = started(f"{what}_publisher.py")
    try:
        lines = lines_of(subscriber)
    finally:
        publisher.terminate()
    assert lines_of(publisher, ENDED_BY_SIGTERM) == []
    numbers = [int(re.findall(r"\d+", line)[0]) for line in lines]
    assert len(numbers) == 5
    assert numbers == sorted(set(numbers))
    assert lines == [printed(what, number) for number in numbers]


@pytest.mark.parametrize("what", ["array", "tensor", "dict"])
def test_a_publisher_ends_after_as_many_messages_as_it_was_told(what: str) -> None:
    if what == "tensor":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    assert lines_of(started(f"{what}_publisher.py", 3)) == ["published 3"]


def test_three_nodes_in_one_process_hand_images_and_detections_on() -> None:
    lines = lines_of(started("multi_node.py", 4))
    numbers = [int(re.findall(r"\d+", line)[0]) for line in lines]
    assert len(numbers) >= 4
    assert lines == [f"image {n}: bright at [[{n % 120}, {n % 160}]]" for n in numbers]


def test_the_control_loop_brings_the_motor_to_its_speed() -> None:
    (line,) = lines_of(started("control_loop.py", 300))
    found = re.fullmatch(r"after 300 steps: speed (\d+\.\d)", line)
    assert found is not None
    assert abs(float(found[1]) - 10) < 1


def test_the_programs_import_nothing_else_of_tensorbus() -> None:
    for program in PROGRAMS.glob("*.py"):
        imports = re.findall(r"^(?:from|import) (tensorbus\S*)", program.read_text(), re.MULTILINE)
        assert imports
        assert all(name.startswith("tensorbus.cortex") for name in imports)
