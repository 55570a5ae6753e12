"""Queues between processes: how they come to know one, and who gets what."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import (
    PATIENCE,
    SANITIZED,
    Elsewhere,
    eventually,
    in_a_fork,
    tell,
    unused,
)
from support.queues.queues import produce

METHODS = ["spawn"] if SANITIZED else ["fork", "spawn"]


def started(method: str, work: Callable[..., None], *arguments: Any) -> Any:
    process = multiprocessing.get_context(method).Process(target=work, args=arguments)
    process.start()
    return process


def ended(process: Any) -> None:
    process.join(PATIENCE)
    assert process.exitcode == 0


def double(line: Any, answers: Any) -> None:
    with suppress(tb.Closed):
        for item in line:
            answers.put(item * 2)


@pytest.mark.parametrize("method", METHODS)
def test_a_child_is_given_queues(method: str) -> None:
    with tb.Queue() as line, tb.Queue() as answers:
        child = started(method, double, line, answers)
        line.put(np.arange(3))
        assert answers.get(timeout=PATIENCE).tolist() == [0, 2, 4]
        line.close()
        ended(child)
        unused()


def test_a_forked_child_uses_the_queue_that_its_parent_was_using(elsewhere: Elsewhere) -> None:
    def run() -> None:
        line = tb.Queue()
        opened = tb.Queue.open(line.address)
        line.put("before")
        assert line.get() == "before"

        def child() -> None:
            with line:
                assert line.get(timeout=PATIENCE) == "to the child"
                opened.put(np.arange(5))
            line.close()

        line.put("to the child")
        in_a_fork(child)
        assert line.get(timeout=PATIENCE).tolist() == [0, 1, 2, 3, 4]
        line.close()
        unused()

    if not SANITIZED:
        elsewhere.run(run)


def answer_in_item(line: Any) -> None:
    answers = line.get(timeout=PATIENCE)
    answers.put(os.getpid())


@pytest.mark.parametrize("method", METHODS)
def test_a_queue_travels_through_another(method: str) -> None:
    with tb.Queue() as line, tb.Queue(maxsize=3) as answers:
        child = started(method, answer_in_item, line)
        line.put(answers)
        assert answers.get(timeout=PATIENCE) == child.pid
        ended(child)


def open_and_put(name: str) -> None:
    tell("ready")
    tb.Queue.open(name, timeout=PATIENCE).put("found")


@pytest.mark.parametrize("early", [False, True])
def test_it_is_found_by_name_whoever_comes_first(elsewhere: Elsewhere, early: bool) -> None:
    with pytest.raises(tb.Timeout, match='no queue "jobs"'):
        tb.Queue.open("jobs", timeout=0)
    if early:
        other = elsewhere.start(open_and_put, "jobs")
        assert other.hear() == "ready"
        other.wait_until_asleep()
    with tb.Queue(name="jobs", maxsize=4) as line:
        if not early:
            other = elsewhere.start(open_and_put, "jobs")
            assert other.hear() == "ready"
        assert line.get(timeout=PATIENCE) == "found"
        assert tb.Queue.open("jobs").maxsize == 4


def greet_and_produce(line: Any, greetings: list[Any], who: int, count: int) -> None:
    for greeting in greetings:
        greeting.put(np.full(500, who))
    produce(line, who, count)


def consume(line: Any, greeting: Any, seen: Any) -> None:
    # It has mapped something of each producer. Without that, one that the machine lets run too
    # late would be as one that is stopped, whose items others may pass (docs/queues.md).
    met = [greeting.get(timeout=PATIENCE) for _ in range(3)]
    assert sorted(each[0] for each in met) == [0, 1, 2]
    found = []
    for item in line:
        if item is None:
            break
        assert (item["data"] == item["number"]).all()
        found.append((item["who"], item["number"]))
    seen.put(found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("maxsize", [0, 3])
def test_many_to_many_each_item_arrives_exactly_once(method: str, maxsize: int) -> None:
    each = 200
    with ExitStack() as stack:
        line, seen = tb.Queue[Any](maxsize=maxsize), tb.Queue[Any]()
        greetings = [tb.Queue[Any]() for _ in range(3)]
        for entered in (line, seen, *greetings):
            stack.enter_context(entered)
        producers = [
            started(method, greet_and_produce, line, greetings, who, each) for who in range(3)
        ]
        consumers = [started(method, consume, line, greeting, seen) for greeting in greetings]
        for process in producers:
            ended(process)
        # An item that cannot be mapped for seconds, on a busy machine, may be passed by others.
        eventually(line.empty)
        for _ in consumers:
            line.put(None)
        found = [seen.get(timeout=PATIENCE) for _ in consumers]
        for process in consumers:
            ended(process)
        assert Counter(pair for one in found for pair in one) == Counter(
            (who, number) for who in range(3) for number in range(each)
        )
        for one in found:  # each producer's in their order
            for who in range(3):
                numbers = [number for of, number in one if of == who]
                assert numbers == sorted(numbers)
        del one, found
        unused()
