"""Services in C++ and clients in Python, and the other way: the programs of examples/cpp."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.programs.cpp_programs import MARKS, running

pytestmark = MARKS


@dataclass
class Mean(tb.Message, name="example.Mean"):
    """What examples/cpp/mean.hpp declares as a struct."""

    mean: float
    by_row: np.ndarray


@dataclass
class OtherMean(tb.Message, name="example.Mean"):
    mean: str


def mean_of(image: tb.ImageMessage) -> Mean:
    return Mean(float(image.data.mean()), image.data.mean(axis=(1, 2), dtype=np.float32))


@contextmanager
def serving(
    mean: Callable[[Any], float] = lambda numbers: float(numbers.mean()),
    image_type: type[tb.Message] = tb.ImageMessage,
) -> Iterator[None]:
    """A node in a thread that offers what ./mean_service does."""
    with tb.Node("means") as node:
        node.create_service("mean", callback=mean, mode="sync")
        node.create_service("image/mean", image_type, Mean, callback=mean_of, mode="sync")
        thread = threading.Thread(target=node.spin)
        thread.start()
        yield
        node.stop()
        thread.join()


def output_of(program: Path) -> tuple[str, str]:
    done = subprocess.run([program], capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.stdout, done.stderr


def test_python_asks_cpp_for_a_tensor(programs: Path) -> None:
    with running(programs / "mean_service"), tb.Client("mean", timeout=PATIENCE) as client:
        assert client.call_sync(np.arange(5, dtype=np.float32)) == 2.0
        shared = tb.empty(3, dtype="float32")
        shared[:] = 7
        assert client.call_sync(shared) == 7.0


def test_python_asks_cpp_with_types(programs: Path) -> None:
    image = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    with (
        running(programs / "mean_service"),
        tb.Client("image/mean", tb.ImageMessage, Mean, timeout=PATIENCE) as client,
    ):
        answer = client.call_sync(tb.ImageMessage(image, "rgb8"))
    assert isinstance(answer, Mean)
    assert answer.mean == pytest.approx(image.mean())
    assert answer.by_row.tolist() == pytest.approx(image.mean(axis=(1, 2)).tolist())


def test_python_is_told_what_a_cpp_callback_threw(programs: Path) -> None:
    with running(programs / "mean_service"), tb.Client("mean", timeout=PATIENCE) as client:
        with pytest.raises(tb.ServiceError, match="raised std::invalid_argument: nothing has no"):
            client.call_sync(np.zeros(0, np.float32))
        with pytest.raises(tb.ServiceError, match="raised InvalidArgument: "):
            client.call_sync("no tensor")
        assert client.call_sync(np.ones(1, np.float32)) == 1.0


def test_python_of_other_types_is_told_both(programs: Path) -> None:
    with (
        running(programs / "mean_service"),
        tb.Client("image/mean", tb.ImageMessage, OtherMean, timeout=PATIENCE) as client,
        pytest.raises(tb.TypeMismatch, match="its reply is of another type") as caught,
    ):
        client.call_sync(tb.ImageMessage(np.zeros((1, 1, 3), np.uint8), "rgb8"))
    assert Mean.definition() in str(caught.value)
    assert OtherMean.definition() in str(caught.value)


def test_the_death_of_a_cpp_service_is_heard_by_python(programs: Path) -> None:
    with tb.Client("mean", timeout=PATIENCE) as client:
        with running(programs / "mean_service"):
            assert client.call_sync(np.ones(2, np.float32)) == 1.0
        with running(programs / "mean_service"):

            def served() -> bool:
                try:
                    return bool(client.call_sync(np.ones(2, np.float32)) == 1.0)
                except tb.Closed:  # it died between two looks
                    return False

            eventually(served)


def test_cpp_asks_python_for_a_tensor_and_with_types(programs: Path) -> None:
    kinds = []

    def mean(numbers: np.ndarray) -> float:
        kinds.append((type(numbers), numbers.dtype, numbers.flags.writeable))
        return float(numbers.mean())

    with serving(mean=mean):
        assert output_of(programs / "mean_client") == (
            "mean=2\nmean=5.5 by_row=2.5 8.5 \n",
            "",
        )
    assert kinds == [(np.ndarray, np.dtype(np.float32), True)]


def test_cpp_asks_cpp(programs: Path) -> None:
    with running(programs / "mean_service"):
        assert output_of(programs / "mean_client")[0] == "mean=2\nmean=5.5 by_row=2.5 8.5 \n"


def test_cpp_asks_two_services_at_once_in_one_thread(programs: Path) -> None:
    both = ["image mean=5.5", "mean=2"]
    with running(programs / "mean_service"):
        assert sorted(output_of(programs / "means_at_once")[0].splitlines()) == both
    with serving():
        assert sorted(output_of(programs / "means_at_once")[0].splitlines()) == both
    with serving(mean=lambda numbers: 1 / 0):
        errors = output_of(programs / "means_at_once")[1]
    assert "service 'mean' raised ZeroDivisionError" in errors


def test_cpp_is_told_what_a_python_callback_raised(programs: Path) -> None:
    def mean(numbers: np.ndarray) -> float:
        raise ValueError("no mean today")

    with serving(mean=mean):
        out, errors = output_of(programs / "mean_client")
    assert out == ""
    assert errors.startswith("service 'mean' raised ValueError: no mean today\nTraceback ")
    assert 'raise ValueError("no mean today")' in errors


def test_cpp_of_other_types_is_told_both(programs: Path) -> None:
    with serving(image_type=tb.PoseMessage):
        errors = output_of(programs / "mean_client")[1]
    assert "service 'image/mean': its request is of another type" in errors
    assert tb.PoseMessage.definition() in errors
    assert tb.ImageMessage.definition().splitlines()[1] in errors
