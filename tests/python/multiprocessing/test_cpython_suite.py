"""CPython's own tests of multiprocessing, where the Python installation has them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_HOUR = 3600.0  # with spawn on a busy machine


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_cpythons_own_tests_pass(method: str) -> None:
    if importlib.util.find_spec("test._test_multiprocessing") is None:
        pytest.skip("this Python is installed without its tests (Lib/test)")
    program = Path(__file__).with_name("cpython_suite.py")
    done = subprocess.run(
        [sys.executable, program, method], capture_output=True, text=True, timeout=_HOUR
    )
    assert done.returncode == 0, done.stderr
