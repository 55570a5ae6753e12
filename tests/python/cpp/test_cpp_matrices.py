"""OpenCV, Eigen and std::mdspan over tensors in C++: the programs of tests/adapters/matrices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.cuda import standin
from support.cuda.standin import needs_standin
from support.harness import PATIENCE
from support.programs.cpp_programs import EXAMPLES, MARKS, build, running
from support.repository import ROOT
from tensorbus.messages import ImageMessage

pytestmark = MARKS


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "tests/adapters/matrices", tmp_path_factory.mktemp("matrices"))


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(EXAMPLES / "matrices", tmp_path_factory.mktemp("examples"))


def built(program: Path, library: str) -> Path:
    """The program, if the library is here."""
    if not program.exists():
        pytest.skip(f"{library} is not installed")
    return program


@needs_standin
@pytest.mark.parametrize("library", ["OpenCV", "Eigen", "mdspan"])
def test_what_holds_in_one_process(checks: Path, library: str) -> None:
    program = built(checks / f"{library.lower()}_checks", library)
    environment = os.environ | standin.ENVIRONMENT
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["contrast.cpp", "move_points.cpp"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / "matrices" / name).read_text().splitlines()) < 60


def test_opencv_reads_images_of_python_and_draws_into_shared_memory(examples: Path) -> None:
    program = built(examples / "contrast", "OpenCV")
    rng = np.random.default_rng(0)
    images = [rng.integers(50, 150, (48, 64, 3), np.uint8) for _ in range(3)]
    with (
        tb.Publisher("camera/image", ImageMessage, reliable=True) as publisher,
        tb.Subscriber("camera/grey", ImageMessage, timeout=PATIENCE) as subscriber,
        running(program, "3") as contrast,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for image in images:
            publisher.publish(ImageMessage(image))
            grey = image @ np.array([0.299, 0.587, 0.114])
            expected = (grey - grey.min()) * 255 / np.ptp(grey)
            received = subscriber.receive().data
            assert (received.encoding, received.width, received.height) == ("mono8", 64, 48)
            np.testing.assert_allclose(received.data, expected, atol=4)  # rounded twice
        assert contrast.wait(PATIENCE) == 0


def test_eigen_moves_points_of_python(examples: Path) -> None:
    program = built(examples / "move_points", "Eigen")
    clouds = np.random.default_rng(0).normal(size=(3, 100, 3)).astype(np.float32)
    turn = np.array([[np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0], [0, 0, 1]])
    with (
        tb.Publisher("cloud", reliable=True) as publisher,
        tb.Subscriber("cloud/moved", timeout=PATIENCE) as subscriber,
        running(program, "3") as moving,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for cloud in clouds:
            publisher.publish(cloud)
            expected = cloud @ turn.T + [1, 2, 3]
            np.testing.assert_allclose(subscriber.receive().data, expected, atol=1e-5)
        assert moving.wait(PATIENCE) == 0
