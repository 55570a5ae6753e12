"""examples/nodes: a control loop of three programs."""

from __future__ import annotations

import os
import subprocess
import sys

from support.repository import ROOT

PROGRAM = ROOT / "examples/nodes/run.py"


def test_the_cart_goes_to_each_target_and_all_programs_end_well(domain: str) -> None:
    run = subprocess.run(
        [sys.executable, PROGRAM, "--rate=500", "--targets=[0.5, -0.25]"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TENSORBUS_DOMAIN": domain},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == ["from 0 to 0.5", "from 0.5 to -0.25"]
