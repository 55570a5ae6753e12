"""Mirrors of queues of another domain (docs/internals/protocol.md, section 7)."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.queue_relay import Relay
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from tensorbus import _core
from tensorbus._base.participant import forget, participant


@pytest.fixture
def far(tmp_path: Path) -> Iterator[str]:
    """The domain of the homes."""
    path = str(tmp_path / "far")
    yield path
    forget(path)


@pytest.fixture(params=[False, True], ids=["plain", "redeliver"])
def redeliver(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def home(far: str, redeliver: bool) -> Iterator[tb.Queue[Any]]:
    """A queue of the other domain, with a mirror in this one."""
    with tb.Queue(maxsize=2, name="line", redeliver=redeliver, domain=far) as line:
        relay = Relay("line", far)
        try:
            yield line
        finally:
            relay.stop()
            line.close()


def double() -> None:
    """Doubles items until the queue ends; holds the last until it is told."""
    line = tb.Queue.open("line")
    results: tb.Queue[Any] = tb.Queue.open("results")
    for item in line:
        results.put({"number": item["number"], "data": 2 * item["data"]})
        line.task_done()
    tell("ended")


def hold() -> None:
    line = tb.Queue.open("line")
    tell(line.get()["number"])
    hear()


def item(number: int) -> dict[str, Any]:
    return {"number": number, "data": np.full((100, 100), number)}


def test_items_cross_and_are_done_and_the_end_does_too(
    elsewhere: Elsewhere, home: tb.Queue[Any]
) -> None:
    with tb.Queue(name="results") as results:
        workers = [elsewhere.start(double) for _ in range(2)]
        for number in range(20):
            home.put(item(number), timeout=PATIENCE)
        found = sorted((results.get(timeout=PATIENCE) for _ in range(20)), key=_number)
        assert [one["number"] for one in found] == list(range(20))
        assert all((one["data"] == 2 * one["number"]).all() for one in found)
        home.join(timeout=PATIENCE)
        home.shutdown()
        assert [worker.hear() for worker in workers] == ["ended"] * 2
        assert home.stats["lost"] == 0


def _number(one: dict[str, Any]) -> int:
    return int(one["number"])


def test_an_item_of_a_killed_process_is_lost_or_comes_again(
    elsewhere: Elsewhere, home: tb.Queue[Any], redeliver: bool
) -> None:
    worker = elsewhere.start(hold)
    home.put(item(7))
    assert worker.hear() == 7
    worker.kill()
    if redeliver:
        assert home.get(timeout=PATIENCE)["number"] == 7
        home.task_done()
    home.join(timeout=PATIENCE)
    assert home.stats["lost"] == (0 if redeliver else 1)


def test_puts_wait_for_room_at_home(home: tb.Queue[Any]) -> None:
    mirror: tb.Queue[Any] = tb.Queue.open("line")
    assert mirror.maxsize == 2
    for number in range(2):
        mirror.put(item(number), timeout=PATIENCE)
    with pytest.raises(queue.Full):
        mirror.put_nowait(item(2))
    with pytest.raises(queue.Full):
        mirror.put(item(2), timeout=0.05)
    assert mirror.qsize() == home.qsize() == 2
    assert [home.get()["number"] for _ in range(2)] == [0, 1]
    mirror.put_nowait(item(3))
    assert home.get()["number"] == 3
    with pytest.raises(queue.Empty):
        home.get_nowait()


def test_gets_take_what_is_at_home_and_leave_the_rest(home: tb.Queue[Any]) -> None:
    mirror: tb.Queue[Any] = tb.Queue.open("line")
    home.put(item(1))
    home.put(item(2))
    assert mirror.get_nowait()["number"] == 1
    assert home.get(timeout=PATIENCE)["number"] == 2
    mirror.task_done()
    home.task_done()
    mirror.join(timeout=PATIENCE)
    with pytest.raises(ValueError, match="task_done"):
        mirror.task_done()
    # Last, since an item that is offered to a get that has ended rests for a moment.
    with pytest.raises(queue.Empty):
        mirror.get_nowait()
    with pytest.raises(queue.Empty):
        mirror.get(timeout=0.05)


def test_what_nobody_waits_for_any_more_goes_back(far: str) -> None:
    with tb.Queue(name="line", domain=far) as home:
        relay = Relay("line", far)
        mirror: tb.Queue[Any] = tb.Queue.open("line")
        for _ in range(20):
            with pytest.raises(queue.Empty):
                mirror.get(timeout=0.001)
            home.put(item(1))
            assert home.get(timeout=PATIENCE)["number"] == 1
        relay.stop()


def test_a_mirror_that_is_closed_ends_every_wait_and_is_listed_no_more(far: str) -> None:
    with tb.Queue(name="line", domain=far):
        relay = Relay("line", far)
        (found,) = _core.list_queues(participant())
        assert (found.name, found.machine, found.origin) == ("line", "elsewhere", "line")
        mirror: tb.Queue[Any] = tb.Queue.open("line")
        with pytest.raises(tb.InvalidArgument, match="already exists"):
            tb.Queue(name="line")
        relay.stop()
        with pytest.raises(tb.Closed):
            mirror.get()
        eventually(lambda: not _core.list_queues(participant()))
        with tb.Queue(name="line"):
            pass


@pytest.mark.parametrize("origin", [("", "x"), ("x", ""), ("x" * 256, "x")])
def test_a_mirror_has_an_origin(origin: tuple[str, str]) -> None:
    with pytest.raises(tb.InvalidArgument, match="origin: "):
        _core.MirrorQueue(
            name="line",
            maxsize=0,
            redeliver=False,
            max_bytes=0,
            origin=origin,
            participant=participant(),
        )
