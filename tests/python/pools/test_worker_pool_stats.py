"""The times in the counters of a pool: means, maxima, percentiles of the last items."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE
from support.queues.pools import QUICK, Gate, double, wait_for
from tensorbus._pools.counts import WINDOW, Counts
from tensorbus._pools.task import Task


def counted(times: list[tuple[float, float]]) -> dict[str, Any]:
    """The fields after items with these times of waiting and running."""
    counts = Counts()
    for wait, run in times:
        task = Task(None, 0, 0.0)
        task.submitted, task.given, task.tries = 0.0, wait, 1
        counts.given([task])
        counts.answered([task], wait + run)
    return counts.fields()


def test_percentiles_are_by_nearest_rank() -> None:
    fields = counted([(number, 1000 - number) for number in range(1, 101)])
    assert [fields[f"p{p}_wait"] for p in (50, 90, 99)] == [50, 90, 99]
    assert [fields[f"p{p}_run"] for p in (50, 90, 99)] == [949, 989, 998]
    one = counted([(3, 5)])
    assert [one[f"p{p}_wait"] for p in (50, 90, 99)] == [3, 3, 3]


def test_they_forget_old_items_and_mean_and_maximum_do_not() -> None:
    fields = counted([(1000, 1000)] * 50 + [(1, 2)] * WINDOW)
    assert (fields["p99_wait"], fields["max_wait"]) == (1, 1000)
    assert (fields["p99_run"], fields["max_run"]) == (2, 1000)
    assert fields["mean_wait"] > 1
    fields = counted([(1, 1)] * WINDOW + [(9, 9)] * (WINDOW // 2))
    assert (fields["p50_wait"], fields["p90_wait"]) == (1, 9)


def test_a_pool_without_items_has_zeros() -> None:
    with tb.WorkerPool(double, workers=1, **QUICK) as pool:
        stats = pool.stats
        assert (stats.p50_wait, stats.p99_wait, stats.p50_run, stats.p99_run) == (0, 0, 0, 0)


def test_an_item_waits_while_another_one_runs() -> None:
    with Gate() as gate, tb.WorkerPool(wait_for, workers=1, **QUICK) as pool:
        futures = [pool.submit(gate) for _ in range(3)]
        for _ in futures:
            gate.who()
            gate.let_one_through()
        concurrent.futures.wait(futures, PATIENCE)
        stats = pool.stats
        assert stats.p50_run <= stats.p99_wait  # the last one has waited for both others
        assert 0 < stats.p50_wait <= stats.p90_wait == stats.p99_wait == stats.max_wait
        assert 0 < stats.p50_run <= stats.p90_run == stats.p99_run == stats.max_run


def test_any_thread_may_read_them_while_items_run() -> None:
    with tb.WorkerPool(double, workers=2, **QUICK) as pool:
        ended = threading.Event()

        def read() -> int:
            count = 0
            while not ended.is_set():
                stats = pool.stats
                assert stats.p50_run <= stats.p90_run <= stats.p99_run <= stats.max_run
                count += 1
            return count

        with concurrent.futures.ThreadPoolExecutor(4) as readers:
            reads = [readers.submit(read) for _ in range(4)]
            assert pool.map(range(500)) == [2 * number for number in range(500)]
            ended.set()
            assert all(each.result(PATIENCE) > 0 for each in reads)
