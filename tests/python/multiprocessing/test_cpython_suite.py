"""CPython's own tests of multiprocessing, where the Python installation has them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from support.harness import SANITIZED

# What is about our own classes: all of the tests take too long for every run.
_OURS = [
    "TestTimeouts",
    "WithManagerTestQueue",
    "WithProcessesTestConnection",
    "WithProcessesTestListener",
    "WithProcessesTestListenerClient",
    "WithProcessesTestPicklingConnections",
    "WithProcessesTestPoll",
    "WithProcessesTestPoolWorkerLifetime",
    "WithProcessesTestQueue",
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", ["spawn"] if SANITIZED else ["fork", "spawn"])
def test_cpythons_own_tests_of_our_classes_pass(method: str) -> None:
    if importlib.util.find_spec("test._test_multiprocessing") is None:
        pytest.skip("this Python is installed without its tests (Lib/test)")
    program = Path(__file__).with_name("cpython_suite.py")
    done = subprocess.run([sys.executable, program, method, *_OURS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
