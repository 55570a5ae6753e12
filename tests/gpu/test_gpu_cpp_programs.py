"""Programs of C++ with CUDA, and a model in Python between them: nothing leaves the GPU."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from support.cuda.gpu_tensors import not_in_rehearsal
from support.programs.middle_example import MIDDLE, classes_said, expected_classes


@not_in_rehearsal
def test_a_model_in_python_stands_between_two_cuda_programs(torch: ModuleType) -> None:
    programs = Path(os.environ["TENSORBUS_EXAMPLES"]) / MIDDLE.name  # scripts/test --gpu built them
    if not (programs / "cuda_sink").exists():
        pytest.skip("CUDA's compiler is not installed")
    said = classes_said(programs / "cuda_capture", programs / "cuda_sink")
    assert said == expected_classes(torch)
