"""What a forked child inherited stays what it was until its end, whatever its parent does."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, joined

# See test_fork.py.
pytestmark = pytest.mark.skipif(SANITIZED, reason="its allocator cannot be forked beside threads")

WORDS = 1000


def inherited() -> tuple[int, int, int]:
    use = tb.participant().arena
    return use["inherited_bytes"], use["inherited_leases"], use["forked_children"]


def nothing_is_kept() -> bool:
    return inherited() == (0, 0, 0)


class Child:
    """A forked child that runs a function when it is told to, and says whether it went well."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        reading, self._start = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.read(reading, 1)
                function(*arguments)
                code = 0
            finally:
                os._exit(code)
        os.close(reading)

    def go(self) -> None:
        self.start()
        self.wait()

    def start(self) -> None:
        os.write(self._start, b"x")
        os.close(self._start)

    def wait(self) -> None:
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0


def shared(value: float) -> Any:
    import torch

    import tensorbus.multiprocessing  # noqa: F401  (its memory may be sent by reference)

    return tb.empty((WORDS,), dtype=torch.float32, shared=True).fill_(value)


def read_shared(tensor: Any, value: float, ready: Any, go: Any) -> None:
    ready.set()
    assert go.wait(PATIENCE)
    assert sorted(set(tensor.tolist())) == [value]
    tensor.fill_(-1)


def start_with_shared(context: Any, value: float, *events: Any) -> Any:
    process = context.Process(target=read_shared, args=(shared(value), value, *events))
    process.start()
    return process


def keep_a_shared_tensor(library: str, used: bool) -> None:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)  # the other threads of OpenMP are not in a child
    context = importlib.import_module(library).get_context("fork")
    if used:
        ours = importlib.import_module("tensorbus.multiprocessing").get_context("fork")
        process = ours.Process(target=int)
        process.start()
        process.join()
    ready, go = context.Event(), context.Event()
    process = start_with_shared(context, 1.0, ready, go)
    assert ready.wait(PATIENCE)
    later = [shared(42.0) for _ in range(8)]
    go.set()
    process.join()
    assert process.exitcode == 0
    for tensor in later:
        assert sorted(set(tensor.tolist())) == [42.0], "the child wrote to it"
    eventually(nothing_is_kept)


@pytest.mark.parametrize("used", [False, True], ids=["imported", "used"])
@pytest.mark.parametrize(
    "library", ["multiprocessing", "torch.multiprocessing", "tensorbus.multiprocessing"]
)
def test_a_shared_tensor_stays_what_it_was(elsewhere: Elsewhere, library: str, used: bool) -> None:
    pytest.importorskip("torch")
    elsewhere.start(keep_a_shared_tensor, library, used).finish()


def read_and_write(tensor: Any) -> None:
    assert sorted(set(tensor.tolist())) == [1.0]
    tensor.fill_(-1)


def keep_through_os_fork() -> None:
    tensor = shared(1.0)
    reader = Child(read_and_write, tensor)
    del tensor
    later = [shared(42.0) for _ in range(8)]
    assert inherited()[0] >= 4 * WORDS
    reader.go()
    for one in later:
        assert sorted(set(one.tolist())) == [42.0]
    eventually(nothing_is_kept)


def test_a_shared_tensor_stays_what_it_was_after_os_fork(elsewhere: Elsewhere) -> None:
    pytest.importorskip("torch")
    elsewhere.start(keep_through_os_fork).finish()


def produce(items: Any, count: int, done: Any) -> None:
    for number in range(count):
        items.put(np.full(WORDS * 20, float(number)))
    assert done.wait(PATIENCE)


def work(array: Any, number: int, go: Any, seen: Any) -> None:
    assert go.wait(PATIENCE)
    seen.put((number, np.unique(np.asarray(array)).tolist()))


def one_process_for_each_item() -> None:
    context = importlib.import_module("tensorbus.multiprocessing").get_context("fork")
    count = 12
    items, seen = context.Queue(2), context.SimpleQueue()
    go, done = context.Event(), context.Event()
    producer = context.Process(target=produce, args=(items, count, done))
    producer.start()
    jobs = []
    for number in range(count):
        array = items.get(timeout=PATIENCE)
        jobs.append(context.Process(target=work, args=(array, number, go, seen)))
        jobs[-1].start()
    del array
    go.set()
    for number, values in [seen.get() for _ in jobs]:
        assert values == [float(number)], f"job {number} saw another job's data"
    done.set()
    for process in [*jobs, producer]:
        process.join()
        assert process.exitcode == 0


def test_a_received_item_stays_what_it_was_in_each_job(elsewhere: Elsewhere) -> None:
    elsewhere.start(one_process_for_each_item).finish()


def republish(publisher: Any, subscriber: Any, count: int = 50) -> None:
    for number in range(count):
        publisher.publish(np.full(WORDS, 100 + number))
        assert (subscriber.receive().data == 100 + number).all()


def read_sevens(array: Any) -> None:
    assert (array == 7).all()


def fork_a_reader(array: Any) -> None:
    Child(read_sevens, array).go()


def fork_in_threads(array: Any) -> list[Child]:
    children: list[Child] = []

    def fork() -> None:
        children.append(Child(read_sevens, array))

    threads = [threading.Thread(target=fork) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return children


def keep_through(fork: Callable[[Any], list[Child]]) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.full(WORDS, 7))
        received = subscriber.receive().data
        children = fork(received)
        del received
        assert inherited()[1:] == (0, len(children)), "of this process's own: no lease of others"
        republish(publisher, subscriber)
        assert inherited()[0] > 0
        for child in children:
            child.go()
        eventually(nothing_is_kept)


def keep_through_each_way() -> None:
    keep_through(lambda array: [Child(read_sevens, array)])
    keep_through(lambda array: [Child(fork_a_reader, array)])
    keep_through(fork_in_threads)


def test_a_received_array_stays_what_it_was(elsewhere: Elsewhere) -> None:
    elsewhere.start(keep_through_each_way).finish()


def publish_when_told(told: int) -> None:
    with tb.Publisher("topic", reliable=True, timeout=PATIENCE) as publisher:
        publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.full(WORDS, 7))
        os.read(told, 1)
        for number in range(50):
            publisher.publish(np.full(WORDS, 100 + number))
        os.read(told, 1)


def keep_what_another_process_owns() -> None:
    told, tell = os.pipe()
    owner = Child(publish_when_told, told)
    owner.start()
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        received = subscriber.receive().data
        child = Child(read_sevens, received)
        del received
        assert inherited() == (0, 1, 1)
        os.write(tell, b"x")
        for number in range(50):
            assert (subscriber.receive().data == 100 + number).all()
        child.go()
        eventually(nothing_is_kept)
        os.write(tell, b"x")
        owner.wait()


def test_what_another_process_owns_stays_what_it_was(elsewhere: Elsewhere) -> None:
    elsewhere.start(keep_what_another_process_owns).finish()


def let_go_of_an_item_of_ones_own() -> None:
    with tb.Queue() as items:
        items.put(np.full(WORDS, 7))
        received = items.get()
        child = Child(read_sevens, received)
        del received
        items.task_done()
        use = tb.participant().arena
        assert use["inherited_bytes"] == use["used_bytes"] > 0
        assert use["inherited_leases"] == 0
        child.go()
        eventually(nothing_is_kept)


def test_an_item_of_ones_own_is_told_as_what_children_keep(elsewhere: Elsewhere) -> None:
    elsewhere.start(let_go_of_an_item_of_ones_own).finish()


def exec_releases() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.full(WORDS, 7))
        received = subscriber.receive().data
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(reading, 0)
            os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.stdin.read(1)"])
        del received
        eventually(nothing_is_kept)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "it lives"
        os.write(writing, b"x")
        os.waitpid(pid, 0)


def test_exec_lets_go(elsewhere: Elsewhere) -> None:
    elsewhere.start(exec_releases).finish()


def long_lived_workers() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.full(WORDS, 7))
        received = subscriber.receive().data
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(abs, range(10))
            del received
            republish(publisher, subscriber)
            before = inherited()
            assert before[1:] == (0, 2)
            assert before[0] > 0
            republish(publisher, subscriber)
            assert inherited() == before, "what came after the fork is none of theirs"
        eventually(nothing_is_kept)


def test_what_came_after_the_fork_comes_back_beside_workers_that_stay(elsewhere: Elsewhere) -> None:
    elsewhere.start(long_lived_workers).finish()


def parent_that_leaves_a_reader(topic: str, told: int, go: int) -> None:
    with tb.Subscriber(topic, timeout=PATIENCE) as subscriber:
        received = subscriber.receive().data
        if os.fork() == 0:
            os.read(go, 1)
            os.write(told, b"%d" % received.max())
        os._exit(0)


def outlive_the_parent() -> None:
    with tb.Publisher("topic") as publisher:
        told, tell = os.pipe()
        go, start = os.pipe()
        parent = os.fork()
        if parent == 0:
            parent_that_leaves_a_reader("topic", tell, go)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.full(WORDS, 7))
        assert os.waitpid(parent, 0)[1] == 0
        eventually(lambda: publisher.stats["subscribers"] == 0)
        for number in range(50):
            publisher.publish(np.full(WORDS, 100 + number))
        assert publisher.stats["bytes_in_flight"] > 0, "of a third process, whose child reads"
        os.write(start, b"x")
        assert os.read(told, 10) == b"7"
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)


def test_a_child_that_outlives_its_parent_reads_what_others_own(elsewhere: Elsewhere) -> None:
    elsewhere.start(outlive_the_parent).finish()
