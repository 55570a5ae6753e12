"""Fields of every kind in a user's C++ program, and what its compiler says of our headers."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.programs.cpp_programs import MARKS, running

if TYPE_CHECKING:
    import torch

pytestmark = MARKS

HERE = Path(__file__).parent
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")


def config(*options: str) -> list[str]:
    command = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    return subprocess.check_output([command, *options], text=True).split()


def compiled(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("program", ["fields.cpp", "detections.cpp"])
def test_no_compiler_warns_about_our_headers(program: str, compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    ours = ("-I", *config("--includedir"))  # with -isystem it would be silent about them
    # Some warnings of GCC come from its optimizer.
    how = ("-O3", "-c", "-o", tmp_path / "program.o") if compiler == "g++" else ("-fsyntax-only",)
    done = compiled(compiler, "-std=c++20", *how, *WARNINGS, *ours, HERE / program)
    assert done.returncode == 0, done.stderr


UNSUPPORTED = """
#include <tensorbus/tensorbus.hpp>
enum class Mode { idle, driving };
struct State {
  std::string name;
  std::vector<Mode> modes;
};
TENSORBUS_MESSAGE(State, "robot.State", name, modes)
int main() { return tensorbus::message_type<State>().is_any(); }
"""


def test_a_member_that_cannot_be_a_field_is_named_with_the_types_that_can(tmp_path: Path) -> None:
    program = tmp_path / "program.cpp"
    program.write_text(UNSUPPORTED)
    done = compiled("g++", "-std=c++20", "-fsyntax-only", *config("--cflags"), program)
    assert done.returncode != 0
    assert "&State::modes" in done.stderr
    assert "an enum declared by TENSORBUS_ENUM" in done.stderr
    assert done.stderr.count("error:") == 1
    assert "incomplete type" not in done.stderr


class Mode(IntEnum):
    idle = 0
    driving = 4


@dataclass
class Detection(tb.Message, name="robot.Detection"):
    label: str
    score: float
    box: np.ndarray
    frame_id: str | None = None


@dataclass
class State(tb.Message, name="robot.State"):
    """What fields.cpp declares as a struct."""

    mode: Mode
    position: tuple[float, float, float]
    grid: tuple[tuple[int, int], tuple[int, int]]
    wanted: Mode | None = None
    reachable: dict[Mode, list[Mode]] = field(default_factory=dict)
    detections: list[Detection] = field(default_factory=list)
    best: Detection | None = None
    names: tuple[str, str] | None = None
    notes: list[str] | None = None
    levels: dict[str, float] | None = None
    raw: bytes | None = None
    image: np.ndarray | None = None
    weights: torch.Tensor | None = None
    share: tb.Handle | None = None
    ready: bool | None = None
    count: int | None = None
    any: Any = None


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fields") / "fields"
    command = ("g++", "-std=c++20", HERE / "fields.cpp", "-o", path)
    done = compiled(*command, *config("--cflags"), *config("--libs"))
    assert done.returncode == 0, done.stderr
    return path


def test_enums_and_arrays_have_the_type_of_their_python_class(program: Path) -> None:
    assert int(subprocess.check_output([program, "--type"])) == State.fingerprint()


def test_fields_of_every_kind_come_back_from_cpp_as_they_were_sent(
    program: Path, torch: ModuleType
) -> None:
    box = np.array([1, 2, 3, 4], np.float32)
    shared = tb.share(box)
    full = State(
        mode=Mode.driving,
        position=(1.0, 2.5, -3.0),
        grid=((1, 2), (3, 4)),
        wanted=Mode.idle,
        reachable={Mode.idle: [Mode.driving, Mode.idle]},
        detections=[Detection("cup", 0.5, box), Detection("pen", 0.25, box, "map")],
        best=Detection("cup", 0.5, box),
        names=("a", "b"),
        notes=["c"],
        levels={"d": 0.5},
        raw=b"e",
        image=np.arange(6).reshape(2, 3),
        weights=torch.arange(3),
        share=shared.handle,
        ready=False,
        count=-7,
        any=[1, "f", shared.handle],
    )
    empty = State(mode=Mode.idle, position=(0.0, 0.0, 0.0), grid=((0, 0), (0, 0)))
    with (
        tb.Publisher("state", State) as publisher,
        tb.Subscriber("state/echo", State, timeout=PATIENCE) as subscriber,
        running(program),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        for sent in (full, empty):
            publisher.publish(sent)
            received = subscriber.receive().data
            assert repr(received) == repr(sent)
            assert (received.share, received.any) == (sent.share, sent.any)


def test_a_class_with_other_members_is_another_type(program: Path) -> None:
    with tb.Publisher("state", OtherState):
        done = subprocess.run([program], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "enum<Mode: idle=0,driving=4>" in done.stderr
    assert "enum<Mode: idle=0,parked=4>" in done.stderr


def _other() -> type[tb.Message]:
    class Mode(IntEnum):
        idle = 0
        parked = 4

    @dataclass
    class Other(tb.Message, name="robot.State"):
        mode: Mode

    return Other


OtherState = _other()
