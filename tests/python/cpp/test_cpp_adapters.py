"""The headers for PyTorch and DLPack in C++: the programs of tests/adapters."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.cuda import standin
from support.cuda.standin import needs_standin
from support.harness import PATIENCE
from support.plain_tensors import TORCH_DTYPES, TORCH_LAYOUTS, assert_same_tensor, tensor_of
from support.programs.cpp_programs import MARKS, WHY_NO_CUDA, build, torch_options
from support.repository import ROOT

pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = MARKS

PROJECT = ROOT / "tests/adapters"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PROJECT, tmp_path_factory.mktemp("adapters"), *torch_options())


@needs_standin
@pytest.mark.parametrize("program", ["torch_checks", "dlpack_checks", "cuda_checks"])
def test_what_holds_in_one_process(programs: Path, program: str) -> None:
    if program == "cuda_checks" and WHY_NO_CUDA:
        pytest.skip(WHY_NO_CUDA)
    environment = os.environ | standin.ENVIRONMENT
    done = subprocess.run([programs / program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


Through = Callable[[list[Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def through_cpp(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Through]:
    """What comes back from a C++ program, where it was PyTorch's."""
    domain = str(tmp_path_factory.mktemp("echo") / "domain")
    with (
        tb.Publisher("there", domain=domain) as publisher,
        tb.Subscriber("back", domain=domain, timeout=PATIENCE) as subscriber,
        subprocess.Popen(
            [programs / "torch_echo"], env=os.environ | {"TENSORBUS_DOMAIN": domain}
        ) as echo,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)

        def through(tensors: list[Any]) -> dict[str, Any]:
            publisher.publish(tensors)
            back: dict[str, Any] = subscriber.receive().data
            return back

        yield through
        echo.kill()


OTHER_DTYPES = ["float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32", "bits8", "uint4"]


@pytest.mark.parametrize("dtype", [*TORCH_DTYPES, *OTHER_DTYPES])
def test_a_tensor_of_every_dtype_keeps_every_bit(
    through_cpp: Through, torch: ModuleType, dtype: str
) -> None:
    if dtype == "uint4":  # which PyTorch can only look at
        tensor = torch.arange(6, dtype=torch.uint8).view(torch.uint4)
        (back,) = through_cpp([tensor])["tensors"]
        assert back.dtype == torch.uint4
        assert torch.equal(back.view(torch.uint8), tensor.view(torch.uint8))
        return
    tensor = tensor_of(dtype, torch)
    answer = through_cpp([tensor])
    assert_same_tensor(answer["tensors"][0], tensor, torch)
    assert answer["by_reference"]
    assert answer["copied"] == 0


@pytest.mark.parametrize("layout", TORCH_LAYOUTS)
def test_a_tensor_of_any_layout_keeps_its_strides(
    through_cpp: Through, torch: ModuleType, layout: str
) -> None:
    tensor = TORCH_LAYOUTS[layout](tensor_of("float32", torch))
    answer = through_cpp([tensor])
    (back,) = answer["tensors"]
    assert_same_tensor(back, tensor, torch)
    assert back.stride() == tensor.stride()
    assert answer["by_reference"] or not tensor.numel()
    assert answer["copied"] == 0


def test_what_pytorch_says_of_a_tensor_stays(through_cpp: Through, torch: ModuleType) -> None:
    conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
    sent = [torch.ones(3, requires_grad=True), conjugate, conjugate.imag, torch.tensor(7)]
    back = through_cpp(sent)["tensors"]
    for one, other in zip(back, sent, strict=True):
        assert_same_tensor(one, other, torch)
        assert (one.is_conj(), one.is_neg()) == (other.is_conj(), other.is_neg())
    assert back[0].is_leaf


def test_an_array_comes_back_as_a_tensor(through_cpp: Through, torch: ModuleType) -> None:
    """Also one that runs backwards, of which a copy is made."""
    array = np.arange(6, dtype=np.int16).reshape(2, 3)[::-1]
    answer = through_cpp([array])
    assert answer["tensors"][0].tolist() == array.tolist()
    assert not answer["by_reference"]


def test_a_dtype_that_pytorch_does_not_have_is_refused(through_cpp: Through) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    assert "no dtype float8_e3m4" in through_cpp([np.zeros(2, ml_dtypes.float8_e3m4)])["refused"]
