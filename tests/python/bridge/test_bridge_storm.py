"""A short storm of faults between two machines; `scripts/deep bridge` runs a long one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.harness import PATIENCE, here_first

FAULTS = 15


@pytest.mark.machines
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_in_a_storm_no_byte_is_wrong_and_reliable_topics_lose_what_ended_only() -> None:
    storm = subprocess.run(
        [sys.executable, "-m", "bridge_storm", "--faults", str(FAULTS), "--seed", "1"],
        env=here_first(),
        capture_output=True,
        text=True,
        timeout=240 + PATIENCE,
    )
    assert storm.returncode == 0, storm.stdout + storm.stderr
