"""Items with tensors that need no question: in rings, and in the process that has the queue."""

from __future__ import annotations

import os
import queue
import signal
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, in_a_fork, tell, unused

MANY = 300  # more than a ring has slots


def tensor(number: int, size: int = 64) -> Any:
    return np.arange(number, number + size, dtype=np.int64)


def number_of(item: Any) -> int:
    array = np.asarray(item)
    first = int(array[0])
    assert np.array_equal(array, np.arange(first, first + len(array)))
    return first


def put_tensors(address: str, first: int, count: int, size: int) -> None:
    line = tb.Queue.open(address)
    for number in range(first, first + count):
        line.put(tensor(number, size))
    tell("put")
    while hear() == "used":
        tell(tb.participant().arena["used_bytes"])


def get_tensors(address: str) -> None:
    line = tb.Queue.open(address)
    tell("ready")
    kept = []
    numbers = []
    with suppress(tb.ShutDown):
        while True:
            item = line.get()
            numbers.append(number_of(item))
            kept.append(item)
            if len(kept) == 7:
                assert [number_of(item) for item in kept] == numbers[-7:]
                kept.clear()
    tell(numbers)


def have_a_queue() -> None:
    line: tb.Queue[Any] = tb.Queue()
    tell(line.address)
    while (command := hear()) is not None:
        verb, count = command
        if verb == "put":
            for number in range(count):
                line.put(tensor(number, 4096))
            tell("put")
        elif verb == "get":
            tell([number_of(line.get(timeout=PATIENCE)) for _ in range(count)])
        else:
            tell(tb.participant().arena["used_bytes"])


def ask(other: Any, *command: Any) -> Any:
    other.tell(command)
    return other.hear()


def test_a_producer_needs_no_answer_of_the_host(elsewhere: Elsewhere) -> None:
    host = elsewhere.start(have_a_queue)
    line: tb.Queue[Any] = tb.Queue.open(host.hear())
    for number in range(3):  # by message
        line.put(tensor(number))
    assert line.qsize() == 3  # by now the host has accepted the ring
    host.stop()
    for number in range(3, 50):
        line.put(tensor(number), timeout=0)
    host.signal(signal.SIGCONT)
    assert ask(host, "get", 50) == list(range(50))
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)
    host.tell(None)


def test_a_getter_needs_no_answer_of_the_host(elsewhere: Elsewhere) -> None:
    count = 400
    host = elsewhere.start(have_a_queue)
    line: tb.Queue[Any] = tb.Queue.open(host.hear())
    assert ask(host, "put", count) == "put"
    items: list[Any] = []
    taken = 0  # while the host was stopped
    while taken < 10:  # a getter has a ring after some gets by message: at most 128 items, at first
        items += [line.get(timeout=PATIENCE) for _ in range(20)]
        assert line.qsize() == count - len(items)  # the host has lent the next ones, if any
        host.stop()
        before = len(items)
        with suppress(queue.Empty):
            while True:
                items.append(line.get(timeout=0))
        taken = len(items) - before
        host.signal(signal.SIGCONT)
    items += [line.get(timeout=PATIENCE) for _ in range(count - len(items))]
    assert ask(host, "used", 0) > 0
    assert [number_of(item) for item in items] == list(range(count))
    items.clear()
    eventually(lambda: ask(host, "used", 0) == 0)
    host.tell(None)


def test_the_process_that_has_the_queue_gets_what_a_stopped_one_has_put(
    elsewhere: Elsewhere,
) -> None:
    with tb.Queue() as line:
        other = elsewhere.start(put_tensors, line.address, 0, MANY, 64)
        assert other.hear() == "put"
        other.stop()
        assert [number_of(line.get(timeout=PATIENCE)) for _ in range(MANY)] == list(range(MANY))
        other.signal(signal.SIGCONT)
        eventually(lambda: used(other) == 0)
        other.tell("end")


def used(other: Any) -> int:
    other.tell("used")
    return int(other.hear())


@pytest.mark.parametrize("size", [64, 20_000])  # below and above what goes back late
def test_memory_comes_back_to_a_producer_that_does_nothing_more(
    elsewhere: Elsewhere, size: int
) -> None:
    with tb.Queue() as line:
        other = elsewhere.start(put_tensors, line.address, 0, 100, size)
        assert other.hear() == "put"
        assert used(other) > 0
        items = [line.get(timeout=PATIENCE) for _ in range(100)]
        if size > 64:  # small ones are copied
            assert used(other) > 0
        assert [number_of(item) for item in items] == list(range(100))
        items.clear()
        eventually(lambda: used(other) == 0)
        other.tell("end")


def item_of_any_kind(number: int) -> Any:
    kinds = [number, tensor(number), {"text": "x" * 500, "n": number}, (tensor(number), number)]
    return kinds[number % 4]


def number_of_any_kind(item: Any) -> int:
    if isinstance(item, dict):
        return int(item["n"])
    if isinstance(item, tuple):
        assert number_of(item[0]) == item[1]
        return int(item[1])
    return item if isinstance(item, int) else number_of(item)


def put_and_get_all_kinds(address: str) -> None:
    line = tb.Queue.open(address)
    for number in range(MANY):
        line.put(item_of_any_kind(number))
    assert hear() == "get"
    tell([number_of_any_kind(line.get(timeout=PATIENCE)) for _ in range(MANY)])


def test_items_of_all_kinds_stay_in_order(elsewhere: Elsewhere) -> None:
    with tb.Queue() as there:
        other = elsewhere.start(put_and_get_all_kinds, there.address)
        items = [there.get(timeout=PATIENCE) for _ in range(MANY)]
        assert [number_of_any_kind(item) for item in items] == list(range(MANY))
        items.clear()
        other.tell("get")
        for number in range(MANY):
            there.put(item_of_any_kind(number))
        assert other.hear() == list(range(MANY))
    unused()


def answer(there: str, back: str) -> None:
    questions, answers = tb.Queue.open(there), tb.Queue.open(back)
    kept = []
    for question in questions:
        number = number_of(question)
        answers.put({"yours": question, "mine": tensor(number + 1), "again": question})
        kept.append(question)
        if len(kept) > 5:
            kept.pop(0)


def test_an_item_of_own_memory_and_of_memory_that_is_handed_back(elsewhere: Elsewhere) -> None:
    with tb.Queue() as there, tb.Queue() as back:
        other = elsewhere.start(answer, there.address, back.address)
        for number in range(MANY):
            there.put(tensor(number))
        for number in range(MANY):
            item = back.get(timeout=PATIENCE)
            assert number_of(item["yours"]) == number_of(item["again"]) == number
            assert number_of(item["mine"]) == number + 1
            del item
        there.shutdown()
        other.finish()
    unused()


@pytest.mark.parametrize("redeliver", [False, True])
def test_each_tensor_has_one_getter(elsewhere: Elsewhere, redeliver: bool) -> None:
    with tb.Queue(redeliver=redeliver, maxsize=50) as line:
        getters = [elsewhere.start(get_tensors, line.address) for _ in range(2)]
        for getter in getters:
            assert getter.hear() == "ready"
        putters = [
            elsewhere.start(put_tensors, line.address, 10_000 * i, MANY, 64) for i in range(2)
        ]
        mine = []

        def get_some() -> None:
            for _ in range(100):
                mine.append(number_of(line.get(timeout=PATIENCE)))
                line.task_done()

        thread = threading.Thread(target=get_some)
        thread.start()
        for number in range(50_000, 50_000 + MANY):
            line.put(tensor(number))
        thread.join()
        for putter in putters:
            assert putter.hear() == "put"
        eventually(lambda: line.qsize() == 0)
        line.shutdown(immediate=redeliver)
        numbers = sum((getter.hear() for getter in getters), mine)
        assert sorted(numbers) == sorted(
            number for first in (0, 10_000, 50_000) for number in range(first, first + MANY)
        )
        for putter in putters:
            eventually(lambda putter=putter: used(putter) == 0)  # type: ignore[misc]
            putter.tell("end")
    unused()


def take_and_say(address: str) -> None:
    line = tb.Queue.open(address)
    tell("ready")
    while hear():
        item = line.get()
        tell(number_of(item))


def test_what_comes_back_from_a_dead_getter_is_whole(elsewhere: Elsewhere) -> None:
    with tb.Queue(redeliver=True) as line:
        getter = elsewhere.start(take_and_say, line.address)
        assert getter.hear() == "ready"
        producer = elsewhere.start(put_tensors, line.address, 0, 5, 64)
        assert producer.hear() == "put"
        for number in range(100, 110):
            line.put(tensor(number))
        for number in [*range(5), *range(100, 105)]:  # the last ones from the ring
            getter.tell(True)
            assert getter.hear() == number
        getter.kill()
        eventually(lambda: line.qsize() == 15)
        producer.kill()
        for number in [*range(5), *range(100, 110)]:
            assert number_of(line.get(timeout=PATIENCE)) == number
            line.task_done()
        with pytest.raises(queue.Empty):
            line.get(timeout=0)
    unused()


def test_a_forked_child_goes_on_reading_what_its_parent_has_let_go_of(
    elsewhere: Elsewhere,
) -> None:
    def run() -> None:
        host = elsewhere.start(have_a_queue)
        theirs: tb.Queue[Any] = tb.Queue.open(host.hear())
        assert ask(host, "put", 20) == "put"
        with tb.Queue() as line:
            producer = elsewhere.start(put_tensors, line.address, 0, 20, 4096)
            assert producer.hear() == "put"
            items = [line.get(timeout=PATIENCE) for _ in range(20)]
            items += [theirs.get(timeout=PATIENCE) for _ in range(20)]
            go, going = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(going)
                os.read(go, 1)
                good = [number_of(item) for item in items] == 2 * list(range(20))
                os._exit(0 if good else 1)
            items.clear()
            # What would take the place of what was let go of too early.
            assert ask(host, "put", 20) == "put"
            assert [number_of(theirs.get(timeout=PATIENCE)) for _ in range(20)] == list(range(20))
            assert used(producer) > 0
            os.close(going)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            eventually(lambda: used(producer) == 0)
            eventually(lambda: ask(host, "used", 0) == 0)
            producer.tell("end")
            host.tell(None)

    in_a_fork(run)
