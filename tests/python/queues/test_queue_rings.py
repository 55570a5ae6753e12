"""Small items that producers put without asking the process that made the queue."""

from __future__ import annotations

import queue
import signal
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell, unused

MANY = 600  # more than a ring has room for


def put_numbers(address: str, who: int, count: int) -> None:
    line = tb.Queue.open(address)
    for number in range(count):
        line.put((who, number))
    tell("done")
    hear()


def put_what_is_heard(address: str) -> None:
    line = tb.Queue.open(address)
    while (item := hear()) is not None:
        try:
            line.put(item, timeout=0)
            tell("put")
        except queue.Full:
            tell("full")
        except tb.ShutDown:
            tell("shut down")
        except tb.Closed:
            tell("closed")


def by_producer(items: list[Any]) -> dict[int, list[int]]:
    numbers: dict[int, list[int]] = defaultdict(list)
    for who, number in items:
        numbers[who].append(number)
    return numbers


@pytest.mark.parametrize("maxsize", [0, 1, 7])
def test_items_of_each_producer_stay_in_order(elsewhere: Elsewhere, maxsize: int) -> None:
    with tb.Queue(maxsize=maxsize) as line:
        others = [elsewhere.start(put_numbers, line.address, who, MANY) for who in range(3)]
        items = [line.get(timeout=PATIENCE) for _ in range(3 * MANY)]
        assert by_producer(items) == {who: list(range(MANY)) for who in range(3)}
        for other in others:
            assert other.hear() == "done"
            other.tell()
        assert line.stats.unfinished == 3 * MANY
    unused()


def test_what_was_put_first_is_got_first(elsewhere: Elsewhere) -> None:
    """One that learns that an item was put, and then puts one, is behind it."""
    with tb.Queue() as line:
        others = [elsewhere.start(put_what_is_heard, line.address) for _ in range(3)]
        for number in range(MANY):
            other = others[number % 3]
            other.tell(number)
            assert other.hear() == "put"
        assert [line.get_nowait() for _ in range(MANY)] == list(range(MANY))
        for other in others:
            other.tell(None)


def test_what_was_put_is_counted_and_put_through_by_every_call(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = elsewhere.start(put_what_is_heard, line.address)
        for number in range(1, 6):
            other.tell(number)
            assert other.hear() == "put"
            assert line.qsize() == number
            assert not line.join(timeout=0)
        assert line.get_many(3) == [1, 2, 3]
        assert [line.get(), line.get()] == [4, 5]
        for _ in range(5):
            line.task_done()
        assert line.join(timeout=PATIENCE)
        with pytest.raises(queue.Empty):
            line.get_nowait()
        other.tell(None)


def test_producers_together_put_no_more_than_there_is_room_for(elsewhere: Elsewhere) -> None:
    with tb.Queue(maxsize=10) as line:
        others = [elsewhere.start(put_what_is_heard, line.address) for _ in range(3)]
        for _ in range(20):
            put = 0
            while True:
                said = []
                for other in others:
                    other.tell(0)
                    said.append(other.hear())
                put += said.count("put")
                if "full" in said:
                    break
            assert put == 10 == line.qsize()
            assert line.full()
            line.put_many([0], timeout=0)
            for _ in range(10):
                line.get_nowait()
        for other in others:
            other.tell(None)


def test_a_stopped_producer_keeps_no_room(elsewhere: Elsewhere) -> None:
    with tb.Queue(maxsize=4) as line:
        stopped, other = (elsewhere.start(put_what_is_heard, line.address) for _ in range(2))
        stopped.tell(0)
        assert stopped.hear() == "put"
        assert line.get() == 0
        stopped.stop()  # room was promised to it
        for number in range(4):
            other.tell(number)
            assert other.hear() == "put"
        other.tell(4)
        assert other.hear() == "full"
        stopped.signal(signal.SIGCONT)
        stopped.tell(5)
        assert stopped.hear() == "full"
        assert line.get_many(9) == [0, 1, 2, 3]
        for one in (stopped, other):
            one.tell(None)


def test_what_a_killed_producer_had_put_is_there(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        for round_ in range(5):
            other = elsewhere.start(put_numbers, line.address, round_, 100)
            assert other.hear() == "done"
            other.kill()
            assert by_producer(line.get_many(1000)) == {round_: list(range(100))}


def test_a_getter_that_waits_is_woken(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = elsewhere.start(put_what_is_heard, line.address)
        for number in range(50):
            other.tell(number)
            assert line.get(timeout=PATIENCE) == number
            assert other.hear() == "put"
        other.tell(None)


def make_queue() -> None:
    line = tb.Queue(name="mortal")
    tell(line.address)
    while (command := hear()) is not None:
        tell(getattr(line, command)())


def test_nothing_is_put_into_the_queue_of_a_dead_process(elsewhere: Elsewhere) -> None:
    maker = elsewhere.start(make_queue)
    line = tb.Queue.open(maker.hear())
    for number in range(10):
        line.put(number)
    maker.tell("qsize")
    assert maker.hear() == 10
    maker.kill()
    with pytest.raises(tb.Closed):
        line.put(10)
    unused()


def rings() -> int:
    return Path("/proc/self/maps").read_text().count("memfd:tensorbus-put")


def test_the_ring_of_a_dead_process_is_unmapped(elsewhere: Elsewhere) -> None:
    before = rings()
    maker = elsewhere.start(make_queue)
    line = tb.Queue.open(maker.hear())
    for number in range(10):  # the first put asks for the ring
        line.put(number)
    eventually(lambda: rings() == before + 1)
    maker.kill()
    eventually(lambda: rings() == before)


def test_nothing_is_put_after_a_shutdown(elsewhere: Elsewhere) -> None:
    maker = elsewhere.start(make_queue)
    line = tb.Queue.open(maker.hear())
    for round_ in range(10):
        line.put(round_)
    maker.tell("shutdown")
    maker.hear()
    with pytest.raises(tb.ShutDown):
        line.put(11)
    assert list(line) == list(range(10))
    maker.tell(None)


def test_a_shutdown_that_drops_meets_many_puts(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = tb.Queue.open(line.address)
        put = 0

        def put_all() -> None:
            nonlocal put
            try:
                while True:
                    other.put(put)
                    put += 1
            except tb.ShutDown:
                pass

        thread = threading.Thread(target=put_all)
        thread.start()
        got = [line.get(timeout=PATIENCE) for _ in range(1000)]
        line.shutdown()
        thread.join()
        got += list(line)
        assert got == list(range(put))


def test_many_queue_objects_of_one_process_leave_no_rings() -> None:
    maker = tb.Queue()
    for number in range(200):
        with tb.Queue.open(maker.address) as line:
            line.put(number)
            line.put(-number)
    assert maker.get_many(1000)[::2] == list(range(200))
    maker.close()
    unused()


def put_and_get(address: str, count: int) -> None:
    line = tb.Queue.open(address)
    answers = [line.get(timeout=PATIENCE) for _ in range(count)]
    tell(answers)


def test_items_of_all_kinds_stay_in_order(elsewhere: Elsewhere) -> None:
    """Large ones and small ones take different ways."""
    import numpy as np

    with tb.Queue() as line:
        opened = elsewhere.start(put_mixed, line.address)
        for number in range(100):
            item = line.get(timeout=PATIENCE)
            assert (len(item) if isinstance(item, (bytes, np.ndarray)) else item) == number
        opened.tell()


def put_mixed(address: str) -> None:
    import numpy as np

    line = tb.Queue.open(address)
    for number in range(100):
        kinds = [number, bytes(number), np.zeros(number, np.float32)]
        line.put(kinds[number % 3])
    hear()


def test_a_getter_elsewhere_gets_what_the_maker_puts(elsewhere: Elsewhere) -> None:
    with tb.Queue(maxsize=5) as line:
        other = elsewhere.start(put_and_get, line.address, 300)
        for number in range(300):
            line.put(number, timeout=PATIENCE)
        assert other.hear() == list(range(300))
        eventually(lambda: line.qsize() == 0)
