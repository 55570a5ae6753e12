"""A short storm (scripts/deep runs a long one), and mistakes that its ledger finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storm.ledger import Life, Totals, balance
from storm.records import Record, Recorder, read
from support.harness import PATIENCE, SANITIZED, here_first

KILLS = 150


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(SANITIZED, reason="forks of processes with threads, see test_fork.py")
def test_in_a_storm_every_item_is_delivered_once_or_lost_by_the_rules() -> None:
    storm = subprocess.run(
        [sys.executable, "-m", "storm", "--kills", str(KILLS)],
        env=here_first(),
        capture_output=True,
        text=True,
        timeout=240 + PATIENCE,
    )
    assert storm.returncode == 0, storm.stdout + storm.stderr


@pytest.mark.slow
@pytest.mark.skipif(SANITIZED, reason="forks of processes with threads, see test_fork.py")
@pytest.mark.parametrize("options", [[], ["--redeliver"]], ids=" ".join)
def test_in_a_storm_every_tensor_stays_whole_and_no_byte_is_left(options: list[str]) -> None:
    storm = subprocess.run(
        [sys.executable, "-m", "storm.tensors", "--seconds", "4", *options],
        env=here_first(),
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )
    assert storm.returncode == 0, storm.stdout + storm.stderr


END = 1000  # when those who die in these tests do


def told(*steps: str, dies: bool = False, name: str = "one") -> Life:
    """A life of steps like "put ok 1", one after the other; of queue "q", where nothing is said."""
    records = []
    for moment, step in enumerate(steps):
        what, outcome, item, *more = step.split()
        where = more[0] if more else "q"
        when = int(more[1]) if more[1:] else moment
        records.append(Record(when, what, outcome, where, int(item)))
    return Life(name, records, END if dies else None)


def wrong(*lives: Life, redeliver: bool = False, **totals: int) -> list[str]:
    return balance(lives, {"q": redeliver}, {"q": Totals(**totals)}).wrong


GETS = ("get ? 0", "get ok 1")
FINISHES = (*GETS, "done ? 1", "done ok 1")
PUT = told("put ? 1", "put ok 1", name="producer")


@pytest.mark.parametrize("redeliver", [False, True])
def test_the_ledger_balances_when_all_is_well(redeliver: bool) -> None:
    producer = told("put ? 1", "put ok 1", "put ? 2", "put full 2", "put ? 3", dies=True)
    getter = told("get ? 0", "get empty 0", *FINISHES, "get ? 0", dies=True)
    assert wrong(producer, getter, redeliver=redeliver) == []
    assert wrong(PUT, told("get ? 0", dies=True), told(*FINISHES)) == []


def test_a_loss_has_a_getter_that_died_with_it_and_is_counted() -> None:
    assert wrong(PUT, told(*GETS, dies=True), lost=1) == []
    assert wrong(PUT, told("get ? 0", dies=True), lost=1) == []
    assert wrong(PUT, told(*GETS, "done ? 1", dies=True), lost=1) == []
    assert wrong(PUT, told(*GETS, "done ? 1", dies=True), lost=0) == []
    assert wrong(PUT, told(*GETS, "get ? 0", "get empty 0", dies=True), lost=0) == []


def test_what_died_with_its_getter_comes_back_with_redeliver() -> None:
    again = told("get ? 0", f"get ok 1 q {END}", f"done ? 1 q {END}", f"done ok 1 q {END}")
    for dead in (told(*GETS, dies=True), told(*GETS, "done ? 1", dies=True)):
        assert wrong(PUT, dead, again, redeliver=True) == []
    assert wrong(PUT, told(*GETS, "done ? 1", dies=True), redeliver=True) == []


def test_the_ledger_finds_an_item_that_is_lost() -> None:
    empty_handed = told("get ? 0", "get empty 0", dies=True)
    assert "missing: 1 of q reached nobody" in wrong(PUT, empty_handed)[0]
    assert "missing: 1 of q reached nobody" in wrong(PUT, empty_handed, lost=1)[0]
    assert "missing" in wrong(PUT, told("get ? 0", dies=True), redeliver=True)[0]
    assert "did not come back" in wrong(PUT, told(*GETS, dies=True), redeliver=True)[0]
    two = told("put ? 1", "put ok 1", "put ? 2", "put ok 2")
    assert "missing: 2 of q" in wrong(two, told("get ? 0", dies=True), lost=1)[0]


def test_the_ledger_finds_a_loss_that_is_not_counted_or_counted_and_none() -> None:
    assert wrong(PUT, told(*GETS, dies=True)) == ["q counts 0 lost; 1 to 1 were"]
    assert wrong(PUT, told("get ? 0", dies=True)) == ["q counts 0 lost; 1 to 1 were"]
    assert wrong(PUT, told(*FINISHES, dies=True), lost=1) == ["q counts 1 lost; 0 to 0 were"]
    assert wrong(PUT, told(*FINISHES), lost=1) == ["q counts 1 lost; 0 to 0 were"]
    assert wrong(PUT, told(*FINISHES), redeliver=True, lost=1) == ["q counts 1 lost; 0 to 0 were"]


def test_the_ledger_finds_an_item_that_is_doubled() -> None:
    other = told("get ? 0", f"get ok 1 q {END}", f"done ? 1 q {END}", f"done ok 1 q {END}")
    assert "doubled" in wrong(PUT, told(*FINISHES), other)[0]
    assert "doubled" in wrong(PUT, told(*GETS, dies=True), other, lost=1)[0]
    finished = told(*FINISHES, dies=True)
    assert "again after its task_done" in wrong(PUT, finished, other, redeliver=True)[0]
    living = told(*GETS, dies=True)
    early = told("get ? 0", f"get ok 1 q {END - 1}", "done ? 1", "done ok 1")
    assert "again while its getter lived" in wrong(PUT, living, early, redeliver=True)[0]


def test_the_ledger_finds_an_item_that_nobody_put_or_put_says_is_not_there() -> None:
    assert "nobody put it" in wrong(told(*FINISHES))[0]
    assert "said Full" in wrong(told("put ? 1", "put full 1"), told(*FINISHES))[0]


def test_the_ledger_finds_a_queue_that_is_not_empty_in_the_end() -> None:
    assert "unfinished=1" in wrong(PUT, told(*FINISHES), unfinished=1)[0]
    assert "items=1" in wrong(PUT, told(*FINISHES), items=1)[0]


def test_the_ledger_finds_a_share_that_was_used_too_often() -> None:
    life = told("share ok 1 s", "attach ? 0 s", "attach ok 0 s", "attach ok 0 s")
    assert "doubled: the share s is for 1" in wrong(life)[0]
    assert wrong(told("share ok 0 s", "attach ok 0 s", "attach ok 0 s")) == []


def test_what_a_process_finds_wrong_is_wrong(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "one")
    recorder.wrong("torn: a\nline", "q")
    assert wrong(Life("one", read(tmp_path / "one"))) == ["one: torn: a\nline (q)"]


def test_a_line_that_a_death_has_cut_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "one"
    recorder = Recorder(path)
    recorder.write("put", "?", "q", 1)
    whole = path.read_bytes()
    recorder.write("put", "ok", "q", 1)
    for cut in range(len(whole), len(path.read_bytes())):
        path.write_bytes(path.read_bytes()[:-1])
        assert len(read(path)) == 1, cut
