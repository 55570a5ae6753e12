"""Queues between machines: two domains of this host, each with a bridge in a process of its own."""

from __future__ import annotations

import asyncio
import queue as standard
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridges import Machine, Relay, two_machines
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell

torch = pytest.importorskip("torch")

Pair = tuple[Machine, Machine]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two machines for the tests that do no harm to bridges; each test has queues of its own."""
    with two_machines(tmp_path_factory.mktemp("pair")) as machines_of_it:
        yield machines_of_it


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of the queue of a test."""
    return str(request.node.name)


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    yield relay
    relay.close()


def opened(name: str, machine: Machine) -> tb.Queue[Any]:
    """The queue of that name, as programs of the machine see it, when it is there."""
    return tb.Queue.open(name, timeout=PATIENCE, domain=machine.domain)


def in_thread(function: Callable[[], Any]) -> Future[Any]:
    """What a function returns or raises that waits for something."""
    told: Future[Any] = Future()

    def run() -> None:
        try:
            told.set_result(function())
        except BaseException as error:
            told.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return told


def get_until_told(name: str, domain: str) -> None:
    """Tells each item, and then that it is done."""
    queue = tb.Queue.open(name, timeout=PATIENCE, domain=domain)
    tell("ready")
    for item in queue:
        tell(item)
        queue.task_done()
    tell(None)


def hold_last(name: str, domain: str, count: int) -> None:
    """Gets some items, and is not done with the last."""
    queue = tb.Queue.open(name, timeout=PATIENCE, domain=domain)
    tell("ready")
    for _ in range(count - 1):
        tell(queue.get(timeout=PATIENCE))
        queue.task_done()
    tell(queue.get(timeout=PATIENCE))
    hear()


def make_queue(name: str, domain: str) -> None:
    with tb.Queue(name=name, domain=domain):
        tell("ready")
        hear()


def put_one(name: str, domain: str) -> None:
    queue = tb.Queue.open(name, timeout=PATIENCE, domain=domain)
    tell("ready")
    queue.put("of the dead")


def test_items_cross_both_ways_with_all_that_they_have(pair: Pair, name: str) -> None:
    here, there = pair
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    item = {
        "strided": base.t()[1:4],
        "grad": torch.ones(3, requires_grad=True),
        "array": np.arange(5, dtype=np.int16)[::-1],
        "large": np.random.default_rng(1).integers(0, 256, 3_000_000, dtype=np.uint8),
        "nested": [1, "two", (3.0, None), b"four", {5}],
    }
    with tb.Queue[Any](name=name, domain=here.domain) as home:
        mirror = opened(name, there)
        for source, target in ((home, mirror), (mirror, home), (mirror, mirror)):
            source.put(item)
            got = target.get(timeout=PATIENCE)
            assert torch.equal(got["strided"], item["strided"])
            assert got["strided"].stride() == item["strided"].stride()
            assert got["grad"].requires_grad
            assert isinstance(got["array"], np.ndarray)
            assert got["array"].tolist() == [4, 3, 2, 1, 0]
            assert np.array_equal(got["large"], item["large"])
            assert got["nested"] == item["nested"]
        assert mirror.qsize() == 0  # behind what it had got, so that home knows of it, too
        assert home.qsize() == 0


def test_each_item_goes_to_one_getter_and_that_of_the_dead_to_another(
    pair: Pair, name: str, elsewhere: Elsewhere
) -> None:
    here, there = pair
    count = 2000
    with tb.Queue[int](name=name, redeliver=True, domain=here.domain) as home:
        victim = elsewhere.start(hold_last, name, there.domain, 20)
        survivor = elsewhere.start(get_until_told, name, there.domain)
        assert [victim.hear(), survivor.hear()] == ["ready", "ready"]
        for number in range(count):
            home.put(number)
        got = [[victim.hear() for _ in range(20)]]
        victim.kill()
        home.shutdown()

        def get_all() -> list[int]:
            items = []
            for item in opened(name, here):
                items.append(item)
                home.task_done()
            return items

        local = [in_thread(get_all) for _ in range(2)]
        got.append(list(iter(survivor.hear, None)))
        got += [one.result(PATIENCE) for one in local]
        assert all(got), "somebody got nothing"
        held = got[0].pop()
        assert sorted(item for items in got for item in items) == list(range(count))
        assert any(held in items for items in got[1:])
        assert home.stats["lost"] == 0


def test_a_put_waits_for_room_at_home_and_one_that_gave_up_has_put_nothing(
    pair: Pair, name: str
) -> None:
    here, there = pair
    with tb.Queue[int](name=name, maxsize=2, domain=here.domain) as home:
        mirror = opened(name, there)
        assert mirror.maxsize == 2
        mirror.put(0)
        mirror.put_nowait(1)
        with pytest.raises(standard.Full):
            mirror.put_nowait(2)
        with pytest.raises(standard.Full):
            mirror.put(3, timeout=0.05)
        putting = in_thread(lambda: mirror.put(4))
        assert home.get(timeout=PATIENCE) == 0
        putting.result(PATIENCE)
        assert [home.get(timeout=PATIENCE) for _ in range(2)] == [1, 4]
        assert home.qsize() == 0


def test_a_get_that_gave_up_has_taken_nothing(pair: Pair, name: str) -> None:
    here, there = pair
    with tb.Queue[int](name=name, domain=here.domain) as home:
        mirror = opened(name, there)
        with pytest.raises(standard.Empty):
            mirror.get_nowait()
        got: list[int] = []
        rounds = 50
        for number in range(rounds):  # an item comes as its get ends, or soon before or after
            getting = in_thread(lambda: mirror.get(timeout=0.002))
            threading.Event().wait(0.0001 * (number % 25))
            home.put(number)
            with suppress(standard.Empty):
                got.append(getting.result(PATIENCE))
        eventually(lambda: home.qsize() == rounds - len(got))
        while home.qsize():
            got.append(home.get(timeout=PATIENCE))
        assert sorted(got) == list(range(rounds))
        home.put(7)
        assert mirror.get_nowait() == 7


def test_the_end_of_a_queue_is_known_on_both_machines(pair: Pair, name: str) -> None:
    here, there = pair
    for end in (0, 1):
        with tb.Queue[int](name=f"{name}{end}", domain=here.domain) as home:
            mirror = opened(f"{name}{end}", there)
            for number in range(3):
                mirror.put(number)
            rest = in_thread(lambda mirror=mirror: list(mirror))
            (home, mirror)[end].shutdown()
            assert rest.result(PATIENCE) == [0, 1, 2]
            for queue in (home, mirror):
                with pytest.raises(tb.ShutDown):
                    queue.put(1)
                with pytest.raises(tb.ShutDown):
                    queue.get(timeout=PATIENCE)
                with pytest.raises(tb.ShutDown):
                    queue.get_nowait()


@pytest.mark.parametrize("redeliver", [False, True])
def test_join_waits_for_what_the_other_machine_does(pair: Pair, name: str, redeliver: bool) -> None:
    here, there = pair
    with tb.Queue[int](name=name, redeliver=redeliver, domain=here.domain) as home:
        mirror = opened(name, there)
        for number in range(3):
            home.put(number)
        assert not mirror.join(timeout=0.01)
        joins = [in_thread(lambda queue=queue: queue.join(PATIENCE)) for queue in (home, mirror)]
        for number in range(3):
            assert mirror.get(timeout=PATIENCE) == number
            assert not any(one.done() for one in joins)
            mirror.task_done()
        assert all(one.result(PATIENCE) for one in joins)
        assert home.stats == mirror.stats
        assert home.stats["unfinished"] == 0


def test_coroutines_use_a_queue_of_another_machine(pair: Pair, name: str) -> None:
    here, there = pair

    async def run() -> list[int]:
        mirror = await tb.Queue[int].open_async(name, timeout=PATIENCE, domain=there.domain)
        getting = [asyncio.create_task(mirror.get_async()) for _ in range(3)]
        await asyncio.sleep(0)
        getting[0].cancel()
        for number in range(2):
            await mirror.put_async(number)
        return sorted(await asyncio.wait_for(asyncio.gather(*getting[1:]), PATIENCE))

    with tb.Queue[int](name=name, domain=here.domain):
        assert asyncio.run(run()) == [0, 1]


def test_a_put_of_a_process_that_dies_is_not_made(
    pair: Pair, name: str, elsewhere: Elsewhere
) -> None:
    here, there = pair
    with tb.Queue[Any](name=name, maxsize=1, domain=here.domain) as home:
        home.put("first")
        putter = elsewhere.start(put_one, name, there.domain)
        putter.hear()
        putter.wait_until_asleep()
        putter.kill()
        mirror = opened(name, there)
        putting = in_thread(lambda: mirror.put("second"))  # behind that of the dead
        assert home.get(timeout=PATIENCE) == "first"
        putting.result(PATIENCE)
        assert home.get(timeout=PATIENCE) == "second"


@pytest.mark.parametrize("redeliver", [False, True])
def test_what_the_dead_had_in_hand_is_lost_or_comes_back(
    pair: Pair, name: str, elsewhere: Elsewhere, redeliver: bool
) -> None:
    here, there = pair
    with tb.Queue[str](name=name, redeliver=redeliver, domain=here.domain) as home:
        home.put("item")
        holder = elsewhere.start(hold_last, name, there.domain, 1)
        assert [holder.hear(), holder.hear()] == ["ready", "item"]
        holder.kill()
        if redeliver:
            mirror = opened(name, there)
            assert mirror.get(timeout=PATIENCE) == "item"
            mirror.task_done()
        else:
            eventually(lambda: home.stats["lost"] == 1)
            assert home.qsize() == 0


def test_errors_of_a_put_are_raised_on_the_other_machine(pair: Pair, name: str) -> None:
    here, there = pair
    with tb.Queue[Any](name=name, max_bytes=1000, domain=here.domain) as home:
        mirror = opened(name, there)
        with pytest.raises(tb.InvalidArgument, match="max_bytes"):
            mirror.put(np.zeros(2000, np.uint8))
        with pytest.raises(tb.Unsupported, match="1 MiB"):
            mirror.put("x" * (1 << 20))
        mirror.put("small")
        assert home.get(timeout=PATIENCE) == "small"


def test_an_item_that_cannot_cross_is_lost_and_the_next_comes(pair: Pair, name: str) -> None:
    here, there = pair
    with tb.Queue[Any](name=name, redeliver=True, domain=here.domain) as home:
        mirror = opened(name, there)
        home.put("x" * (1 << 20))
        home.put("small")
        assert mirror.get(timeout=PATIENCE) == "small"
        mirror.task_done()
        assert mirror.stats["lost"] == 1
    assert "an item is lost: a message of 0 tensors" in here.output


def test_a_queue_is_closed_on_the_other_machine_and_its_name_is_free(pair: Pair, name: str) -> None:
    here, there = pair
    for _ in range(2):
        home = tb.Queue[int](name=name, maxsize=1, domain=here.domain)
        mirror = opened(name, there)
        with pytest.raises(tb.InvalidArgument):
            tb.Queue[int](name=name, domain=there.domain)
        getting = in_thread(mirror.get)
        home.put(1)
        assert getting.result(PATIENCE) == 1
        calls = [in_thread(mirror.get), in_thread(mirror.join)]
        home.close()
        for call in calls[:1]:
            with pytest.raises(tb.Closed):
                call.result(PATIENCE)
        with pytest.raises(tb.Closed):
            mirror.put(1)


def test_a_queue_whose_name_is_taken_comes_when_the_other_is_gone(pair: Pair, name: str) -> None:
    here, there = pair
    with (
        tb.Queue[str](name=name, domain=there.domain) as other,
        tb.Queue[str](name=name, domain=here.domain) as home,
    ):
        eventually(lambda: "this machine has a queue of that name" in there.output)
        other.put("mine")
        home.put("theirs")
        assert opened(name, there).get(timeout=PATIENCE) == "mine"
        other.close()
        assert opened(name, there).get(timeout=PATIENCE) == "theirs"


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
    with pytest.raises(tb.Timeout, match="is not known"):
        mirror.put(2, timeout=0.05)
    home.signal(signal.SIGCONT)
    mirror.put(3)
    got = list(iter(lambda: mirror.get(timeout=PATIENCE), 3))
    assert got in ([], [2])
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


def test_a_queue_crosses_only_where_the_rules_let_it(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text('[export]\nallow = ["jobs/*"]\ndeny = ["jobs/private"]\n')
    with two_machines(tmp_path, "--config", str(config)) as (here, there):
        names = ["jobs/private", "other", "tensorbus/jobs", "jobs/1"]
        shared = tb.Queue[str](name="jobs/shared", shared=True, domain=here.domain)
        eventually(lambda: "a shared queue stays" in here.output)
        queues = [tb.Queue[str](name=name, domain=here.domain) for name in names]
        opened("jobs/1", there)  # the last of them
        for name in [*names[:-1], "jobs/shared"]:
            with pytest.raises(tb.Timeout):
                tb.Queue.open(name, timeout=0, domain=there.domain)
        for queue in (*queues, shared):
            queue.close()
