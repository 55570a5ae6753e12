"""The order of a pool's items, their time-outs and their cancellation."""

from __future__ import annotations

import concurrent.futures
import gc
import math
import random
import select
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually, in_a_fork
from support.queues.pools import QUICK, Gate, double
from tensorbus._pools.batches import Limits
from tensorbus._pools.waiting import Waiting


def pass_gate(item: Any) -> Any:
    if isinstance(item, Gate):
        item.wait()
    return item


# Priorities.


def test_items_of_a_higher_priority_begin_earlier_and_equal_ones_in_order() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        began: list[int] = []
        pool.submit(gate)
        gate.who()
        priorities = [0, 5, -3, 5, 0, 2**31 - 1, -(2**31), 5]
        futures = []
        for number, priority in enumerate(priorities):
            futures.append(pool.submit(number, priority=priority))
            futures[-1].add_done_callback(lambda future: began.append(future.result()))
        gate.let_one_through()
        concurrent.futures.wait(futures, PATIENCE)
        assert began == [5, 1, 3, 7, 0, 4, 2, 6]


def lengths(batch: list[Any]) -> list[Any]:
    for item in batch:
        pass_gate(item)
    return [sorted(item for item in batch if isinstance(item, int))] * len(batch)


def test_a_batch_has_the_items_of_the_highest_priorities() -> None:
    with Gate() as gate, tb.WorkerPool(lengths, workers=1, batch=2, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        futures = [pool.submit(number, priority=number % 3) for number in range(6)]
        gate.let_one_through()
        together = [future.result(PATIENCE) for future in futures]
        assert together == [[0, 3], [1, 4], [2, 5]] * 2


def test_wrong_arguments_of_submit_are_refused() -> None:
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        for wrong in ({"priority": 1.5}, {"priority": 2**31}, {"timeout": math.nan}):
            options: Any = wrong
            with pytest.raises(tb.InvalidArgument):
                pool.submit(1, **options)
        for wrong in ({"timeout": "soon"}, {"prioritty": 1}):
            options = wrong
            with pytest.raises(TypeError):
                pool.submit(1, **options)
        assert pool.submit(1, priority=7, timeout=PATIENCE).result() == 2


def keywords_of(**keywords: Any) -> Any:
    return keywords


def test_an_executors_function_has_these_keywords_itself() -> None:
    with tb.WorkerPool(workers=1, **QUICK) as pool:
        given = {"priority": 1, "timeout": 2}
        assert pool.submit(keywords_of, **given).result(PATIENCE) == given


# Time-outs.


def test_an_item_that_no_worker_has_begun_in_time_is_dropped() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        running = pool.submit(gate, timeout=PATIENCE)
        gate.who()
        late = pool.submit(1, timeout=0.01)
        patient = pool.submit(2, timeout=PATIENCE)
        with pytest.raises(tb.Timeout, match="no worker has begun"):
            late.result(PATIENCE)
        assert not patient.done()
        gate.let_one_through()
        assert patient.result(PATIENCE) == 2
        assert running.result(PATIENCE) is not None
        assert (pool.stats.timed_out, pool.stats.failed, pool.stats.done) == (1, 0, 2)


def test_an_item_that_a_worker_has_begun_is_not_dropped() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        assert pool.ready(PATIENCE)
        running = pool.submit(gate, timeout=1.0)
        gate.who()
        with pytest.raises(tb.Timeout):
            pool.submit(1, timeout=1.1).result(PATIENCE)
        gate.let_one_through()
        assert isinstance(running.result(PATIENCE), Gate)


def test_time_outs_end_in_their_order_while_all_workers_are_busy() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        ended: list[int] = []
        futures = []
        for number in (3, 1, 2):
            futures.append(pool.submit(number, timeout=number / 50))
            futures[-1].add_done_callback(lambda _, number=number: ended.append(number))
        concurrent.futures.wait(futures, PATIENCE)
        assert ended == [1, 2, 3]
        gate.let_one_through()


def sizes(batch: list[Any]) -> list[int]:
    return [len(batch)] * len(batch)


def test_a_batch_does_not_wait_for_more_until_one_of_its_items_is_dropped() -> None:
    with tb.WorkerPool(sizes, workers=1, batch=8, max_wait=PATIENCE, **QUICK) as pool:
        assert pool.ready(PATIENCE)
        patient = pool.submit(1)
        assert pool.submit(2, timeout=PATIENCE / 2).result(PATIENCE / 4) == 2
        assert patient.result(0) == 2


def test_closing_a_pool_leaves_the_time_outs_as_they_are() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        late = pool.submit(1, timeout=0.01)
        pool.shutdown(wait=False)
        assert isinstance(late.exception(PATIENCE), tb.Timeout)
        gate.let_one_through()


# Cancellation.


def test_a_cancelled_item_is_let_go_at_once_and_its_waiters_wake() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        array = np.zeros(1000)
        kept = weakref.ref(array)
        future = pool.submit(array)
        del array
        waited: list[Any] = []
        waiter = threading.Thread(
            target=lambda: waited.extend(concurrent.futures.as_completed([future], PATIENCE))
        )
        waiter.start()
        assert future.cancel()
        waiter.join()
        assert waited == [future]
        eventually(lambda: kept() is None)
        assert (pool.stats.cancelled, pool.stats.waiting) == (1, 0)
        gate.let_one_through()


def test_a_garbage_collection_may_cancel_futures_at_any_moment() -> None:
    with Gate() as gate, tb.WorkerPool(pass_gate, workers=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            for _ in range(200):
                results = pool.imap([1, 2, 3])
                with pytest.raises(tb.Timeout):
                    next(pool.imap([1], timeout=0))
                cycle: list[Any] = [results]
                cycle.append(cycle)
                del results, cycle
        finally:
            gc.set_threshold(*threshold)
        gate.let_one_through()


def test_a_forked_child_may_cancel_a_future_whatever_its_parent_does() -> None:
    waiting = Waiting(Limits(None, 0.0))
    future = waiting.submit(1)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with waiting._lock:
            held.set()
            done.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    in_a_fork(lambda: future.cancel() and None)
    done.set()
    holder.join()
    assert not future.cancelled()
    assert waiting.take_cancelled() == []
    waiting.close()


# The class of the items that wait.


def test_a_storm_of_items_ends_each_of_them_once() -> None:
    chance = random.Random(50)
    waiting = Waiting(Limits(5, 0.0))
    futures: list[Any] = []
    taken: list[int] = []
    expired: list[int] = []
    cancelled: list[int] = []
    for _ in range(3000):
        deadline = chance.choice([math.inf, time.monotonic() + chance.uniform(-0.001, 0.002)])
        futures.append(waiting.submit(len(futures), chance.randrange(3), deadline))
        if chance.random() < 0.3:
            chance.choice(futures[-20:]).cancel()
        cancelled += [task.number for task in waiting.take_cancelled()]
        expired += [task.number for task in waiting.take_expired()]
        if chance.random() < 0.2:
            batch = [task for task in waiting.take() if task.begin()]
            if chance.random() < 0.3:
                waiting.put_back(batch)
            else:
                taken += [task.number for task in batch]
    while len(waiting):
        cancelled += [task.number for task in waiting.take_cancelled()]
        expired += [task.number for task in waiting.take_expired()]
        taken += [task.number for task in waiting.take() if task.begin()]
    assert sorted([*taken, *expired, *cancelled]) == list(range(3000))
    assert min(map(len, (taken, expired, cancelled))) > 100
    waiting.close()


def test_what_has_ended_leaves_nothing_behind() -> None:
    waiting = Waiting(Limits(None, 0.0))
    for _ in range(2000):
        future = waiting.submit(1, 0, time.monotonic() + PATIENCE)
        future.cancel()
        waiting.take_cancelled()
    assert len(waiting._order) < 300
    assert len(waiting._deadlines) < 300
    waiting.close()
    assert not select.select([], [], [], 0)[0]
