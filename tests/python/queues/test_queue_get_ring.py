"""Small items that getters in other processes take without asking."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell, unused

MANY = 2000  # several times what is lent ahead at once


def get_until_the_end(address: str) -> None:
    tell(list(tb.Queue.open(address)))


def get_and_finish(address: str) -> None:
    line = tb.Queue.open(address)
    items = []
    for item in line:
        items.append(item)
        line.task_done()
    tell(items)


def get_impatiently(address: str) -> None:
    """Each second get has so little time that many end just when an item comes."""
    line = tb.Queue.open(address)
    items = []
    turn = 0
    while True:
        turn += 1
        try:
            items.append(line.get(timeout=0.00005 * (turn % 5)))
        except queue.Empty:
            continue
        except tb.ShutDown:
            break
    tell(items)


def get_what_is_heard(address: str) -> None:
    line = tb.Queue.open(address)
    while (command := hear()) is not None:
        name, arguments = command
        try:
            tell(getattr(line, name)(*arguments))
        except queue.Empty:
            tell("empty")
        except tb.ShutDown:
            tell("shut down")
        except tb.Closed:
            tell("closed")


def ring_is_mapped(process: Any) -> bool:
    return "memfd:tensorbus-get" in Path(f"/proc/{process.pid}/maps").read_text()


def getting_by_ring(elsewhere: Elsewhere, line: tb.Queue[Any]) -> Any:
    """A process that takes what it gets from the ring."""
    other = elsewhere.start(get_what_is_heard, line.address)
    while not ring_is_mapped(other):
        line.put("first")
        other.tell(("get", ()))
        assert other.hear() == "first"
    return other


def get(other: Any, *arguments: Any) -> Any:
    other.tell(("get", arguments))
    return other.hear()


@pytest.mark.parametrize("impatient", [False, True])
@pytest.mark.parametrize("maxsize", [0, 1, 7])
def test_one_getter_gets_all_in_order(elsewhere: Elsewhere, maxsize: int, impatient: bool) -> None:
    with tb.Queue(maxsize=maxsize) as line:
        getter = elsewhere.start(get_impatiently if impatient else get_until_the_end, line.address)
        for number in range(MANY):
            line.put(number)
            if number % 100 == 0:
                assert line.join(timeout=0) is False
        line.shutdown()
        assert getter.hear() == list(range(MANY))
    unused()


@pytest.mark.parametrize("redeliver", [False, True])
def test_each_item_has_one_getter(elsewhere: Elsewhere, redeliver: bool) -> None:
    with tb.Queue(redeliver=redeliver) as line:
        getters = [elsewhere.start(get_and_finish, line.address) for _ in range(3)]
        for number in range(MANY):
            line.put(number)
        mine = [line.get() for _ in range(10)]
        for _ in mine:
            line.task_done()
        line.shutdown()
        assert line.join(timeout=PATIENCE)
        theirs = [getter.hear() for getter in getters]
        for items in theirs:
            assert items == sorted(items)
        assert sorted(sum(theirs, mine)) == list(range(MANY))


def test_what_is_lent_ahead_waits(elsewhere: Elsewhere) -> None:
    with tb.Queue(maxsize=5) as line:
        other = getting_by_ring(elsewhere, line)
        done = line.stats.unfinished
        for number in range(5):
            line.put(number)
        assert line.qsize() == 5
        assert line.full()
        with pytest.raises(queue.Full):
            line.put(5, timeout=0)
        assert get(other) == 0
        assert line.qsize() == 4
        line.put(5, timeout=0)
        assert line.get() == 1
        assert get(other) == 2
        assert line.stats.unfinished == done + 6
        other.tell(("get_many", (10,)))
        assert other.hear() == [3, 4, 5]
        assert get(other, 0) == "empty"
        for _ in range(done + 5):
            other.tell(("task_done", ()))
            assert other.hear() is None
        assert not line.join(timeout=0)
        line.task_done()
        assert line.join(timeout=PATIENCE)
        other.tell(None)


def test_a_put_that_waits_for_room_goes_on_when_an_item_is_taken(elsewhere: Elsewhere) -> None:
    with tb.Queue(maxsize=1) as line:
        other = getting_by_ring(elsewhere, line)
        for number in range(100):
            line.put(number, timeout=PATIENCE)
            put = threading.Thread(target=line.put, args=(-number,), kwargs={"timeout": PATIENCE})
            put.start()
            assert get(other) == number
            put.join()
            assert get(other) == -number
        other.tell(None)


def test_a_small_item_does_not_overtake_a_large_one(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = getting_by_ring(elsewhere, line)
        items = [number if number % 3 else str(number) * 1000 for number in range(300)]
        for item in items:
            line.put(item)
        assert [get(other) for _ in items] == items
        other.tell(None)


def test_an_item_that_comes_back_is_the_next_one(elsewhere: Elsewhere) -> None:
    with tb.Queue(redeliver=True) as line:
        first, second = (getting_by_ring(elsewhere, line) for _ in range(2))
        for number in range(10):
            line.put(number)
        assert get(first) == 0
        assert get(second) == 1
        first.kill()
        eventually(lambda: line.qsize() > 8)
        second.tell(("get_many", (100,)))
        items = second.hear()
        assert [item for item in items if item != "first"] == [0, *range(2, 10)]
        second.tell(None)


def test_what_a_killed_getter_had_taken_is_lost_and_counted(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = getting_by_ring(elsewhere, line)
        before = line.stats.lost
        for number in range(50):
            line.put(number)
        assert [get(other) for _ in range(7)] == list(range(7))
        other.kill()
        assert [line.get(timeout=PATIENCE) for _ in range(43)] == list(range(7, 50))
        # What it was finished with counts as done; the last one was in its hand.
        eventually(lambda: line.stats.lost == before + 1)


def test_a_stopped_getter_keeps_nothing(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        stopped, other = (getting_by_ring(elsewhere, line) for _ in range(2))
        for number in range(50):
            line.put(number)
        assert get(stopped) == 0
        stopped.stop()
        other.tell(("get_many", (100,)))
        assert other.hear() == list(range(1, 50))
        stopped.signal(signal.SIGCONT)
        assert get(stopped, 0) == "empty"
        for each in (stopped, other):
            each.tell(None)


def test_a_shutdown_lets_the_rest_be_got(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = getting_by_ring(elsewhere, line)
        for number in range(5):
            line.put(number)
        line.shutdown()
        assert [get(other) for _ in range(6)] == [0, 1, 2, 3, 4, "shut down"]
        other.tell(None)


def test_an_immediate_shutdown_takes_all_back(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        other = getting_by_ring(elsewhere, line)
        for number in range(5):
            line.put(number)
        assert get(other) == 0
        line.shutdown(immediate=True)
        assert get(other) == "shut down"
        other.tell(None)


def test_close_takes_all_back(elsewhere: Elsewhere) -> None:
    line: tb.Queue[int] = tb.Queue()
    other = getting_by_ring(elsewhere, line)
    for number in range(5):
        line.put(number)
    assert get(other) == 0
    line.close()
    assert get(other) == "closed"
    other.tell(None)


def test_a_getter_in_an_event_loop_beside_one_in_a_thread(elsewhere: Elsewhere) -> None:
    def get_async(address: str) -> None:
        async def main() -> None:
            line = tb.Queue.open(address)
            tell([item async for item in line])

        asyncio.run(main())

    with tb.Queue() as line:
        getters = [elsewhere.start(way, line.address) for way in (get_async, get_until_the_end)]
        for number in range(MANY):
            line.put(number)
        line.shutdown()
        theirs = [getter.hear() for getter in getters]
        for items in theirs:
            assert items == sorted(items)
        assert sorted(theirs[0] + theirs[1]) == list(range(MANY))


def test_items_of_a_third_process_come_through(elsewhere: Elsewhere) -> None:
    def put_all(address: str) -> None:
        line = tb.Queue.open(address)
        for number in range(MANY):
            line.put(number)
        tell("done")
        hear()

    with tb.Queue() as line:
        getter = elsewhere.start(get_until_the_end, line.address)
        putter = elsewhere.start(put_all, line.address)
        assert putter.hear() == "done"
        line.shutdown()
        assert getter.hear() == list(range(MANY))
        putter.tell()
