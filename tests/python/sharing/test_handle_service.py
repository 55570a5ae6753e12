"""examples/handle_service: tensors that go through an HTTP service by handle."""

from __future__ import annotations

import os
import subprocess
import sys

from support.repository import ROOT

CLIENT = ROOT / "examples/handle_service/client.py"


def test_the_client_gets_its_tensors_back_and_prints_both_times(domain: str) -> None:
    run = subprocess.run(
        [sys.executable, CLIENT, "3", "32", "24"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TENSORBUS_DOMAIN": domain},
    )
    assert (run.returncode, run.stderr) == (0, "")
    first, *times = run.stdout.splitlines()
    assert first.startswith("(32, 24, 3) float32")
    assert [line.split(":")[0] for line in times] == ["by handle, over HTTP", "by pickle, over TCP"]
