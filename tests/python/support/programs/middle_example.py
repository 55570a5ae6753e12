"""Runs examples/model_in_the_middle, and knows what comes out of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from support.harness import PATIENCE
from support.programs.cpp_programs import EXAMPLES, running

MIDDLE = EXAMPLES / "model_in_the_middle"
_FRAMES = 20


def classes_said(capture: Path, sink: Path) -> list[str]:
    """The lines of the sink."""
    with (
        running(sink, str(_FRAMES)) as hears,
        running(sys.executable, MIDDLE / "model.py"),
        running(capture, str(_FRAMES)) as draws,
    ):
        said = hears.communicate(timeout=4 * PATIENCE)[0]  # PyTorch loads, on a GPU much of it
        assert draws.wait(PATIENCE) == 0
    assert hears.returncode == 0
    return said.splitlines()


def _module_of(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected_classes(torch: ModuleType) -> list[str]:
    """What the sink says, by arithmetic of NumPy's and the same model here."""
    example = _module_of(MIDDLE / "model.py")
    model = example.make_model()
    y, x, c = np.mgrid[0:120, 0:160, 0:3]
    lines = []
    with torch.inference_mode():
        for number in range(_FRAMES):
            frame = (x * (c + 1) + y * number).astype(np.uint8)
            best = example.scores_of(model, torch.from_numpy(frame)).argmax()
            lines.append(f"frame {number}: class {best}")
    return lines
