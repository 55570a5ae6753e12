"""A short storm: `scripts/deep storm` kills 200."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recording_storm.storm import run


@pytest.mark.slow
def test_killed_recorders_and_players_lose_nothing(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    figures = run(tmp_path, 10, seed)
    assert figures.kills == 10, seed
    assert figures.in_files >= figures.acknowledged > 0, seed
    assert figures.delivered > 0, seed
