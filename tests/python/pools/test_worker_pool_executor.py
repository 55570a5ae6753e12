"""Worker pools as executors of `concurrent.futures`, and what may be done with results."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, tell
from support.queues.pools import QUICK, Gate, double, wait_for


def multiply(x: int, y: int, plus: int = 0) -> int:
    return x * y + plus


def fail(_: object) -> None:
    raise ValueError("no")


def device_of(x: int, device: str) -> tuple[int, str]:
    return x, device


def add_one(array: Any) -> Any:
    array += 1
    return array


def own_process(_: object) -> int:
    return os.getpid()


def test_a_pool_without_a_function_is_an_executor() -> None:
    with tb.WorkerPool(workers=2, **QUICK) as pool:
        assert isinstance(pool, concurrent.futures.Executor)
        futures = [pool.submit(multiply, x, 2, plus=1) for x in range(6)]
        assert all(type(future) is concurrent.futures.Future for future in futures)
        done = concurrent.futures.as_completed(futures, timeout=PATIENCE)
        assert sorted(future.result() for future in done) == [1, 3, 5, 7, 9, 11]
        with pytest.raises(ValueError, match="no"):
            pool.submit(fail, 1).result(PATIENCE)


def test_an_event_loop_runs_functions_in_it() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        with tb.WorkerPool(workers=2, **QUICK) as pool:
            calls = [loop.run_in_executor(pool, multiply, x, 3) for x in range(5)]
            return await asyncio.gather(*calls)

    assert asyncio.run(main()) == [0, 3, 6, 9, 12]


@pytest.mark.parametrize("chunksize", [1, 3])
def test_its_map_is_that_of_executors(chunksize: int) -> None:
    with tb.WorkerPool(workers=2, **QUICK) as pool:
        results = pool.map(multiply, range(7), [10] * 7, chunksize=chunksize)
        assert next(results) == 0
        assert list(results) == [10, 20, 30, 40, 50, 60]
        with pytest.raises(ValueError, match="no"):
            list(pool.map(fail, range(7), chunksize=chunksize))


def test_its_map_has_a_timeout() -> None:
    with Gate() as gate, tb.WorkerPool(workers=1, **QUICK) as pool:
        results = pool.map(wait_for, [gate, gate], timeout=0.05)
        with pytest.raises(concurrent.futures.TimeoutError):
            list(results)
        gate.let_one_through()
        gate.let_one_through()


def test_functions_that_are_submitted_get_the_device_of_their_worker() -> None:
    with tb.WorkerPool(devices=["left"], **QUICK) as pool:
        assert pool.submit(device_of, 1).result(PATIENCE) == (1, "left")
        assert list(pool.map(device_of, [1, 2], chunksize=2)) == [(1, "left"), (2, "left")]


def test_items_go_to_workers_in_chunks() -> None:
    with tb.WorkerPool(own_process, workers=2, **QUICK) as pool:
        processes = pool.map(range(10), chunksize=5)
        assert len(processes) == 10
        assert len(set(processes[:5])) == len(set(processes[5:])) == 1
        assert pool.map(iter([]), chunksize=5) == []
        with pytest.raises(tb.InvalidArgument, match="chunksize"):
            pool.map([1], chunksize=0)


def test_the_two_kinds_of_pools_are_not_confused() -> None:
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        with pytest.raises(TypeError, match="without a function takes a function and its"):
            pool.submit(multiply, 1, 2)
        with pytest.raises(TypeError, match="takes its items alone"):
            pool.map(multiply, [1], [2])
    with tb.WorkerPool(workers=1, **QUICK) as pool:
        for form in (pool.imap, pool.imap_unordered):
            with pytest.raises(TypeError, match="pool without a function"):
                form([1])
        assert pool.submit(dict, item=3).result(PATIENCE) == {"item": 3}


def test_shutdown_cancels_what_no_worker_has_begun() -> None:
    with Gate() as gate:
        pool = tb.WorkerPool(wait_for, workers=1, **QUICK)
        running = pool.submit(gate)
        gate.who()
        waiting = [pool.submit(gate) for _ in range(3)]
        called: list[concurrent.futures.Future[Any]] = []
        for future in waiting:
            future.add_done_callback(called.append)
        pool.shutdown(wait=False, cancel_futures=True)
        assert concurrent.futures.wait(waiting, timeout=PATIENCE).done == set(waiting)
        assert all(future.cancelled() for future in waiting)
        assert called == waiting
        with pytest.raises(tb.Closed):
            pool.submit(gate)
        gate.let_one_through()
        assert running.result(PATIENCE) == "through"
        pool.shutdown()


def test_a_pool_ends_whose_last_waiting_item_was_cancelled_while_the_worker_was_busy() -> None:
    def is_closed() -> bool:
        try:
            pool.submit(gate).cancel()
        except tb.Closed:
            return True
        return False

    with Gate() as gate:
        pool = tb.WorkerPool(wait_for, workers=1, **QUICK)
        running = pool.submit(gate)
        gate.who()
        assert pool.submit(gate).cancel()
        ending = threading.Thread(target=pool.close, daemon=True)
        ending.start()
        eventually(is_closed)
        gate.let_one_through()
        assert running.result(PATIENCE) == "through"
        ending.join(PATIENCE)
        assert not ending.is_alive()


def test_shutdown_finishes_what_was_submitted() -> None:
    with Gate() as gate:
        pool = tb.WorkerPool(wait_for, workers=1, **QUICK)
        futures = [pool.submit(gate) for _ in range(2)]
        ending = threading.Thread(target=pool.shutdown)
        ending.start()
        for _ in futures:
            gate.who()
            gate.let_one_through()
        ending.join(PATIENCE)
        assert not ending.is_alive()
        assert [future.result(0) for future in futures] == ["through"] * 2


@pytest.mark.parametrize("end", ["terminate", "shutdown", "close"])
def test_a_callback_of_a_future_may_end_its_pool(end: str) -> None:
    ended = threading.Event()
    with Gate() as gate:
        pool = tb.WorkerPool(wait_for, workers=1, **QUICK)
        future = pool.submit(gate)

        def end_it(_: object) -> None:
            getattr(pool, end)()
            ended.set()

        future.add_done_callback(end_it)
        gate.who()
        gate.let_one_through()
        assert ended.wait(PATIENCE)
        assert future.result(0) == "through"
        with pytest.raises(tb.Closed):
            pool.submit(gate)
        pool.shutdown()  # from here it waits


def test_what_was_submitted_before_a_callback_shut_the_pool_down_is_done(
    elsewhere: Elsewhere,
) -> None:
    def leave() -> None:
        reading, writing = os.pipe()

        def work(number: int) -> int:
            if number == 0:
                os.read(reading, 1)
            return double(number)

        pool = tb.WorkerPool(work, workers=1, context="fork")
        futures = [pool.submit(number) for number in range(5)]
        shut_down = threading.Event()

        def shut_the_pool_down(_: object) -> None:
            pool.shutdown()
            shut_down.set()

        futures[0].add_done_callback(shut_the_pool_down)
        for future in futures:
            future.add_done_callback(lambda future: tell(future.result()))
        os.write(writing, b"x")
        assert shut_down.wait(PATIENCE)  # a result is there before its callbacks are called

    other = elsewhere.start(leave)
    assert [other.hear() for _ in range(5)] == [0, 2, 4, 6, 8]


def test_the_end_of_the_program_waits_for_a_pool_that_was_shut_down(elsewhere: Elsewhere) -> None:
    def leave() -> None:
        pool = tb.WorkerPool(double, workers=1, context="fork")
        for number in range(5):
            pool.submit(number).add_done_callback(lambda future: tell(future.result()))
        pool.shutdown(wait=False)

    other = elsewhere.start(leave)
    assert [other.hear() for _ in range(5)] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("access", [None, "copy-on-write", "private", "shared"])
def test_what_may_be_written_to_is_chosen_for_items_and_results(access: Any) -> None:
    item = tb.empty(1000, "float32", shared=access == "shared")
    item[:] = 0
    with tb.WorkerPool(add_one, workers=1, access=access, **QUICK) as pool:
        result = pool.map([item])[0]
        result += 1
        assert np.all(result == 2)
        assert np.all(item == (2 if access == "shared" else 0))


def test_items_and_results_of_a_pool_can_be_for_reading_alone() -> None:
    with tb.WorkerPool(double, workers=1, access="read", **QUICK) as pool:
        assert not pool.map([np.arange(1000)])[0].flags.writeable
    with (
        tb.WorkerPool(add_one, workers=1, access="read", **QUICK) as pool,
        pytest.raises(ValueError, match="read-only"),
    ):
        pool.map([np.arange(1000)])
    with pytest.raises(tb.InvalidArgument, match="access='rw'"):
        tb.WorkerPool(double, access="rw")  # type: ignore[arg-type]
