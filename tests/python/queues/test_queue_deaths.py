"""Queues whose maker or users die, are stopped or interrupted, or give up."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell, unused
from support.queues.queues import produce


def host(maxsize: int) -> None:
    line = tb.Queue(maxsize=maxsize, name="hosted")
    for number in range(maxsize):
        line.put(number)
    tell(line.address)
    hear()


@pytest.mark.parametrize("wait", ["get", "put", "join", "iteration", "async"])
def test_the_death_of_its_maker_ends_every_wait(elsewhere: Elsewhere, wait: str) -> None:
    other = elsewhere.start(host, 0 if wait in ("get", "iteration", "async") else 1)
    line = tb.Queue.open(other.hear())
    outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def waits() -> None:
        try:
            if wait == "iteration":
                outcome.put(list(line))
            elif wait == "async":
                asyncio.run(line.get_async())
            elif wait == "put":
                line.put(1)
            else:
                getattr(line, wait)()
        except tb.Error as error:
            outcome.put(error)

    thread = threading.Thread(target=waits)
    thread.start()
    with pytest.raises(queue.Empty):
        outcome.get(timeout=0.05)
    other.kill()
    thread.join()
    found = outcome.get_nowait()
    assert found == [] if wait == "iteration" else isinstance(found, tb.Closed)
    with pytest.raises(tb.Closed):
        line.qsize()
    with pytest.raises(tb.Timeout):
        tb.Queue.open("hosted", timeout=0)
    unused()


def test_a_stopped_maker_delays_and_loses_nothing(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(host, 3)
    line = tb.Queue.open(other.hear())
    assert line.get() == 0
    other.stop()
    for _ in range(3):
        with pytest.raises(queue.Empty):
            line.get(timeout=0.05)
    other.signal(signal.SIGCONT)
    # One that was dealt to a get that had given up comes back after the next was dealt, perhaps.
    assert {line.get(timeout=PATIENCE) for _ in range(2)} == {1, 2}
    eventually(lambda: dict(line.stats).items() >= {"items": 0, "unfinished": 3, "lost": 0}.items())
    other.tell()


def take_and_hang(address: str, count: int) -> None:
    line = tb.Queue.open(address)
    tell([line.get()["number"] for _ in range(count)])
    hear()


def test_what_the_dead_had_in_hand_is_redelivered_in_its_order(elsewhere: Elsewhere) -> None:
    with tb.Queue(redeliver=True) as line:
        produce(line, 0, 4)
        other = elsewhere.start(take_and_hang, line.address, 2)
        assert other.hear() == [0, 1]
        assert line.get()["number"] == 2
        other.kill()
        eventually(lambda: line.qsize() == 3)
        assert [line.get()["number"] for _ in range(3)] == [0, 1, 3]
        assert line.stats["lost"] == 0
        for _ in range(4):
            line.task_done()
        assert line.join(PATIENCE)
        unused()


def test_without_redeliver_it_is_lost_and_counted(elsewhere: Elsewhere) -> None:
    with tb.Queue() as line:
        produce(line, 0, 2)
        other = elsewhere.start(take_and_hang, line.address, 1)
        assert other.hear() == [0]
        other.kill()
        eventually(lambda: line.stats["lost"] == 1)
        assert line.get()["number"] == 1
        line.task_done()
        assert line.join(PATIENCE)
        unused()


def wait_for_one(address: str) -> None:
    line = tb.Queue.open(address)
    tell("ready")
    line.get()


@pytest.mark.parametrize("redeliver", [False, True])
def test_the_next_item_is_not_lost_to_one_that_died_while_it_waited(
    elsewhere: Elsewhere, redeliver: bool
) -> None:
    with tb.Queue(redeliver=redeliver) as line:
        for number in range(5):
            other = elsewhere.start(wait_for_one, line.address)
            assert other.hear() == "ready"
            other.wait_until_asleep()
            other.kill()
            line.put(number)
            assert line.get(timeout=PATIENCE) == number
        assert line.stats["lost"] == 0


def put_and(end: str, address: str) -> None:
    line = tb.Queue.open(address)
    for number in range(3):
        line.put({"number": number, "data": np.full(100_000, number)})
    tell("put")
    if end == "stay":
        hear()


@pytest.mark.parametrize("killed", [False, True])
def test_items_outlive_the_process_that_put_them(elsewhere: Elsewhere, killed: bool) -> None:
    with tb.Queue() as line:
        other = elsewhere.start(put_and, "stay" if killed else "end", line.address)
        assert other.hear() == "put"
        if killed:
            other.kill()
        else:
            other.finish()
        third = elsewhere.start(take_whole, line.address)
        assert third.hear() == "whole"
        for number in range(1, 3):
            item = line.get(timeout=PATIENCE)
            assert item["number"] == number
            assert (item["data"] == number).all()


def take_whole(address: str) -> None:
    item = tb.Queue.open(address).get(timeout=PATIENCE)
    assert (item["data"] == item["number"]).all()
    tell("whole")


@pytest.mark.parametrize("redeliver", [False, True])
def test_those_who_give_up_just_then_have_taken_nothing(redeliver: bool) -> None:
    """An item that comes when its getter has gone comes back, and is in nobody's hand."""
    count = 300
    with tb.Queue(redeliver=redeliver) as line:
        taken: list[int] = []

        def take() -> None:
            while len(taken) < count:
                with suppress(queue.Empty):
                    taken.append(line.get(timeout=0.0002))
                    line.task_done()

        taker = threading.Thread(target=take)
        taker.start()
        for number in range(count):
            line.put(number)
        taker.join()
        assert sorted(taken) == list(range(count))
        assert line.join(PATIENCE)
        assert dict(line.stats).items() >= {"items": 0, "unfinished": 0, "lost": 0}.items()


def give_up_often(address: str, count: int) -> None:
    line = tb.Queue.open(address)
    taken = []
    while len(taken) < count:
        with suppress(queue.Empty):
            taken.append(line.get(timeout=0.0002))
            line.task_done()
    tell(taken)
    hear()


@pytest.mark.parametrize("redeliver", [False, True])
def test_what_came_back_from_one_is_not_given_back_once_more_when_it_dies(
    elsewhere: Elsewhere, redeliver: bool
) -> None:
    count = 300
    with tb.Queue(redeliver=redeliver) as line:
        other = elsewhere.start(give_up_often, line.address, count)
        for number in range(count):
            line.put(number)
        assert sorted(other.hear()) == list(range(count))
        other.kill()
        line.put("next")
        assert line.get(timeout=PATIENCE) == "next"
        assert dict(line.stats).items() >= {"items": 0, "unfinished": 1, "lost": 0}.items()


def interrupted(use: str) -> None:
    with tb.Queue(maxsize=1) as line:
        if use != "get":
            line.put(0)
        tell("ready")
        try:
            if use == "get":
                line.get()
            elif use == "put":
                line.put(1)
            elif use == "join":
                line.join()
            else:
                tb.Queue.open("nobody has it")
        except KeyboardInterrupt:
            tell("interrupted")
        assert line.qsize() == (0 if use == "get" else 1)
        line.put(2, timeout=PATIENCE) if use == "get" else None
        assert line.get(timeout=PATIENCE) == (2 if use == "get" else 0)


@pytest.mark.parametrize("use", ["get", "put", "join", "open"])
def test_ctrl_c_ends_a_wait(elsewhere: Elsewhere, use: str) -> None:
    other = elsewhere.start(interrupted, use)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"
