"""Queues between machines: two domains of this host, each with a bridge in a process of its own."""

from __future__ import annotations

import asyncio
import queue as standard
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.bridge.bridge_queues import get_until_told, hold_last, in_thread, opened, put_one
from support.bridge.bridges import Machine, two_machines
from support.harness import PATIENCE, Elsewhere, eventually

torch = pytest.importorskip("torch")

Pair = tuple[Machine, Machine]


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
        got = [[victim.hear() for _ in range(20)], *([] for _ in range(2))]
        victim.kill()

        def get_all(items: list[int]) -> None:
            for item in opened(name, here):
                items.append(item)
                home.task_done()

        local = [in_thread(partial(get_all, items)) for items in got[1:]]
        while not all(got):
            home.put(count)
            count += 1
        home.shutdown()
        got.append(list(iter(survivor.hear, None)))
        for one in local:
            one.result(PATIENCE)
        assert got[-1]
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
        assert mirror.qsize() == 1  # is answered at home, after the death was told there
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
