"""The benchmarks of GPUs run over the stand-in for the driver; their figures mean nothing there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.cuda.standin import ENVIRONMENT, needs_standin
from support.repository import ROOT

pytestmark = [needs_standin, pytest.mark.slow, pytest.mark.usefixtures("torch")]

BENCH = ROOT / "bench"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("python_cuda", {"24.9 MB", "64 B", "attach 64 MiB, the first time"}),
        ("python_cuda_rate", {"tensorbus Queue, fresh", "tensorbus topic, one 24.9 MB"}),
        ("python_cuda_peers", {"tensorbus topic", "tensorbus Queue", "torch Queue", "pickle"}),
    ],
)
def test_it_measures_its_rows(name: str, rows: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, BENCH / f"{name}.py", "--quick"],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    measured = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows <= {values["row"] for values in measured}
    assert {values["repetition"] for values in measured} == {0, 1}


def test_the_judge_has_all_rows_that_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    goals = pytest.importorskip("goals")
    tables = pytest.importorskip("tables")
    fast = {"p50_ns": [10.0], "each_ns": [1.0]}
    slow = {"p50_ns": [10.0], "each_ns": [9.0]}
    results = {
        "cuda_round_trip": {name: fast for name in ("24.9 MB, main memory", "24.9 MB", "4 GiB")},
        "python_cuda": {name: fast for name in ("24.9 MB, main memory", "24.9 MB", "4 GiB")},
        "python_cuda_rate": {
            **{f"torch Queue, {which}": slow for which in ("one 24.9 MB", "fresh")},
            **{f"tensorbus Queue, {which}": fast for which in ("one 24.9 MB", "fresh")},
            "tensorbus topic, one 24.9 MB": fast,
        },
    }
    judged = goals.goals_table(results)[1:]
    assert len(judged) == 5
    assert {row[-1] for row in judged} == {"met"}
    for name, rows in results.items():
        assert len(tables.table_of(name, rows)) == len(rows) + 1
