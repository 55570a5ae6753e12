"""Arrays and tensors that are born on the bus: `tensorbus.allocate`."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import Elsewhere, eventually, in_a_fork, joined, tell, used_bytes

MANY = 1 << 20
SMALL = {"TENSORBUS_BUDGET": str(8 << 20)}


@pytest.fixture(autouse=True)
def nothing_born_stays() -> Iterator[None]:
    before = tb.allocate.stats()
    yield
    gc.collect()
    after = tb.allocate.stats()
    assert (after.arrays, after.bytes) == (before.arrays, before.bytes)


def test_arrays_are_published_without_a_copy_whole_and_as_views() -> None:
    with tb.allocate():
        frame = np.zeros((100, 100, 100), np.uint8)
        more = frame + 1
    with joined() as (publisher, subscriber):
        publisher.publish(frame)
        publisher.publish({"part": more[10:20, :, ::2], "id": 1})
        assert publisher.stats.bytes_copied == 0
        assert not subscriber.receive().data.any()
        part = subscriber.receive().data["part"]
        assert part.shape == (10, 100, 50)
        assert part.min() == part.max() == 1


def test_what_numpy_makes_elsewhere_is_copied() -> None:
    before = tb.allocate.stats().born
    with tb.allocate():
        small = np.zeros(10)
    ordinary = np.zeros(MANY)
    assert tb.allocate.stats().born == before
    with joined() as (publisher, _):
        publisher.publish([small, ordinary])
        assert publisher.stats.bytes_copied == small.nbytes + ordinary.nbytes


def test_an_array_is_published_once_like_a_loan() -> None:
    with tb.allocate():
        array = np.ones(MANY, np.uint8)
    with joined() as (publisher, _):
        publisher.publish(array)
        with pytest.raises(tb.InvalidArgument, match="published before"):
            publisher.publish(array[5:])
        publisher.publish(array.copy())  # is not inside `with`
        assert publisher.stats.bytes_copied == MANY


def test_an_array_that_was_published_can_go_and_its_readers_keep_it() -> None:
    with joined() as (publisher, subscriber):
        before = used_bytes()
        with tb.allocate():
            publisher.publish(np.full(MANY, 7, np.uint8))
            received = subscriber.receive()
            others = [np.full(MANY, 9, np.uint8) for _ in range(3)]
        assert received.data.min() == received.data.max() == 7
        del received, others
        gc.collect()
        publisher.publish(0)  # what came back is read
        assert used_bytes() == before


def test_zeros_are_zeros_in_memory_that_was_used_before() -> None:
    with tb.allocate():
        for _ in range(3):
            array = np.zeros(MANY, np.uint8)
            assert not array.any()
            array[:] = 255
            del array


def test_an_array_grows_and_shrinks() -> None:
    with tb.allocate():
        array = np.arange(MANY // 8)
        array.resize(MANY // 2, refcheck=False)
        assert (array[: MANY // 8] == np.arange(MANY // 8)).all()
        assert not array[MANY // 8 :].any()
        array.resize(10, refcheck=False)
        assert array.tolist() == [*range(10)]
        small = np.arange(10)
        small.resize(MANY, refcheck=False)  # was none of the bus, and stays so
        assert small[9] == 9
    grown = array.copy()
    del array
    assert grown.sum() == 45


def test_arrays_outlive_the_participant() -> None:
    from tensorbus._base.participant import forget

    with tb.allocate(domain="born-elsewhere"):
        array = np.full(MANY, 3, np.uint8)
    forget(tb.participant("born-elsewhere").domain)
    gc.collect()
    array += 1
    assert array.min() == 4
    array.resize(4 * MANY, refcheck=False)  # its participant is gone: ordinary memory
    assert array[0] == 4
    with joined() as (publisher, subscriber):
        publisher.publish(array)
        assert subscriber.receive().data[0] == 4


def test_an_array_of_another_domain_is_copied() -> None:
    with tb.allocate(domain="born-elsewhere"):
        array = np.full(MANY, 3, np.uint8)
    with joined() as (publisher, subscriber):
        publisher.publish(array)
        assert publisher.stats.bytes_copied == MANY
        assert subscriber.receive().data[0] == 3


@pytest.mark.parametrize("options", [{"shared": True}, {"isolated": True}])
def test_where_it_cannot_go_by_reference_it_is_copied(options: dict[str, Any]) -> None:
    with tb.allocate():
        array = np.full(MANY, 3, np.uint8)
    with joined(publisher=options) as (publisher, subscriber):
        publisher.publish(array)
        publisher.publish(array)
        assert publisher.stats.bytes_copied == 2 * MANY
        assert subscriber.receive().data[0] == 3


def test_shares_and_queues_take_it_by_reference() -> None:
    with tb.allocate():
        shared, queued = np.full(MANY, 3, np.uint8), np.full(MANY, 4, np.uint8)
    used = used_bytes()
    with tb.share(shared) as share, tb.Queue() as queue:
        queue.put(queued)
        assert used_bytes() < used + MANY
        assert tb.attach(share.handle)[0] == 3
        assert queue.get(timeout=10)[0] == 4


def use_more_than_the_budget() -> None:
    with tb.allocate():
        arrays = [np.full(MANY, number, np.uint8) for number in range(20)]
    stats = tb.allocate.stats()
    assert 0 < stats.arrays < 20
    assert stats.born + stats.elsewhere == 20
    assert [int(array.max()) for array in arrays] == [*range(20)]
    arrays.clear()
    assert tb.allocate.stats().arrays == 0
    with tb.allocate():
        again = np.zeros(MANY)  # 8 MiB
    assert tb.allocate.stats().arrays == 1
    del again


def test_beyond_the_budget_arrays_are_ordinary_ones_and_counted(elsewhere: Elsewhere) -> None:
    elsewhere.run(use_more_than_the_budget, env=SMALL)


def make_arrays_while_a_publisher_waits() -> None:
    options = {"reliable": True, "depth": 1}
    with joined(publisher=options) as (publisher, subscriber):
        publisher.publish(1)
        publishing = threading.Thread(target=publisher.publish, args=(2,))
        publishing.start()
        eventually(lambda: publisher.stats.waiting)
        with tb.allocate():
            arrays = [np.full(MANY, number, np.uint8) for number in range(20)]
        assert 0 < tb.allocate.stats().arrays < 20
        assert [subscriber.receive().data, subscriber.receive().data] == [1, 2]
        publishing.join()
        assert [int(array.max()) for array in arrays] == [*range(20)]


def test_no_array_waits_for_a_publishing_thread(elsewhere: Elsewhere) -> None:
    elsewhere.run(make_arrays_while_a_publisher_waits, env=SMALL)


def test_it_ends_with_the_block_also_by_an_error_and_nests() -> None:
    def born() -> int:
        before = tb.allocate.stats().born
        np.empty(MANY)
        return tb.allocate.stats().born - before

    outer = tb.allocate()
    with pytest.raises(ZeroDivisionError), outer:
        raise ZeroDivisionError
    assert born() == 0
    with outer:
        with outer, tb.allocate(min_bytes=100 * MANY):
            assert born() == 1  # the outer one's
        assert born() == 1
    assert born() == 0


def test_it_is_of_one_thread_and_one_context() -> None:
    counts = []

    def make() -> None:
        before = tb.allocate.stats().born
        np.empty(MANY)
        counts.append(tb.allocate.stats().born - before)

    with tb.allocate():
        other = threading.Thread(target=make)
        other.start()
        other.join()
        contextvars.copy_context().run(make)
    assert counts == [0, 1]


def test_each_task_has_its_own() -> None:
    async def task(inside: bool, turn: asyncio.Barrier | None = None) -> int:
        if not inside:
            await asyncio.sleep(0)
            before = tb.allocate.stats().born
            np.empty(MANY)
            return tb.allocate.stats().born - before
        with tb.allocate():
            await asyncio.sleep(0)
            before = tb.allocate.stats().born
            np.empty(MANY)
            return tb.allocate.stats().born - before

    async def both() -> list[int]:
        return await asyncio.gather(task(True), task(False), task(True))

    assert asyncio.run(both()) == [1, 0, 1]


def test_many_threads_make_and_drop_arrays() -> None:
    wrong = []

    def churn(number: int) -> None:
        with tb.allocate():
            kept: list[Any] = []
            for step in range(200):
                kept.append(np.full(70_000 + 1000 * step, number, np.uint8))
                if len(kept) > 5 and int(kept.pop(step % 5).max()) != number:
                    wrong.append(step)

    threads = [threading.Thread(target=churn, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_child_keeps_what_it_inherited_and_makes_ordinary_arrays() -> None:
    with tb.allocate():
        array = np.full(MANY, 5, np.uint8)
        held = [array]

        def child() -> None:
            nonlocal array
            assert array.max() == 5
            before = tb.allocate.stats()
            own = np.zeros(MANY)
            assert tb.allocate.stats().born == before.born
            own += array[0]
            held.clear()
            del array
            assert own.max() == 5
            with tb.allocate():
                assert np.ones(MANY, np.uint8).all()
            assert tb.allocate.stats().born == before.born + 1

        in_a_fork(child)
        assert array.min() == array.max() == 5
        held.clear()


def enable_and_disable() -> None:
    tb.allocate.enable(min_bytes=100_000)
    with pytest.raises(tb.InvalidArgument, match="enabled already"):
        tb.allocate.enable()
    array = np.zeros(100_000, np.uint8)
    small = np.zeros(99_999, np.uint8)
    assert tb.allocate.stats().arrays == 1
    tb.allocate.disable()
    tb.allocate.disable()
    other = np.zeros(100_000, np.uint8)
    assert tb.allocate.stats().arrays == 1
    del array, small, other
    assert tb.allocate.stats().arrays == 0
    tb.allocate.enable()
    tell("array at the end")
    globals()["stays"] = np.zeros(MANY)


def test_it_can_be_enabled_for_a_thread_and_arrays_may_be_there_at_the_end(
    elsewhere: Elsewhere,
) -> None:
    elsewhere.run(enable_and_disable)


@pytest.mark.parametrize("min_bytes", [4095, -1, 1.5, "1"])
def test_sizes_that_are_none_are_refused(min_bytes: Any) -> None:
    with pytest.raises(tb.InvalidArgument, match="min_bytes"):
        tb.allocate(min_bytes=min_bytes)
