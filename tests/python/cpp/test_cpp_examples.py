"""The examples of programs in C++ and C that work together with Python, as their pages tell."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tensorbus as tb
from support.cuda.gpu_tensors import why_no_gpu
from support.harness import PATIENCE
from support.programs.cpp_programs import (
    EXAMPLES,
    MARKS,
    WHY_NO_CUDA,
    build,
    running,
    torch_options,
)
from support.programs.middle_example import MIDDLE, classes_said, expected_classes
from support.repository import ROOT

pytestmark = MARKS


@pytest.mark.parametrize("example", ["cpp", "c", "model_in_the_middle", "libtorch"])
def test_an_example_is_short(example: str) -> None:
    for suffix in ("c", "cpp", "cu", "py"):
        for program in (EXAMPLES / example).glob(f"*.{suffix}"):
            if program.name != "brightness.cpp":  # which shows two things
                assert len(program.read_text().splitlines()) < 60, program


@pytest.fixture(scope="module")
def middle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(MIDDLE, tmp_path_factory.mktemp("middle"))


def test_a_model_in_python_stands_between_two_cpp_programs(middle: Path, torch: ModuleType) -> None:
    said = classes_said(middle / "capture", middle / "sink")
    assert said == expected_classes(torch)


@pytest.mark.skipif(WHY_NO_CUDA is not None, reason=str(WHY_NO_CUDA))
@pytest.mark.skipif(why_no_gpu() is None, reason="tests/gpu runs them")
def test_the_same_on_a_gpu_says_so_where_there_is_none(middle: Path) -> None:
    for program in ("cuda_capture", "cuda_sink"):
        done = subprocess.run([middle / program, "1"], capture_output=True, text=True, timeout=100)
        assert done.returncode == 1
        assert "there is no GPU here" in done.stderr


def test_libtorch_reads_and_writes_tensors_in_place(tmp_path: Path, torch: ModuleType) -> None:
    programs = build(EXAMPLES / "libtorch", tmp_path, *torch_options())
    pictures = torch.randint(0, 256, (3, 48, 64, 3), dtype=torch.uint8)
    with (
        tb.Publisher("camera/image", reliable=True) as publisher,
        tb.Subscriber("network/input", library="torch", timeout=PATIENCE) as subscriber,
        running(programs / "normalise", "3") as normalise,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for picture in pictures:
            publisher.publish(picture)
            planes = picture.permute(2, 0, 1).float()
            means = planes.mean((1, 2), keepdim=True)
            expected = (planes - means) / planes.std((1, 2), correction=0, keepdim=True)
            received = subscriber.receive().data
            assert received.is_contiguous()
            torch.testing.assert_close(received, expected)
        assert normalise.wait(PATIENCE) == 0


def test_the_subscriber_of_the_c_page_hears_python(tmp_path: Path) -> None:
    page = (ROOT / "docs/c.md").read_text()
    (source,) = re.findall(r"```c\n(#include.*?)```", page, re.DOTALL)
    (tmp_path / "program.c").write_text(source)
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    flags = subprocess.check_output([config, "--cflags", "--libs"], text=True).split()
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    program = tmp_path / "program"
    subprocess.run(["gcc", *warnings, tmp_path / "program.c", "-o", program, *flags], check=True)
    with tb.Publisher("hello") as publisher, running(program) as c:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for count in range(3):
            publisher.publish({"multiples": np.arange(3, dtype=np.float32) * count})
        assert c.communicate(timeout=PATIENCE)[0].splitlines() == ["0 0 0 ", "0 1 2 ", "0 2 4 "]
        assert c.returncode == 0


def test_python_hears_c(tmp_path: Path) -> None:
    with (
        tb.Subscriber("hello", timeout=PATIENCE) as subscriber,
        running(build(EXAMPLES / "c", tmp_path) / "c_publisher"),
    ):
        samples = [subscriber.receive() for _ in range(2)]
    for sample in samples:
        count, multiples = sample.data["count"], sample.data["multiples"]
        assert count == sample.header.sequence
        assert multiples.dtype == np.float32
        assert multiples.tolist() == [count * number for number in range(5)]


@pytest.mark.parametrize("compression", [[], ["zstd"]])
def test_a_recorder_in_cpp_records_and_sends_again(
    programs: Path, tmp_path: Path, compression: list[str]
) -> None:
    program, file = programs / "record", tmp_path / "run.mcap"
    with (
        tb.Publisher("camera", reliable=True, timeout=PATIENCE) as publisher,
        tb.Subscriber("camera/again", timeout=PATIENCE) as subscriber,
        running(program, "camera", str(file), "20", *compression) as record,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(20):
            publisher.publish(np.full((40, 30), number, np.float32))
        for number in range(20):
            assert (subscriber.receive().data == number).all()
        assert record.communicate(timeout=PATIENCE)[0] == "camera: 20 messages, 0 lost\n"
        assert record.returncode == 0
    assert [sample.data[0, 0] for sample in tb.Recording(file)] == [*range(20)]
