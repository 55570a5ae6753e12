"""What the benchmarks make of their figures is right, and what they compare with works here."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from support.repository import ROOT

BENCH = ROOT / "bench"


def imported(name: str) -> ModuleType:
    """A module of bench."""
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCH))


figures = imported("harness.figures")
tables = imported("tables")
peer_tables = imported("peer_tables")
goals = imported("goals")
fill_pages = imported("fill_pages")
floor_table = imported("floor_table")


class TestFigures:
    def test_a_percentile_is_what_so_many_do_not_exceed(self) -> None:
        times = list(range(1, 10_001))
        assert figures.latency_figures(times) == {
            "p50_ns": 5001,
            "p99_ns": 9901,
            "p999_ns": 9991,
        }

    def test_a_percentile_that_would_only_be_the_worst_is_left_out(self) -> None:
        assert figures.latency_figures([3, 1, 2]) == {"p50_ns": 2}
        assert set(figures.latency_figures([1] * 200)) == {"p50_ns", "p99_ns"}

    def test_rows_whose_repetitions_overlap_cannot_be_told_apart(self) -> None:
        assert figures.is_within_spread([10, 14, 12], [13, 15, 14])
        assert not figures.is_within_spread([10, 11, 10], [13, 14, 14])

    def test_a_row_is_held_against_its_nearest_neighbour(self) -> None:
        rows = {"fast": [1.0, 1.1], "wide": [5.0, 9.0], "slow": [8.0, 8.1]}
        assert figures.indistinct(rows) == {"wide": "slow", "slow": "wide"}


def rows_of(**p50: list[float]) -> Any:
    return {row.replace("_", " "): {"p50_ns": values} for row, values in p50.items()}


def test_rows_of_several_kinds_share_a_table() -> None:
    rows: Any = {
        "64 B, TCP": {"p50_ns": [10.0, 10.0]},
        "64 B, topic": {"p50_ns": [20.0, 40.0]},
        "frames": {"bytes_per_second": [1e9, 2e9], "missed": [0, 0]},
    }
    head, tcp, topic, frames = tables.table_of("python_machines", rows)
    assert head[:4] == ["", "p50", "bytes per second", "missed"]
    assert (tcp[0], topic[0], frames[0]) == tuple(rows)
    assert topic[head.index("x floor")] == "3.00"
    assert frames[head.index("x floor")] == ""
    assert frames[head.index("spread")] == "1.00 GB/s - 2.00 GB/s"


class TestTables:
    def test_a_row_within_the_spread_of_its_neighbour_says_so(self) -> None:
        rows = rows_of(futex=[100, 120], a=[110, 115], far=[900, 901])
        table = tables.timed_table("blocking_latency", rows)
        assert table[0] == ["", "p50", "spread", "x floor", "within the spread of"]
        assert table[1:] == [
            ["futex", "110 ns", "100 ns - 120 ns", "1.00", "a"],
            ["a", "112 ns", "110 ns - 115 ns", "1.03", "futex"],
            ["far", "900 ns", "900 ns - 901 ns", "8.25", ""],
        ]

    def test_a_floor_is_that_of_the_rows_own_group(self) -> None:
        assert tables.floor_of("copied_publish", "1 MB: publish()") == "1 MB: memcpy to a memfd"
        assert tables.floor_of("blocking_latency", "64 B loan, asleep") == "futex"
        assert tables.floor_of("size_latency", "64 B, polled") == "line, half a round trip"
        assert tables.floor_of("size_latency", "64 B, asleep") == "futex"
        assert tables.floor_of("size_latency", "64 B, polled, pages read") == ""

    def test_peers_are_shown_by_size_and_what_is_absent_with_its_reason(self) -> None:
        rows: Any = {
            "64 B: ours": {"p50_ns": [100.0, 102.0]},
            "1 MB: ours": {"p50_ns": [200.0, 202.0]},
            "64 B: theirs": {"p50_ns": [3000.0, 3002.0]},
            "nobody": {"absent": ["is not installed"]},
        }
        shown = dict(peer_tables.peer_tables("One way", rows))
        assert shown["One way: p50"] == [
            ["", "64 B", "1 MB"],
            ["ours", "101 ns", "201 ns"],
            ["theirs", "3001 ns", ""],
        ]
        assert shown["One way: what is absent"][1:] == [["nobody", "is not installed"]]
        assert [row[0] for row in shown["One way: 64 B"][1:]] == ["ours", "theirs"]

    def test_every_row_of_a_table_is_as_wide_as_its_head(self) -> None:
        rows = {**rows_of(a=[1, 2]), "b": {"absent": ["why"]}}
        assert {len(row) for row in tables.timed_table("python_rate", rows)} == {3}

    def test_a_table_without_its_floor_or_without_any_figure_says_what_is_absent(self) -> None:
        why: Any = {"absent": ["is not installed"]}
        assert tables.timed_table("python_bridge", {**rows_of(a=[1, 3]), "iperf3": why}) == [
            ["", "p50", "spread", "x floor"],
            ["a", "2 ns", "1 ns - 3 ns", ""],
            ["iperf3", "absent: is not installed", "", ""],
        ]
        assert tables.timed_table("python_bridge", {"iperf3": why}) == [
            ["", ""],
            ["iperf3", "absent: is not installed"],
        ]


class TestGoals:
    def test_a_goal_without_its_benchmark_is_not_shown(self) -> None:
        assert len(goals.goals_table({})) == 1

    def test_a_goal_is_met_or_missed_by_its_worst_row(self) -> None:
        rows = {"futex": [100.0], "64 B, asleep": [110.0], "1 MB, asleep": [130.0]}
        judge = goals.floor_goal(", asleep", "futex", 1.25)
        assert judge(rows_of(**rows)) == (False, "1 MB, asleep: 1.30 x futex")

    def test_ratios_are_those_of_neighbours_in_time(self) -> None:
        # Twice as slow a machine in the second repetition, and the ratio is the same.
        rows = rows_of(**{"1 MB: ours": [10.0, 20.0], "1 MB: floor": [10.0, 20.0]})
        assert goals.floor_goal("ours", ": floor", 1.05)(rows) == (True, "1 MB: ours: 1.00 x floor")

    def test_a_peer_that_is_absent_is_no_win(self) -> None:
        rows = rows_of(**{"24.9 MB: tensorbus loan, polled": [1.0]})
        assert goals.faster_goal("pickle over TCP", 1000)(rows) == (
            False,
            "pickle over TCP is absent",
        )

    def test_a_peer_is_beaten_where_it_is_nearest(self) -> None:
        ours = {"64 B: tensorbus loan, polled": [10.0], "1 MB: tensorbus loan, polled": [10.0]}
        theirs = {"64 B: peer": [20.0], "1 MB: peer": [9.0]}
        judge = goals.faster_at_all_sizes_goal("peer")
        assert judge(rows_of(**ours, **theirs)) == (False, "1 MB: 0.90 x")
        theirs["1 MB: peer"] = [11.0]
        assert judge(rows_of(**ours, **theirs)) == (True, "1 MB: 1.10 x")
        assert judge(rows_of(**ours)) == (False, "peer is absent")


class TestPages:
    def test_every_block_can_be_filled(self) -> None:
        found = [name for page in fill_pages.PAGES for _, name, _ in blocks(page.read_text())]
        assert {"overview peers", "goals", "plot latency"} <= set(found)
        for name in found:
            assert name in fill_pages.MAKERS or name in tables.TITLES
            assert fill_pages.source(name) in {None, *tables.TITLES}

    def test_a_block_gets_what_was_measured(self) -> None:
        report: Any = {
            "machine": {"cores": "2 of 2", "cpu": "abacus"},
            "results": {"python_peers": {"64 B: tensorbus loan": {"p50_ns": [100.0, 102.0]}}},
        }
        block = "<!-- bench: {} -->\nold\n<!-- end -->\n"
        text = "a\n" + block.format("overview peers") + block.format("plot latency") + "b\n"
        page = fill_pages.ROOT / "README.md"
        new = fill_pages.filled(text, report, page)
        assert "| tensorbus, asleep | 101 ns |" in new
        assert "(bench/results/latency.svg)" in new
        assert "old" not in new
        assert fill_pages.filled(new, report, page) == new

    def test_the_short_table_has_what_was_measured(self) -> None:
        rows = rows_of(**{"64 B loan, asleep": [40_000.0], "futex": [30_000.0]})
        table = floor_table.floor_table({"blocking_latency": rows})
        assert table[1:] == [["one way, C++, the receiver sleeps", "40.0 us", "30.0 us, a futex"]]

    def test_it_says_what_it_has_filled_and_what_not(self) -> None:
        block = "<!-- bench: {} -->\n{}\n<!-- end -->\n"
        text = block.format("goals", "old") + block.format("soak", fill_pages.UNMEASURED)
        measured: Any = {"machine": {}, "results": {}}
        assert fill_pages.told(fill_pages.filled(text, measured, fill_pages.ROOT), measured) == (
            "1 of 2 blocks filled; not in this run: soak; 1 never measured"
        )
        assert fill_pages.told(block.format("goals", "new"), measured) == "1 of 1 blocks filled"

    def test_a_block_that_was_not_measured_stays(self) -> None:
        text = "<!-- bench: python_rate -->\nold\n<!-- end -->\n"
        report = {"machine": {}, "results": {}}
        assert fill_pages.filled(text, report, fill_pages.ROOT / "README.md") == text


def blocks(text: str) -> list[Any]:
    return fill_pages.BLOCK.findall(text)


FAST = [
    "floor: a word, polled",
    "floor: eventfd",
    "tensorbus loan, polled",
    "tensorbus loan",
    "tensorbus, any tensor",
    "tensorbus Queue",
    "iceoryx2, polled",
    "iceoryx2",
    "Zenoh, shared memory",
    "pyzmq ipc",
    "pipe",
    "shared_memory + Queue, fresh",
    "shared_memory + Queue, one block",
    "torch.multiprocessing.Queue, fresh",
    "torch.multiprocessing.Queue, shared",
    "pickle over TCP",
]
SLOW = ["Ray objects"]


def bench_python(*arguments: str, timeout: float = 100) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCH), *sys.path])},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def peers(*names: str, timeout: float = 100) -> str:
    return bench_python("-m", "peers", *names, timeout=timeout)


def tried(*names: str, timeout: float = 100) -> dict[str, Any]:
    found = [json.loads(line) for line in peers(*names, timeout=timeout).splitlines()]
    return {each["name"]: each for each in found}


@pytest.fixture(scope="module")
def fast() -> dict[str, Any]:
    """What became of all of them, in one program: they fork from where PyTorch is imported."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    return tried(*FAST)


def check(peer: dict[str, Any]) -> None:
    if "absent" in peer:
        pytest.skip(peer["absent"])
    assert set(peer.get("sizes", peer)) == {"64", "65536"}
    for values in peer["sizes"].values():
        assert values["messages"] >= 5
        assert values["p50_ns"] > 0


@pytest.mark.parametrize("name", FAST)
def test_messages_go_through_the_peer(name: str, fast: dict[str, Any]) -> None:
    check(fast[name])


@pytest.mark.slow
@pytest.mark.timeout(600)  # it starts for minutes if others compute, too
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", SLOW)
def test_messages_go_through_the_slow_peer(name: str) -> None:
    check(tried(name, timeout=500)[name])


BROKEN = """
import os
import torch
from harness.one_way import Failed, Pace, measure
from peers.pipe import Pipe

class Loses(Pipe):
    def send(self, message):
        message[0] += 1
        super().send(message)

class Dies(Pipe):
    def open_sender(self):
        os._exit(1)

for kind in (Loses, Dies):
    try:
        measure(kind, [64], Pace(0.001))
    except Failed as failure:
        print(failure)
"""


@pytest.mark.usefixtures("torch")
def test_a_peer_that_loses_messages_or_dies_is_found_out() -> None:
    assert bench_python("-c", BROKEN).splitlines() == [
        "RuntimeError: message 2 came instead of 1",
        "a process of it died",
    ]


@pytest.mark.usefixtures("torch")
def test_all_peers_are_tried() -> None:
    names = {kind.name for kind in imported("peers").PEERS}
    assert names == {*FAST, *SLOW, "pyarrow Plasma"}
