"""Items that are on their way to a getter when it gives up, exits, or dies."""

from __future__ import annotations

import os
import queue
import random
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell


def put_one(address: str, name: str) -> None:
    tb.Queue.open(address).put({"name": name, "data": np.full(1 << 20, 7, np.uint8)})
    tell("put")
    hear()


def get_nothing(address: str) -> None:
    line = tb.Queue.open(address)
    with suppress(queue.Empty):
        tell(line.get(timeout=0.2)["name"])
    tell("empty")
    hear()


def drain(line: tb.Queue) -> list[str]:
    names = []
    with suppress(queue.Empty):
        while True:
            item = line.get(timeout=0.2)
            assert (item["data"] == 7).all()
            names.append(item["name"])
            line.task_done()
    return names


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("redeliver", [False, True])
def test_an_item_that_came_too_late_is_delivered_once_whatever_becomes_of_the_getter(
    elsewhere: Elsewhere, redeliver: bool, killed: bool
) -> None:
    with tb.Queue(redeliver=redeliver) as line:
        owner = elsewhere.start(put_one, line.address, "X")
        assert owner.hear() == "put"
        getter = elsewhere.start(get_nothing, line.address)
        owner.stop()  # the getter is offered X, and cannot have it
        assert getter.hear() == "empty"
        assert dict(line.stats).items() >= {"items": 1, "unfinished": 1, "lost": 0}.items()
        if killed:
            getter.kill()
        else:
            getter.finish()
        owner.signal(signal.SIGCONT)
        assert line.get(timeout=PATIENCE)["name"] == "X"
        line.task_done()
        assert line.join(PATIENCE)
        assert drain(line) == []
        assert dict(line.stats).items() >= {"items": 0, "unfinished": 0, "lost": 0}.items()


def get_one(address: str, patience: float) -> None:
    line = tb.Queue.open(address)
    name = ""
    while not name:
        with suppress(queue.Empty):
            name = line.get(timeout=patience)["name"]
    line.task_done()
    tell(name)
    hear()


@pytest.mark.parametrize("patience", [0.03, PATIENCE])
@pytest.mark.parametrize("killed", [False, True])
def test_task_done_is_of_the_item_that_was_got_and_not_of_one_that_was_on_its_way(
    elsewhere: Elsewhere, killed: bool, patience: float
) -> None:
    """And an item whose owner is stopped lets those behind it pass."""
    with tb.Queue(redeliver=True) as line:
        first = elsewhere.start(put_one, line.address, "X")
        assert first.hear() == "put"
        second = elsewhere.start(put_one, line.address, "Y")
        assert second.hear() == "put"
        first.stop()
        getter = elsewhere.start(get_one, line.address, patience)
        assert getter.hear() == "Y"
        assert dict(line.stats).items() >= {"items": 1, "unfinished": 1, "lost": 0}.items()
        if killed:
            getter.kill()
        first.signal(signal.SIGCONT)
        assert drain(line) == ["X"]
        assert line.join(PATIENCE)


def test_task_done_of_an_item_that_this_process_never_got_is_an_error() -> None:
    with tb.Queue(redeliver=True) as line:
        line.put(1)
        with pytest.raises(ValueError, match="task_done"):
            line.task_done()
        assert line.get() == 1
        line.task_done()
        with pytest.raises(ValueError, match="task_done"):
            line.task_done()


@pytest.mark.parametrize("maxsize", [b"8", 1.5, True, 2**32])
def test_a_maxsize_that_is_no_count_is_refused(maxsize: object) -> None:
    with pytest.raises(tb.InvalidArgument, match="maxsize="):
        tb.Queue(maxsize)  # type: ignore[arg-type]


def find_nothing(address: str) -> None:
    with pytest.raises(queue.Empty):
        tb.Queue.open(address).get(timeout=0.05)


def test_what_comes_back_does_not_exceed_maxsize(elsewhere: Elsewhere) -> None:
    with tb.Queue(maxsize=1) as line:
        owner = elsewhere.start(put_one, line.address, "X")
        assert owner.hear() == "put"
        owner.stop()
        elsewhere.run(find_nothing, line.address)  # the owner does not lend it to others
        with pytest.raises(queue.Full):
            line.put("Y", timeout=0.05)
        assert line.qsize() == 1
        owner.signal(signal.SIGCONT)
        assert line.get(timeout=PATIENCE)["name"] == "X"


def get_impatiently(address: str, path: str, seed: int) -> None:
    """Forks getters, each of which ends right after the first time that it found nothing."""
    chance = random.Random(seed)
    got = os.open(path, os.O_WRONLY | os.O_APPEND)
    tell("ready")
    for _ in range(40):
        child = os.fork()
        if child == 0:
            line = tb.Queue.open(address)
            line.qsize()  # connected
            with suppress(queue.Empty):
                for _ in range(50):
                    item = line.get(timeout=0.00002 + chance.random() * 0.0006)
                    os.write(got, b"%d\n" % item["number"])
                    line.task_done()
            os._exit(0)
        chance.random()
        assert os.waitpid(child, 0)[1] == 0
    tell("over")


@pytest.mark.parametrize("redeliver", [False, True])
def test_impatient_getters_that_exit_at_once_lose_and_double_nothing(
    elsewhere: Elsewhere, tmp_path: Path, redeliver: bool
) -> None:
    path = tmp_path / "got"
    path.touch()
    with tb.Queue(redeliver=redeliver) as line:
        getters = [elsewhere.start(get_impatiently, line.address, str(path), n) for n in range(2)]
        assert [getter.hear() for getter in getters] == ["ready", "ready"]
        data = np.zeros(4096, np.uint8)
        count = 600
        for number in range(count):
            line.put({"number": number, "data": data})
        assert [getter.hear() for getter in getters] == ["over", "over"]
        rest = []
        with suppress(queue.Empty):
            while True:
                rest.append(line.get(timeout=0.2)["number"])
                line.task_done()
        taken = [int(word) for word in path.read_text().split()]
        assert sorted(taken + rest) == list(range(count))
        assert line.join(PATIENCE)
        eventually(
            lambda: dict(line.stats).items() >= {"items": 0, "unfinished": 0, "lost": 0}.items()
        )
