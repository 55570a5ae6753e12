"""CPython's own tests of multiprocessing, where the Python installation has them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_HOUR = 3600.0  # for a busy machine

# With the other methods all of it takes too long for every run: what is about our own classes.
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
@pytest.mark.parametrize(
    ("method", "classes"), [("fork", []), ("spawn", _OURS), ("forkserver", _OURS)]
)
def test_cpythons_own_tests_pass(method: str, classes: list[str]) -> None:
    if importlib.util.find_spec("test._test_multiprocessing") is None:
        pytest.skip("this Python is installed without its tests (Lib/test)")
    program = Path(__file__).with_name("cpython_suite.py")
    done = subprocess.run(
        [sys.executable, program, method, *classes], capture_output=True, text=True, timeout=_HOUR
    )
    assert done.returncode == 0, done.stderr
