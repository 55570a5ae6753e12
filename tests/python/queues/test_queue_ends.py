"""How a queue ends: shutdown(), close(), the end of a `with` block, and the end of its process."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb

SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


def drain(jobs: tb.Queue, got: tb.Queue) -> None:
    try:
        while True:
            got.put(jobs.get(timeout=30))
    except tb.ShutDown:
        got.put("shut down")


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs the call; the list then has its result, or the class of what it raised."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_the_end_is_the_standard_librarys_too() -> None:
    assert issubclass(tb.ShutDown, tb.Closed)
    if sys.version_info >= (3, 13):
        assert issubclass(tb.ShutDown, queue.ShutDown)


def test_after_a_shutdown_getters_drain_what_waits_and_nothing_gets_in() -> None:
    with tb.Queue(maxsize=8) as jobs:
        jobs.put(1)
        jobs.put(2)
        jobs.shutdown()
        with pytest.raises(tb.ShutDown):
            jobs.put(3)
        with pytest.raises(tb.ShutDown):
            jobs.put_nowait(3)
        assert jobs.get() == 1
        assert list(jobs) == [2]
        for get in (jobs.get, jobs.get_nowait, lambda: jobs.get_many(5)):
            with pytest.raises(tb.ShutDown):
                get()
        jobs.task_done()
        jobs.task_done()
        assert jobs.join(timeout=10)


def test_an_immediate_shutdown_drops_what_waits_and_ends_join() -> None:
    with tb.Queue() as jobs:
        jobs.put(1)
        jobs.put(2)
        joining, joined = in_thread(jobs.join)
        jobs.shutdown(immediate=True)
        joining.join(20)
        assert joined == [True]
        with pytest.raises(tb.ShutDown):
            jobs.get()
        assert jobs.stats == {"items": 0, "unfinished": 0, "lost": 0, "bytes": 0}


def test_a_shutdown_wakes_a_putter_and_a_getter_that_wait() -> None:
    with tb.Queue(maxsize=1) as full, tb.Queue() as empty:
        full.put(1)
        putting, put = in_thread(lambda: full.put(2))
        getting, got = in_thread(empty.get)
        time.sleep(0.1)  # it shall be asleep, which nothing tells; awake it must pass as well
        full.shutdown()
        empty.shutdown()
        putting.join(20)
        getting.join(20)
        assert put == got == [tb.ShutDown]
        assert full.get() == 1


@pytest.mark.parametrize("start", [FORK, SPAWN], ids=["fork", "spawn"])
def test_consumers_in_other_processes_get_all_and_then_the_end(start: Any) -> None:
    with tb.Queue() as jobs, tb.Queue() as got:
        workers = [start.Process(target=drain, args=(jobs, got)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for number in range(20):
            jobs.put(np.full(1000, number))
        jobs.shutdown()
        found = [got.get(timeout=60) for _ in range(22)]
        arrays = [item for item in found if isinstance(item, np.ndarray)]
        assert sorted(int(item[0]) for item in arrays) == list(range(20))
        assert len(arrays) == 20
        for worker in workers:
            worker.join(20)
            assert worker.exitcode == 0


def shut_down_by_name(name: str) -> None:
    tb.Queue.open(name, timeout=30).shutdown()


def test_any_process_that_has_the_queue_may_shut_it_down() -> None:
    with tb.Queue(name="shut/by/name") as jobs:
        jobs.put(1)
        other = SPAWN.Process(target=shut_down_by_name, args=("shut/by/name",))
        other.start()
        other.join(60)
        assert other.exitcode == 0
        assert list(jobs) == [1]


def test_event_loops_get_the_end_as_well() -> None:
    async def main() -> None:
        with tb.Queue(maxsize=1) as jobs:
            await jobs.put_async(1)
            putting = asyncio.create_task(jobs.put_async(2))
            await asyncio.sleep(0)
            jobs.shutdown()
            with pytest.raises(tb.ShutDown):
                await putting
            assert [item async for item in jobs] == [1]
            with pytest.raises(tb.ShutDown):
                await jobs.get_async()

    asyncio.run(main())


def take_and_stay(jobs: tb.Queue, ready: tb.Queue) -> None:
    ready.put(jobs.get(timeout=30))
    time.sleep(600)


def test_with_redeliver_the_end_waits_for_what_a_dying_consumer_may_give_back() -> None:
    with tb.Queue(redeliver=True) as jobs, tb.Queue() as ready:
        jobs.put("mine")
        holder = FORK.Process(target=take_and_stay, args=(jobs, ready))
        holder.start()
        assert ready.get(timeout=30) == "mine"
        jobs.shutdown()
        with pytest.raises(queue.Empty):
            jobs.get(timeout=0.2)
        with pytest.raises(queue.Empty):
            jobs.get_nowait()
        waiting, got = in_thread(lambda: jobs.get(timeout=30))
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()
        waiting.join(30)
        assert got == ["mine"]
        jobs.task_done()
        with pytest.raises(tb.ShutDown):
            jobs.get(timeout=30)


def slowly(jobs: tb.Queue, got: tb.Queue) -> None:
    got.put("ready")
    for item in jobs:
        time.sleep(0.05)
        got.put(item)


@pytest.mark.parametrize("start", [FORK, SPAWN], ids=["fork", "spawn"])
def test_the_end_of_a_with_block_waits_until_others_have_what_waits(start: Any) -> None:
    with tb.Queue() as got:
        with tb.Queue() as jobs:
            consumer = start.Process(target=slowly, args=(jobs, got))
            consumer.start()
            for number in range(10):
                jobs.put(number)
        assert [got.get(timeout=30) for _ in range(11)] == ["ready", *range(10)]
        consumer.join(20)
        assert consumer.exitcode == 0


def get_one(jobs: tb.Queue, got: tb.Queue) -> None:
    got.put(jobs.get(timeout=30))


def test_the_end_of_a_with_block_does_not_wait_when_the_only_consumer_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began = 0.0
    with tb.Queue() as got, tb.Queue() as jobs:
        jobs.put(1)
        jobs.put(2)
        consumer = FORK.Process(target=get_one, args=(jobs, got))
        consumer.start()
        assert got.get(timeout=30) == 1
        consumer.join(20)
        assert jobs.get() == 2
        jobs.put(3)
        began = time.monotonic()
    assert time.monotonic() - began < 4
    assert "1 items" in caplog.text


def get_one_and_die_at_the_end(jobs: tb.Queue, go: tb.Queue) -> None:
    jobs.get(timeout=30)
    go.get(timeout=30)
    with suppress(tb.ShutDown):
        jobs.put("waits for room until the maker leaves its block")
    os._exit(1)


def test_the_end_of_a_with_block_hears_that_the_only_consumer_dies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tensorbus._queues.ending._NO_GETTER_TIMEOUT", 0.5)
    with tb.Queue() as go:
        with tb.Queue(maxsize=1) as jobs:
            consumer = FORK.Process(target=get_one_and_die_at_the_end, args=(jobs, go))
            consumer.start()
            jobs.put(1)
            jobs.put(2)  # when the consumer has got the first
            go.put("go")
            began = time.monotonic()
        assert time.monotonic() - began < 20
        consumer.join(20)
        assert consumer.exitcode == 1


def test_items_that_are_dropped_are_counted_in_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with tb.Queue(name="drops") as jobs:
        jobs.put(1)
        jobs.put(2)
        jobs.close()
    with tb.Queue() as alone:
        alone.put(1)
    with suppress(RuntimeError), tb.Queue(name="fails") as failing:
        failing.put(1)
        raise RuntimeError
    warnings = [(one.name, one.levelno) for one in caplog.records]
    assert warnings == [("tensorbus.queue", logging.WARNING)] * 3
    assert "'drops'" in caplog.text
    assert "with 2 items" in caplog.text


def test_close_with_a_timeout_lets_others_take_what_waits_for_so_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = tb.Queue()
    jobs.put(1)
    jobs.close(timeout=0.2)
    assert "with 1 items" in caplog.text
    with tb.Queue() as got:
        jobs = tb.Queue()
        consumer = FORK.Process(target=slowly, args=(jobs, got))
        consumer.start()
        for number in range(5):
            jobs.put(number)
        jobs.close(timeout=None)
        assert [got.get(timeout=30) for _ in range(6)] == ["ready", *range(5)]
        consumer.join(20)


MAKER = """
import sys, tensorbus as tb
queue = tb.Queue(name="taken")
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def maker() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        yield process
        process.kill()


def test_the_second_queue_of_a_name_is_told_of_the_first_ones_process(
    maker: subprocess.Popen[str],
) -> None:
    with pytest.raises(tb.InvalidArgument, match=f"process {maker.pid} .*python.*Queue.open"):
        tb.Queue(name="taken")
    assert tb.Queue.open("taken", timeout=10).qsize() == 0  # it is still the first one
    maker.kill()
    maker.wait()
    with tb.Queue(name="taken"), pytest.raises(tb.InvalidArgument, match=str(os.getpid())):
        tb.Queue(name="taken")
    tb.Queue(name="taken").close()


def make_at_once(start: Any, said: tb.Queue) -> None:
    start.wait()
    try:
        with tb.Queue(name="contested"):
            said.put("made")
            start.wait()
    except tb.InvalidArgument:
        said.put("told")
        start.wait()


def test_of_processes_that_make_a_name_at_once_one_has_it() -> None:
    with tb.Queue() as said:
        for _ in range(5):
            start = FORK.Barrier(4)
            makers = [FORK.Process(target=make_at_once, args=(start, said)) for _ in range(4)]
            for each in makers:
                each.start()
            found = sorted(said.get(timeout=60) for _ in makers)
            for each in makers:
                each.join(30)
            assert found == ["made", "told", "told", "told"]


def test_what_waits_outlives_its_producer_but_not_the_maker_of_the_queue() -> None:
    producer = (
        "import tensorbus as tb\n"
        "with tb.Queue.open('outlives', timeout=30) as queue:\n"
        "    for i in range(5): queue.put(i)\n"
    )
    with tb.Queue(name="outlives") as kept:
        subprocess.run([sys.executable, "-c", producer], check=True, timeout=60)
        assert kept.get_many(10) == list(range(5))
    script = (
        "import tensorbus as tb\n"
        "queue = tb.Queue(name='short')\n"
        "queue.put(1); queue.put(2)\n"
        "print('put', flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "put\n"
        opened = tb.Queue.open("short", timeout=30)
        assert opened.get(timeout=30) == 1
        process.communicate("\n", timeout=30)
    with pytest.raises(tb.Closed) as gone:
        opened.get(timeout=10)
    assert not isinstance(gone.value, tb.ShutDown)
