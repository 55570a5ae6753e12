"""The workers of a pool: whether they are ready, how many they are, and what they have done."""

from __future__ import annotations

import concurrent.futures
import os
import random
import signal
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually, in_a_fork, unused
from support.queues.pools import METHODS, QUICK, Gate, double, wait_for


def second(_: Any, item: Any) -> Any:
    return item


# Whether all are ready.


@pytest.mark.parametrize("method", METHODS)
def test_ready_waits_for_every_initializer(method: str) -> None:
    with Gate() as gate:
        load = partial(wait_for, gate)
        with tb.WorkerPool(second, workers=2, initializer=load, context=method) as pool:
            gate.who()
            gate.who()
            assert not pool.ready(timeout=0)
            gate.let_one_through()
            eventually(lambda: pool.stats.ready == 1)
            assert not pool.ready(timeout=0.01)
            gate.let_one_through()
            assert pool.ready(timeout=PATIENCE)
            assert (pool.stats.alive, pool.stats.ready) == (2, 2)


def refuse() -> None:
    raise LookupError("no model")


def test_ready_raises_the_exception_of_an_initializer() -> None:
    with tb.WorkerPool(second, workers=2, initializer=refuse, **QUICK) as pool:
        for _ in range(2):
            with pytest.raises(LookupError, match="no model"):
                pool.ready(PATIENCE)


def exit_at_once() -> None:
    os._exit(3)


def test_ready_raises_if_a_place_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorbus._pools import place

    monkeypatch.setattr(place, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(place, "_LONGEST_PAUSE", 0.001)
    with (
        tb.WorkerPool(second, workers=2, initializer=exit_at_once, **QUICK) as pool,
        pytest.raises(tb.WorkerDied, match="exit code 3"),
    ):
        pool.ready(PATIENCE)


def test_ready_of_a_closed_pool_raises_and_a_close_wakes_it() -> None:
    with Gate() as gate:
        pool = tb.WorkerPool(second, workers=1, initializer=partial(wait_for, gate), **QUICK)
        gate.who()
        errors: list[Any] = []

        def wait() -> None:
            try:
                pool.ready()
            except tb.Closed as error:
                errors.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        pool.close()
        waiter.join()
        assert len(errors) == 1
        with pytest.raises(tb.Closed):
            pool.ready()
        with pytest.raises(tb.Closed):
            pool.resize(2)
        assert pool.stats.alive == 0


def test_a_callback_of_a_future_does_not_wait_for_workers() -> None:
    with Gate() as gate:
        found: list[Any] = []
        load = partial(wait_for, gate)
        with tb.WorkerPool(second, workers=2, initializer=load, **QUICK) as pool:
            future = pool.submit(1)
            future.add_done_callback(lambda _: found.append(pool.ready()))
            gate.let_one_through()
            assert future.result(PATIENCE) == 1
            eventually(lambda: found == [False])


# Their number.


def test_more_workers_are_started() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=1, **QUICK) as pool:
        futures = [pool.submit(gate) for _ in range(3)]
        gate.who()
        pool.resize(3)
        assert "workers=3" in repr(pool)
        assert len({gate.who(), gate.who()}) == 2
        for _ in range(3):
            gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == ["through"] * 3
        assert pool.ready(PATIENCE)
        assert pool.stats.workers == pool.stats.alive == 3


def test_idle_workers_end_before_busy_ones_and_busy_ones_after_their_item() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=4, **QUICK) as pool:
        assert pool.ready(PATIENCE)
        futures = [pool.submit(gate) for _ in range(2)]
        busy = {gate.who(), gate.who()}
        pool.resize(2)
        eventually(lambda: pool.stats.alive == 2)
        pool.resize(1)
        for _ in range(2):
            gate.let_one_through()
        eventually(lambda: pool.stats.alive == 1)
        futures.append(pool.submit(gate))
        assert gate.who() in busy
        gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == ["through"] * 3
        assert (pool.stats.restarts, pool.stats.ready) == (0, 1)
    unused()


def test_a_worker_that_was_to_leave_may_stay() -> None:
    with Gate() as gate, tb.WorkerPool(who_waits, workers=2, **QUICK) as pool:
        assert pool.ready(PATIENCE)
        futures = [pool.submit(gate) for _ in range(2)]
        busy = {gate.who(), gate.who()}
        pool.resize(1)
        pool.resize(2)
        for _ in range(2):
            gate.let_one_through()
        assert {future.result(PATIENCE) for future in futures} == busy
        assert pool.ready(PATIENCE)
        assert (pool.stats.alive, pool.stats.restarts) == (2, 0)


def who_waits(gate: Gate) -> int:
    gate.wait()
    return os.getpid()


def test_workers_that_load_end_at_once() -> None:
    with Gate() as gate:
        load = partial(wait_for, gate)
        with tb.WorkerPool(second, workers=3, initializer=load, **QUICK) as pool:
            for _ in range(3):
                gate.who()
            pool.resize(1)
            eventually(lambda: pool.stats.alive == 1)
            gate.let_one_through()
            assert pool.ready(PATIENCE)
            assert pool.map([1, 2]) == [1, 2]
            assert pool.stats.restarts == 0


def test_a_leaving_worker_that_is_killed_loses_no_item() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=2, retries=1, **QUICK) as pool:
        futures = [pool.submit(gate) for _ in range(2)]
        workers = {gate.who(), gate.who()}
        pool.resize(1)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        for _ in range(2):
            assert gate.who() not in workers
            gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == ["through"] * 2
        eventually(lambda: pool.stats.alive == 1)


def test_a_wrong_number_of_workers_is_refused() -> None:
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        for wrong in (0, -1, 1.5, None, True):
            number: Any = wrong
            with pytest.raises(tb.InvalidArgument):
                pool.resize(number)
    with (
        tb.WorkerPool(on_device, devices=["cpu"], **QUICK) as pool,
        pytest.raises(tb.InvalidArgument, match="devices"),
    ):
        pool.resize(2)


def on_device(item: Any, device: str) -> Any:
    return item


# Counters.


def maybe_fail(item: Any) -> Any:
    if isinstance(item, Gate):
        item.wait()
    if item == "fail":
        raise LookupError
    return item


def test_every_state_of_an_item_is_counted() -> None:
    with Gate() as gate, tb.WorkerPool(maybe_fail, workers=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        late, patient, failing = (
            pool.submit("late", timeout=0.01),
            pool.submit("patient"),
            pool.submit("fail"),
        )
        pool.submit("cancelled").cancel()
        assert isinstance(late.exception(PATIENCE), tb.Timeout)
        eventually(lambda: pool.stats.cancelled == 1)
        stats = pool.stats
        assert (stats.running, stats.waiting, stats.timed_out, stats.done) == (1, 2, 1, 0)
        assert stats.mean_batch == 1
        gate.let_one_through()
        assert patient.result(PATIENCE) == "patient"
        assert isinstance(failing.exception(PATIENCE), LookupError)
        stats = pool.stats
        assert (stats.done, stats.failed, stats.running, stats.waiting) == (2, 1, 0, 0)
        assert 0 < stats.mean_run <= stats.max_run
        assert 0 < stats.mean_wait <= stats.max_wait
    assert pool.stats.done == 2
    with pytest.raises(AttributeError):
        stats.done = 7  # type: ignore[misc]


def test_a_forked_child_has_no_pool() -> None:
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:

        def child() -> None:
            for call in (lambda: pool.stats, pool.ready, lambda: pool.resize(2)):
                with pytest.raises(tb.Forked):
                    call()
            assert "WorkerPool" in repr(pool)

        in_a_fork(child)
        assert pool.map([1]) == [2]


# All of it at once.


def anything(batch: Any) -> Any:
    numbers = batch[:, 0] if hasattr(batch, "shape") else [item[0] for item in batch]
    for number in numbers:
        if number % 97 == 13:
            os.kill(os.getpid(), signal.SIGKILL)
    return [LookupError(int(n)) if n % 31 == 7 else int(n) for n in numbers]


@pytest.mark.timeout(240)
def test_a_storm_gives_each_item_one_outcome() -> None:
    chance = random.Random(int.from_bytes(os.urandom(4), "little"))
    count = 1500
    outcomes: dict[int, int] = {}
    lock = threading.Lock()

    def note(number: int, _: Any) -> None:
        with lock:
            outcomes[number] = outcomes.get(number, 0) + 1

    futures: dict[int, concurrent.futures.Future[Any]] = {}
    options: Any = {"batch": 6, "max_wait": 0.002, "retries": 1, **QUICK}
    with tb.WorkerPool(anything, workers=3, **options) as pool:

        def submit(first: int) -> None:
            own = random.Random(first)
            for number in range(first, count, 3):
                shape = own.choice([3, 3, 3, 5])
                future = pool.submit(
                    np.full(shape, number),
                    priority=own.randrange(3),
                    timeout=own.choice([None, PATIENCE, 0.02]),
                )
                future.add_done_callback(partial(note, number))
                futures[number] = future
                if own.random() < 0.05:
                    future.cancel()

        threads = [threading.Thread(target=submit, args=(first,)) for first in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            pool.resize(chance.randrange(1, 5))
            workers = [worker for worker in pool._manager._crew.workers() if not worker.dead]
            with suppress(IndexError):
                chance.choice(workers).kill()
            threads[0].join(0.02)
        concurrent.futures.wait(futures.values(), 2 * PATIENCE)
        stats = pool.stats
    assert outcomes == dict.fromkeys(range(count), 1)
    counts = {"done": 0, "failed": 0, "timed_out": 0, "cancelled": 0}
    for number, future in futures.items():
        if future.cancelled():
            counts["cancelled"] += 1
        elif (error := future.exception(0)) is None:
            assert future.result(0) == number
            counts["done"] += 1
        elif isinstance(error, tb.Timeout):
            counts["timed_out"] += 1
        else:
            counts["failed"] += 1
            assert isinstance(error, tb.WorkerDied) or error.args == (number,)
    assert counts == {name: stats[name] for name in counts}
    assert (stats.waiting, stats.running) == (0, 0)
    unused()
