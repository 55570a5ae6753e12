"""Limits of a pool: how long an item may run, and how many items may wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually, unused
from support.queues.pools import QUICK, Gate, double

# Seconds for an item to run: a short one is long enough even on a busy machine.
LIMIT = 2.0


def run(item: Any) -> Any:
    """Notes this process in a file, and runs for ever if the name of the file is "hang"."""
    if isinstance(item, Path):
        with item.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if item.name == "hang":
            threading.Event().wait()
    if isinstance(item, Gate):
        item.wait()
    return item


def run_each(batch: list[Any]) -> list[Any]:
    return [run(item) for item in batch]


def stop(item: Any) -> Any:
    if item == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    return item


def load_slowly() -> None:
    threading.Event().wait(2 * 0.05)


def ignore(_: Any, item: Any) -> Any:
    return item


# How long an item may run.


def test_a_worker_whose_item_takes_too_long_is_ended_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with tb.WorkerPool(run, workers=1, run_timeout=LIMIT, **QUICK) as pool:
        hanging = pool.submit(tmp_path / "hang")
        after = pool.submit(np.arange(3))
        with pytest.raises(tb.RunTimeout) as raised:
            hanging.result(PATIENCE)
        assert isinstance(raised.value, tb.Timeout)
        first = int((tmp_path / "hang").read_text())
        end = f"worker 0 (process {first}) was ended after run_timeout=2 s"
        assert str(raised.value) == f"{end} at this task"
        assert after.result(PATIENCE).tolist() == [0, 1, 2]
        pool.submit(tmp_path / "quick").result(PATIENCE)
        assert int((tmp_path / "quick").read_text()) != first
        stats = pool.stats
        assert (stats.overran, stats.failed, stats.timed_out, stats.restarts) == (1, 1, 0, 1)
        assert stats.done == 2
    logged = [each.getMessage() for each in caplog.records if each.name == "tensorbus.pool"]
    assert logged == [f"{end}, with 1 items, of which 0 are tried again"]
    unused()


def test_the_items_of_other_workers_go_on(tmp_path: Path) -> None:
    with Gate() as gate, tb.WorkerPool(run, workers=2, run_timeout=LIMIT, **QUICK) as pool:
        hanging = pool.submit(tmp_path / "hang")
        assert isinstance(hanging.exception(PATIENCE), tb.RunTimeout)
        other = pool.submit(gate)
        gate.who()
        again = pool.submit(tmp_path / "quick")
        assert again.result(PATIENCE)
        gate.let_one_through()
        assert isinstance(other.result(PATIENCE), Gate)
        assert pool.stats.restarts == 1


def test_a_stopped_worker_is_ended() -> None:
    with tb.WorkerPool(stop, workers=1, run_timeout=LIMIT, **QUICK) as pool:
        assert isinstance(pool.submit("stop").exception(PATIENCE), tb.RunTimeout)
        assert pool.submit("go").result(PATIENCE) == "go"


def test_an_item_that_ran_alone_is_not_tried_again(tmp_path: Path) -> None:
    with tb.WorkerPool(run, workers=1, retries=3, run_timeout=0.1, **QUICK) as pool:
        assert isinstance(pool.submit(tmp_path / "hang").exception(PATIENCE), tb.RunTimeout)
    assert len((tmp_path / "hang").read_text().split()) == 1


@pytest.mark.parametrize("retries", [0, 1])
def test_an_item_of_a_batch_fails_alone_if_the_others_may_be_tried_again(
    retries: int, tmp_path: Path
) -> None:
    options: Any = {"batch": 3, "max_wait": PATIENCE, "retries": retries, **QUICK}
    with tb.WorkerPool(run_each, workers=1, run_timeout=LIMIT, **options) as pool:
        items = [1, tmp_path / "hang", 2]
        ends = [future.exception(PATIENCE) for future in [pool.submit(item) for item in items]]
        if retries:
            assert [type(end) for end in ends] == [type(None), tb.RunTimeout, type(None)]
            assert str(ends[1]).endswith("at this task")
            assert (pool.stats.overran, pool.stats.restarts) == (1, 2)
        else:
            assert all(str(end).endswith("at a batch of 3 items") for end in ends)
            assert (pool.stats.overran, pool.stats.restarts) == (3, 1)


def test_waiting_items_keep_their_order_and_their_own_time_outs(tmp_path: Path) -> None:
    with tb.WorkerPool(run, workers=1, run_timeout=LIMIT, **QUICK) as pool:
        began: list[Any] = []
        hanging = pool.submit(tmp_path / "hang")
        eventually((tmp_path / "hang").exists)
        late = pool.submit("late", timeout=0.01)
        futures = [pool.submit(number, priority=number) for number in range(3)]
        for future in futures:
            future.add_done_callback(lambda future: began.append(future.result()))
        dropped = pool.submit("cancelled")
        assert dropped.cancel()
        assert "no worker has begun" in str(late.exception(PATIENCE))
        assert not hanging.done()
        concurrent.futures.wait(futures, PATIENCE)
        assert began == [2, 1, 0]
        assert isinstance(hanging.exception(PATIENCE), tb.RunTimeout)


def test_a_pool_that_is_closed_or_made_smaller_ends_its_items_too(tmp_path: Path) -> None:
    for name in ("close", "resize"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "hang"
        with tb.WorkerPool(run, workers=2, run_timeout=LIMIT, **QUICK) as pool:
            futures = [pool.submit(path) for _ in range(2)]
            eventually(lambda path=path: path.exists() and len(path.read_text().split()) == 2)
            if name == "resize":
                pool.resize(1)
                assert all(isinstance(each.exception(PATIENCE), tb.RunTimeout) for each in futures)
                eventually(lambda pool=pool: (pool.stats.alive, pool.stats.ready) == (1, 1))
                assert pool.submit(1).result(PATIENCE) == 1
        assert all(isinstance(each.exception(0), tb.RunTimeout) for each in futures)
    unused()


def test_the_initializer_has_no_limit() -> None:
    options: Any = {"initializer": load_slowly, **QUICK}
    with tb.WorkerPool(ignore, workers=1, run_timeout=0.05, **options) as pool:
        assert pool.ready(PATIENCE)
        assert pool.stats.restarts == 0


def test_time_outs_at_any_moment_lose_and_double_nothing() -> None:
    """The limit ends about when the function does, so a result may come as its worker is killed."""
    with tb.WorkerPool(time.sleep, workers=2, run_timeout=0.02, **QUICK) as pool:
        futures = [pool.submit(0.02 + (number % 21 - 10) / 5000) for number in range(120)]
        ends = [future.exception(PATIENCE) for future in futures]
        assert {type(end) for end in ends} <= {type(None), tb.RunTimeout}
        stats = pool.stats
        assert (stats.done, stats.overran) == (ends.count(None), 120 - ends.count(None))
        assert stats.waiting == stats.running == 0
    unused()


def test_items_whose_time_is_over_are_not_tried_again(tmp_path: Path) -> None:
    """Their callers have given up, and each attempt would cost a worker."""
    hang = tmp_path / "hang"
    options: Any = {"batch": 3, "retries": 1, "run_timeout": LIMIT, **QUICK}
    with Gate() as gate, tb.WorkerPool(run_each, workers=1, **options) as pool:
        busy = pool.submit(gate)
        gate.who()
        items = [pool.submit(item, timeout=LIMIT / 2) for item in (hang, 1, 2)]  # a batch
        gate.let_one_through()
        assert busy.result(PATIENCE)
        ends = [str(each.exception(PATIENCE)) for each in items]
        assert all(end.endswith("at a batch of 3 items") for end in ends), ends
        assert pool.submit(3).result(PATIENCE) == 3
        assert pool.stats.restarts == 1
    assert len(hang.read_text().splitlines()) == 1


def test_an_item_that_waits_for_another_attempt_is_dropped_at_its_time(tmp_path: Path) -> None:
    options: Any = {"batch": 2, "retries": 1, "run_timeout": LIMIT, **QUICK}
    with Gate() as gate, tb.WorkerPool(run_each, workers=1, **options) as pool:
        busy = pool.submit(gate)
        gate.who()
        first = pool.submit(tmp_path / "hang")
        other = pool.submit(1, timeout=1.5 * LIMIT)
        gate.let_one_through()
        assert busy.result(PATIENCE)
        # The second attempt of the first item takes the time of the other one.
        assert str(other.exception(PATIENCE)) == "no worker has begun this item again in time"
        assert isinstance(first.exception(PATIENCE), tb.RunTimeout)


# How many items may wait.


def test_submit_beyond_the_bound_is_refused_at_once() -> None:
    with Gate() as gate, tb.WorkerPool(run, workers=1, max_waiting=2, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        futures = [pool.submit(number) for number in range(2)]
        for priority in (0, 9):
            with pytest.raises(queue.Full, match="2 items wait in the worker pool"):
                pool.submit(2, priority=priority)
        assert (pool.stats.refused, pool.stats.waiting) == (2, 2)
        gate.let_one_through()
        assert [future.result(PATIENCE) for future in futures] == [0, 1]
        assert pool.submit(3).result(PATIENCE) == 3
        stats = pool.stats
        assert (stats.refused, stats.done, stats.failed) == (2, 4, 0)


def test_a_cancelled_item_and_a_dropped_one_make_room_at_once() -> None:
    with Gate() as gate, tb.WorkerPool(run, workers=1, max_waiting=2, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        for _ in range(50):  # the thread of the pool may not have seen the cancellation yet
            waiting = [pool.submit(number) for number in range(2)]
            assert all(future.cancel() for future in waiting)
        late = [pool.submit(number, timeout=0.01) for number in range(2)]
        assert all(isinstance(future.exception(PATIENCE), tb.Timeout) for future in late)
        assert pool.submit(1, timeout=PATIENCE)
        gate.let_one_through()
    assert (pool.stats.cancelled, pool.stats.timed_out, pool.stats.done) == (100, 2, 2)
    assert concurrent.futures.wait(waiting, 0).not_done == set()


def test_map_and_imap_wait_for_room() -> None:
    with tb.WorkerPool(double, workers=2, max_waiting=1, **QUICK) as pool:
        expected = [2 * number for number in range(40)]
        assert pool.map(range(40)) == expected
        assert pool.map(range(40), chunksize=3) == expected
        assert sorted(pool.imap_unordered(range(40))) == expected
    with tb.WorkerPool(workers=2, max_waiting=1, **QUICK) as executor:
        assert list(executor.map(double, range(40))) == expected
        assert list(executor.map(double, range(40), chunksize=3)) == expected
        assert executor.stats.refused == 0


def test_their_wait_for_room_ends_with_their_timeout() -> None:
    with Gate() as gate, tb.WorkerPool(run, workers=1, max_waiting=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        other = pool.submit("other")
        with pytest.raises(tb.Timeout, match="could be submitted in time"):
            pool.map([1, 2], timeout=0.05)
        gate.let_one_through()
        assert other.result(PATIENCE) == "other"


@pytest.mark.parametrize("end", ["shutdown", "terminate"])
def test_their_wait_for_room_ends_with_the_pool(end: str) -> None:
    with Gate() as gate, tb.WorkerPool(run, workers=1, max_waiting=1, **QUICK) as pool:
        pool.submit(gate)
        gate.who()
        pool.submit(1)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(pool.map, [2, 3])
            eventually(lambda: pool._manager._waiting._room._waiters)  # type: ignore[attr-defined]
            if end == "shutdown":
                pool.shutdown(wait=False)
            else:
                pool.terminate()
            assert isinstance(waiting.exception(PATIENCE), tb.Closed)
        gate.let_one_through()


def test_a_callback_of_a_future_never_waits_for_room() -> None:
    with Gate() as gate, tb.WorkerPool(run, workers=1, max_waiting=1, **QUICK) as pool:
        ended: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def submit_more(_: object) -> None:
            pool.submit(gate)
            try:
                pool.map([1, 2])
            except queue.Full as error:
                ended.set_result(error)

        pool.submit(0).add_done_callback(submit_more)
        assert isinstance(ended.result(PATIENCE), queue.Full)
        gate.who()
        gate.let_one_through()


def test_an_event_loop_gets_the_error_at_once() -> None:
    async def main(pool: tb.WorkerPool[Any, Any]) -> None:
        loop = asyncio.get_running_loop()
        calls = [loop.run_in_executor(pool, run, gate)]
        gate.who()
        calls += [loop.run_in_executor(pool, double, number) for number in range(3)]
        with pytest.raises(queue.Full):
            loop.run_in_executor(pool, double, 3)
        gate.let_one_through()
        assert (await asyncio.gather(*calls))[1:] == [0, 2, 4]

    with Gate() as gate, tb.WorkerPool(workers=1, max_waiting=3, **QUICK) as pool:
        asyncio.run(main(pool))


def test_items_that_are_tried_again_are_never_refused(tmp_path: Path) -> None:
    options: Any = {"batch": 2, "max_wait": 0.0, "retries": 1, **QUICK}
    with tb.WorkerPool(run_each, workers=1, max_waiting=2, run_timeout=LIMIT, **options) as pool:
        hanging = [pool.submit(tmp_path / "hang") for _ in range(2)]
        eventually((tmp_path / "hang").exists)
        futures = []
        while pool.stats.waiting < 2:
            futures.append(pool.submit(len(futures)))
        assert all(isinstance(each.exception(PATIENCE), tb.RunTimeout) for each in hanging)
        assert [each.result(PATIENCE) for each in futures] == [*range(len(futures))]


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_timeout": 0},
        {"run_timeout": -1.0},
        {"run_timeout": float("nan")},
        {"max_waiting": 0},
        {"max_waiting": 1.5},
        {"max_waiting": 7, "batch": 8},
    ],
)
def test_wrong_limits_are_refused(wrong: Any) -> None:
    with pytest.raises(tb.InvalidArgument, match=next(iter(wrong))):
        tb.WorkerPool(run_each, workers=1, **wrong, **QUICK)
    with pytest.raises(TypeError, match="run_timeout='soon'"):
        tb.WorkerPool(run_each, workers=1, run_timeout="soon", **QUICK)  # type: ignore[call-overload]


def test_an_infinite_limit_is_none() -> None:
    with tb.WorkerPool(len, workers=1, run_timeout=float("inf"), **QUICK) as pool:
        assert pool.submit("abc").result(PATIENCE) == 3


@pytest.mark.parametrize("wrong", [{"function": 5}, {"function": len, "initializer": "load"}])
def test_what_cannot_be_called_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a function, or None"):
        tb.WorkerPool(workers=1, **wrong, **QUICK)
