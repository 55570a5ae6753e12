"""The programs of docs/tasks/launchers.md run, each with its launcher, where that is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.harness import PATIENCE
from support.programs.task_pages import PAGES, write_programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # each rank imports PyTorch

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2")


def output_of(*command: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["train.py", "accelerated.py"])
def test_ranks_use_one_copy_of_the_data(program: str, tmp_path: Path) -> None:
    for needed in ("torch", "accelerate") if program == "accelerated.py" else ("torch",):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    write_programs("launchers", tmp_path)
    page = (PAGES / "launchers.md").read_text()
    (shown,) = re.findall(rf"^\$ torchrun .* {program}\n((?:rank .*\n)+)", page, re.MULTILINE)
    told = output_of("-m", *TORCHRUN, program, folder=tmp_path)
    # Two processes print: the end of one line may come after the other line.
    assert sorted(re.findall(r"rank \d: \d+ images", told)) == sorted(shown.splitlines())


@pytest.mark.skipif(find_spec("monarch") is None, reason="Monarch is not installed")
def test_actors_of_monarch_attach(tmp_path: Path) -> None:
    write_programs("launchers", tmp_path)
    assert output_of("trainers.py", folder=tmp_path).endswith("[1000.0, 1000.0]\n")
