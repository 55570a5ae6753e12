"""What scripts/deep writes into docs/internals/evidence.md is what its parts have found."""

from __future__ import annotations

import importlib.util
import subprocess
from typing import Any

import pytest

from support.repository import ROOT


def imported() -> Any:
    spec = importlib.util.spec_from_file_location("deep_page", ROOT / "scripts/lib/deep_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


deep_page = imported()
PAGE = "before\n<!-- deep: figures -->\n*Not run yet.*\n<!-- end -->\nafter\n"


def row(part: str, figures: str = "3") -> list[str]:
    return [f"`{part}`", "ok", "today", "1 min", figures]


def test_a_row_takes_the_place_of_the_one_before_and_leaves_the_others() -> None:
    page = deep_page.with_row(PAGE, row("fuzz"))
    page = deep_page.with_row(page, row("kills", "old"))
    page = deep_page.with_row(page, row("kills", "new"))
    assert page.startswith("before\n<!-- deep: figures -->\n| part |")
    assert page.endswith("<!-- end -->\nafter\n")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == ["| `kills` | ok | today | 1 min | new |", "| `fuzz` | ok | today | 1 min | 3 |"]


def test_the_page_has_the_place_and_every_part_has_figures() -> None:
    assert deep_page.BLOCK.search(deep_page.PAGE.read_text())
    listed = subprocess.check_output([ROOT / "scripts/deep", "--list"], text=True)
    parts = [line.split()[0] for line in listed.splitlines()]
    assert sorted(parts) == sorted(deep_page.ORDER) == sorted(deep_page.FIGURES)


@pytest.mark.parametrize(
    ("part", "log", "figures"),
    [
        (
            "asan",
            "100% tests passed, 0 tests failed out of 1204\n"
            "== 2 failed, 1100 passed, 31 skipped in 901.12s (0:15:01) ==\n",
            "1,204 C++ tests, 1,100 Python tests passed, 2 Python tests failed, "
            "31 Python tests skipped",
        ),
        ("tsan", "100% tests passed out of 900\n", "900 C++ tests"),
        ("tidy", "a.cpp:1:2: error: bad [x]\n", "1 findings"),
        ("fuzz", "control   1000  10  20  0\nsample   500  10  30  1\n", "2 targets, 1,500 exec"),
        ("kills", "seed    7\nkills    10049\nwrong samples      0\n", "10,049 kills, ? samples"),
        ("storm", "seed   7\nkilled    20000\nitems    4\n", "20,000 kills, ? stops"),
        ("ray", "actors of Ray: 500 kills, 0 wrong\n", "500 kills, 0 wrong"),
        ("bridge", "seed   7\nfaults    500\nwrong   0\n", "500 faults, ? connections"),
        (
            "older",
            "100% tests passed out of 900\n== 90 passed, 1 skipped in 9.1s ==\n"
            "100% tests passed out of 100\n== 10 passed in 9.1s ==\n",
            "1,000 runs of C++ tests, 100 of Python tests passed, 1 of Python tests skipped",
        ),
        ("musl", "100% tests passed out of 200\n", "200 runs of C++ tests"),
        ("containers", "== 5 passed in 31.02s ==\n", "5 of Python tests passed"),
        ("arm64", "100% tests passed out of 1700\n" * 3, "5,100 runs of C++ tests"),
        (
            "wheels",
            "tensorbus-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl   1 2.28\n"
            "-- bullseye\n15 C tests passed\n== 90 passed, 1 skipped in 9.1s ==\n"
            "-- sid\n15 C tests passed\n== 10 passed in 9.1s ==\n",
            "1 wheels; bullseye, sid: 30 C tests, 100 of Python tests passed, 1 of Python tests",
        ),
        ("debian", "-- debootstrap of bookworm from http://x\n", "? C++ tests; bookworm"),
    ],
)
def test_figures_are_what_the_log_says(part: str, log: str, figures: str) -> None:
    assert deep_page.FIGURES[part](log).startswith(figures)
