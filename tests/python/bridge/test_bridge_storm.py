"""A short storm of faults between two machines; `scripts/deep bridge` runs a long one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.harness import PATIENCE, here_first


@pytest.mark.machines
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "options",
    [["--faults", "15"], ["--tls", "--faults", "8"], ["--queues", "--faults", "8"]],
    ids=str,
)
def test_in_a_storm_no_byte_is_wrong_and_what_is_lost_is_counted(options: list[str]) -> None:
    storm = subprocess.run(
        [sys.executable, "-m", "bridge_storm", "--seed", "1", *options],
        env=here_first(),
        capture_output=True,
        text=True,
        timeout=240 + PATIENCE,
    )
    assert storm.returncode == 0, storm.stdout + storm.stderr
