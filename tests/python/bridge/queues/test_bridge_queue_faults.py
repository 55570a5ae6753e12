"""Queues between machines when the network is cut, and when bridges or machines are gone."""

from __future__ import annotations

import queue as standard
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridge_queues import hold_last, in_thread, make_queue, opened, waiting_gets
from support.bridge.bridges import Machine, Relay, two_machines
from support.harness import PATIENCE, Elsewhere, eventually

Pair = tuple[Machine, Machine]


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    yield relay
    relay.close()


LARGE = 1 << 4000  # more than a ring's slot


def test_a_home_that_is_stopped_loses_nothing(pair: Pair, name: str, elsewhere: Elsewhere) -> None:
    here, there = pair
    home = elsewhere.start(make_queue, name, here.domain)
    home.hear()
    mirror = opened(name, there)
    mirror.put(1)
    assert mirror.get(timeout=PATIENCE) == 1
    home.stop()
    with pytest.raises(standard.Empty):
        mirror.get(timeout=0.05)
    mirror.put(2, timeout=PATIENCE)  # there is room in the ring of the bridge at its home
    with pytest.raises(tb.Timeout, match="may be in the queue"):
        mirror.put(LARGE, timeout=0.05)  # which goes by message
    home.signal(signal.SIGCONT)
    mirror.put(3)
    got = list(iter(lambda: mirror.get(timeout=PATIENCE), 3))
    assert got in ([2], [2, LARGE])
    home.tell()


def test_a_getter_that_is_stopped_holds_up_no_other(
    pair: Pair, name: str, elsewhere: Elsewhere
) -> None:
    here, there = pair
    with tb.Queue[int](name=name, domain=here.domain) as home:
        getter = elsewhere.start(hold_last, name, there.domain, 1)
        assert getter.hear() == "ready"
        getter.signal_when_asleep(signal.SIGSTOP)
        mirror = opened(name, there)
        home.put(0)
        got = []
        for number in range(1, 10):
            home.put(number)
            got.append(mirror.get(timeout=PATIENCE))
        getter.kill()
        got.append(mirror.get(timeout=PATIENCE))
        assert sorted(got) == list(range(10))


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_cut_loses_nothing(tmp_path: Path, relay: Relay, name: str, fault: str) -> None:
    with (
        two_machines(tmp_path, through=relay) as (here, there),
        tb.Queue[Any](name="down", domain=here.domain) as down,
        tb.Queue[Any](name="up", maxsize=4, domain=here.domain) as up,
    ):
        count = 30
        got = in_thread(lambda: [int(item[0]) for item in opened("down", there)])
        mirror = opened("up", there)
        putting = in_thread(lambda: [mirror.put(np.full(9000, i)) for i in range(count)])
        for number in range(count):
            down.put(np.full(9000, number))
            assert int(up.get(timeout=PATIENCE)[0]) == number
            if number in (10, 20):
                getattr(relay, fault)()
                threading.Event().wait(0.05)
                relay.mend()
        putting.result(PATIENCE)
        down.shutdown()
        assert got.result(PATIENCE) == list(range(count))


def test_queues_that_come_and_go_during_a_cut_are_known_after_it(
    tmp_path: Path, relay: Relay
) -> None:
    with two_machines(tmp_path, through=relay) as (here, there):
        queues = {name: tb.Queue[str](name=name, domain=here.domain) for name in ("stays", "goes")}
        mirrors = {name: opened(name, there) for name in queues}
        calls = {name: in_thread(mirror.get) for name, mirror in mirrors.items()}
        relay.cut()
        queues["goes"].close()
        with tb.Queue[str](name="comes", domain=here.domain) as comes:
            queues["stays"].put("item")
            comes.put("another")
            relay.mend()
            with pytest.raises(tb.Closed):
                calls["goes"].result(PATIENCE)
            assert calls["stays"].result(PATIENCE) == "item"
            assert opened("comes", there).get(timeout=PATIENCE) == "another"
        queues["stays"].close()


@pytest.mark.parametrize("redeliver", [False, True])
def test_what_a_machine_had_that_is_gone_is_lost_or_comes_back(
    tmp_path: Path, elsewhere: Elsewhere, redeliver: bool
) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text("timeout = 0.2\n")
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Queue[str](name="jobs", redeliver=redeliver, maxsize=2, domain=here.domain) as home,
    ):
        home.put("first")
        home.put("second")
        holder = elsewhere.start(hold_last, "jobs", there.domain, 1)
        assert [holder.hear(), holder.hear()] == ["ready", "first"]
        mirror = opened("jobs", there)
        home.put("third")
        putting = in_thread(lambda: mirror.put("fourth"))
        getting = [in_thread(mirror.join)]
        there.kill()
        holder.kill()
        for call in (putting, *getting):
            with pytest.raises(tb.Closed):
                call.result(PATIENCE)
        if redeliver:
            rest = ["first", "second", "third"]
        else:
            rest = ["second", "third"]
            eventually(lambda: home.stats["lost"] == 1)
        eventually(lambda: home.qsize() == len(rest))
        assert [home.get(timeout=PATIENCE) for _ in rest] == rest
        assert home.qsize() == 0


def test_the_end_of_the_homes_bridge_closes_the_queue_elsewhere(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text("timeout = 0.2\n")
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Queue[str](name="jobs", domain=here.domain) as home,
    ):
        getting = in_thread(opened("jobs", there).get)
        here.kill()
        with pytest.raises(tb.Closed):
            getting.result(PATIENCE)
        here.restart()
        home.put("item")
        assert opened("jobs", there).get(timeout=PATIENCE) == "item"


def goes_elsewhere(home: tb.Queue[str]) -> bool:
    """Whether an item that is put is on its way to a getter of another machine."""
    home.put("item")
    try:
        home.get(timeout=0.05)
    except standard.Empty:
        return True
    home.task_done()
    return False


@pytest.mark.parametrize("redeliver", [False, True])
def test_an_item_on_its_way_when_the_homes_bridge_is_killed_goes_to_nobody_else(
    tmp_path: Path, elsewhere: Elsewhere, redeliver: bool
) -> None:
    with (
        two_machines(tmp_path) as (here, there),
        tb.Queue[str](name="jobs", redeliver=redeliver, domain=here.domain) as home,
    ):
        getter = elsewhere.start(hold_last, "jobs", there.domain, 1)
        assert getter.hear() == "ready"
        eventually(lambda: waiting_gets("jobs", here) == 1)
        getter.stop()
        assert goes_elsewhere(home)
        assert home.qsize() == 1
        here.kill()
        if redeliver:
            assert home.get(timeout=PATIENCE) == "item"
        else:
            eventually(lambda: home.stats["lost"] == 1)
        assert home.qsize() == 0
        getter.kill()


def test_items_wait_for_memory_and_those_that_need_more_do_not_cross(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text("budget = 33554432\n")
    with (
        two_machines(tmp_path, "--config", str(config)) as (here, there),
        tb.Queue[Any](name="jobs", domain=here.domain) as home,
    ):
        mirror = opened("jobs", there)
        for number in range(4):
            home.put(np.full(9_000_000, number, np.uint8))
        held = [mirror.get(timeout=PATIENCE) for _ in range(3)]
        with pytest.raises(standard.Empty):
            mirror.get(timeout=0.1)
        assert home.qsize() == 1
        held.clear()
        assert mirror.get(timeout=PATIENCE)[0] == 3
        home.put(np.zeros(50_000_000, np.uint8))
        home.put("small")
        assert mirror.get(timeout=PATIENCE) == "small"
        assert mirror.stats["lost"] == 1
        with pytest.raises(tb.OutOfMemory):
            mirror.put(np.zeros(50_000_000, np.uint8))
        large = np.zeros(9_000_000, np.uint8)
        for _ in range(3):
            mirror.put(large, timeout=PATIENCE)
        with pytest.raises(standard.Full):
            mirror.put(large, timeout=0.1)
        assert home.qsize() == 3
        putting = in_thread(lambda: mirror.put(large, timeout=PATIENCE))
        assert all(len(home.get(timeout=PATIENCE)) == len(large) for _ in range(4))
        putting.result(PATIENCE)
