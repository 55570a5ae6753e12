"""put_many() and get_many() between processes: order, time-outs, ends, and deaths on the way."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb

FORK = multiprocessing.get_context("fork")


def in_a_child(work: Any, *args: Any) -> Any:
    child = FORK.Process(target=work, args=args)
    child.start()
    return child


def test_all_are_put_in_their_order() -> None:
    with tb.Queue() as items:
        assert items.put_many(range(1_000)) == 1_000
        assert items.put_many([]) == 0
        assert items.qsize() == 1_000
        got: list[int] = []
        while len(got) < 1_000:
            got += items.get_many(300)
        assert got == list(range(1_000))


def test_what_finds_no_room_in_time_is_not_put() -> None:
    with tb.Queue(maxsize=5) as items:
        assert items.put_many(range(9), timeout=0) == 5
        assert items.put_many("ab", timeout=0.02) == 0
        assert items.get_many(2) == [0, 1]
        assert items.put_many("abc", timeout=0.02) == 2
        assert items.get_many(9) == [2, 3, 4, "a", "b"]


def test_tensors_keep_their_place_between_other_items() -> None:
    with tb.Queue() as items:
        arrays = [np.full(3, number) for number in range(4)]
        mixed = [1, arrays[0], "two", {"three": arrays[1]}, arrays[2], 4.0, arrays[3]]
        assert items.put_many(mixed) == 7
        got = items.get_many(7)
        assert [type(item) for item in got] == [type(item) for item in mixed]
        assert got[1].tolist() == [0, 0, 0]
        assert got[6].tolist() == [3, 3, 3]
        received = got[1]
        # What was received is handed on: its place holds although its owner is asked first.
        assert items.put_many([received, "behind", received, "it"]) == 4
        assert [type(item) for item in items.get_many(4)] == [np.ndarray, str] * 2


def _three_and_an_error() -> Iterator[int]:
    yield from range(3)
    raise ZeroDivisionError


def test_what_comes_before_an_error_is_in_the_queue() -> None:
    with tb.Queue[Any]() as items:
        with pytest.raises(ZeroDivisionError):
            items.put_many(_three_and_an_error())
        assert items.get_many(9) == [0, 1, 2]
        with pytest.raises(Exception, match="pickle"):
            items.put_many([3, np.zeros(1), 4, lambda: 0, 5])
        assert [type(one) for one in items.get_many(9)] == [int, np.ndarray, int]


def test_a_queue_of_bytes_takes_what_fits() -> None:
    with tb.Queue(max_bytes=10_000) as items:
        with pytest.raises(tb.InvalidArgument):
            items.put_many([b"x" * 100, b"y" * 20_000, b"z"])
        assert items.get_many(5) == [b"x" * 100]
        assert items.put_many([b"x" * 6_000, b"y" * 6_000, b"z"], timeout=0.02) == 1


def test_a_shutdown_ends_it() -> None:
    with tb.Queue(maxsize=2) as items:
        raised = threading.Event()

        def put() -> None:
            with pytest.raises(tb.ShutDown):
                items.put_many(range(10))
            raised.set()

        putting = threading.Thread(target=put)
        putting.start()
        while items.qsize() < 2:
            pass
        items.shutdown()
        putting.join(60)
        assert raised.is_set()
        assert list(items) == [0, 1]
        with pytest.raises(tb.ShutDown):
            items.put_many([1])


def test_between_processes_nothing_is_lost_and_the_order_holds() -> None:
    with tb.Queue(maxsize=50) as there, tb.Queue(maxsize=50) as back:

        def echo() -> None:
            while True:
                some = there.get_many(random.randint(1, 40))
                assert back.put_many(some) == len(some)
                if some[-1] is None:
                    return

        child = in_a_child(echo)
        sent = [*range(5_000), None]
        putting = threading.Thread(target=lambda: there.put_many(sent))
        putting.start()
        got: list[Any] = []
        while not got or got[-1] is not None:
            got += back.get_many(random.randint(1, 100), timeout=60)
        assert got == sent
        putting.join()
        child.join()


def test_impatient_producers_know_how_many_they_have_put() -> None:
    """Of each call a first part is in the queue, and exactly as many as it said."""
    with tb.Queue(maxsize=7) as items, tb.Queue() as told:

        def produce(name: int) -> None:
            calls = []
            for call in range(200):
                limit = random.choice([0, 0.0001, 0.001, None])
                calls.append(
                    items.put_many([(name, call, i) for i in range(random.randint(1, 20))], limit)
                )
            told.put((name, calls))

        children = [in_a_child(produce, name) for name in range(3)]
        got: list[tuple[int, int, int]] = []
        counts: dict[int, list[int]] = {}
        while len(counts) < 3:
            with suppress(queue.Empty):
                got += items.get_many(random.randint(1, 9), timeout=0.001)
            with suppress(queue.Empty):
                name, calls = told.get_nowait()
                counts[name] = calls
        for child in children:
            child.join()
        while items.qsize():
            got += items.get_many(100)
        for name, calls in counts.items():
            expected = [(name, call, i) for call, count in enumerate(calls) for i in range(count)]
            assert [item for item in got if item[0] == name] == expected


def test_consumers_that_are_killed_give_everything_back() -> None:
    with tb.Queue(redeliver=True) as jobs, tb.Queue() as done:

        def consume() -> None:
            while True:
                for job in jobs.get_many(random.randint(1, 20)):
                    done.put(job)
                    jobs.task_done()

        workers = [in_a_child(consume) for _ in range(2)]
        assert jobs.put_many(range(600)) == 600
        seen: set[int] = set()
        while len(seen) < 600:
            seen.add(done.get(timeout=60))
            if len(seen) % 60 == 0 and len(seen) < 600:
                victim = workers.pop(0)
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                workers.append(in_a_child(consume))
        for worker in workers:
            worker.kill()
            worker.join()
        assert seen == set(range(600))


def test_a_producer_that_is_killed_has_put_a_first_part() -> None:
    for _ in range(5):
        with tb.Queue() as items:

            def produce() -> None:
                items.put_many(range(100_000))

            child = in_a_child(produce)
            got = items.get_many(10, timeout=60)
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            while items.qsize():
                got += items.get_many(1_000)
            assert got == list(range(len(got)))


def test_the_process_that_has_the_queue_ends() -> None:
    with tb.Queue() as addresses:

        def host() -> None:
            items: Any = tb.Queue(maxsize=3)
            addresses.put(items)
            items.get()
            os._exit(0)

        child = in_a_child(host)
        items = addresses.get(timeout=60)
        with pytest.raises(tb.Closed):
            items.put_many(range(100))
        with pytest.raises(tb.Closed):
            items.get_many(5)
        child.join()
