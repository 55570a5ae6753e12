"""The same for queues, clients, nodes, allocators: several threads use one at the same moment."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, joined, unused
from support.interpreters import pickle_is_safe
from support.threads import asleep, beside, in_threads
from tensorbus._core import is_plain

THREADS = 4
ROUNDS = 400
pytestmark = pytest.mark.usefixtures("threads_switch_often")


def test_one_queue_of_many_threads_loses_and_doubles_nothing() -> None:
    count = 200
    taken: queue.SimpleQueue[int] = queue.SimpleQueue()

    def item(number: int) -> Any:
        kinds = (number, {"number": number}, np.full(9, number), {"x": [np.full(3, number)]})
        return kinds[number % len(kinds)]

    def number_of(found: Any) -> int:
        if isinstance(found, dict):
            found = found["number"] if "number" in found else found["x"][0]
        return int(found if isinstance(found, int) else found[0])

    with tb.Queue(maxsize=16) as items:

        def put(thread: int) -> None:
            for number in range(count // 2):
                items.put(item(thread * count + number), timeout=PATIENCE)
            rest = [item(thread * count + number) for number in range(count // 2, count)]
            assert items.put_many(rest, timeout=PATIENCE) == len(rest)

        def get(thread: int) -> None:
            try:
                while True:
                    some = items.get_many(3) if thread % 2 else [items.get()]
                    for found in some:
                        taken.put(number_of(found))
            except tb.ShutDown:
                pass

        getters = [threading.Thread(target=get, args=(thread,)) for thread in range(THREADS)]
        for getter in getters:
            getter.start()
        in_threads(*(lambda thread=thread: put(thread) for thread in range(THREADS)))  # type: ignore[misc]
        eventually(lambda: taken.qsize() == THREADS * count)
        items.shutdown()
        for getter in getters:
            getter.join(PATIENCE)
            assert not getter.is_alive()
    assert sorted(taken.get() for _ in range(THREADS * count)) == list(range(THREADS * count))
    unused()


def test_whether_an_item_is_plain_is_asked_beside_threads_that_change_it() -> None:
    numbers = itertools.count()
    array = np.zeros(1)
    mixed: list[Any] = [array]  # at every moment an array is in it
    plain: dict[str, Any] = {"list": [], "more": {}}

    def change() -> None:
        number = next(numbers)
        mixed[:] = [*(str(each) for each in range(number % 9)), array, number]
        plain["list"].clear()
        plain["list"] = [[str(number)] * (number % 7), (number, str(number)), {number: None}]
        plain["more"].update({str(number): [number], number: {"x": str(number)}})
        if number % 5 == 0:
            plain["more"].clear()
        plain[f"key {number % 3}"] = str(number)
        plain.pop(f"key {(number + 1) % 3}", None)

    with beside(change, change):
        for _ in range(20 * ROUNDS):
            assert is_plain(plain)
            assert not is_plain(mixed)


@pickle_is_safe
def test_items_that_others_change_while_they_are_put() -> None:
    numbers = itertools.count()
    item: dict[str, Any] = {"list": [], "x": 0}

    def change() -> None:
        number = next(numbers)
        item["list"] = [str(number)] * 5
        item["x"] = np.full(4, number) if number % 2 else {"y": str(number)}
        item[f"key {number % 3}"] = str(number)
        item.pop(f"key {(number + 1) % 3}", None)

    with tb.Queue() as items, beside(change, change):
        for _ in range(ROUNDS):
            with suppress(RuntimeError):  # of pickle: the dict changed its size
                items.put(item)
                found = items.get()
                assert {"list", "x"} <= set(found)
                assert len(set(found["list"])) <= 1


def unpickled_badly() -> Any:
    raise LookupError("this item cannot be unpickled")


class Bad:
    def __reduce__(self) -> Any:
        return unpickled_badly, ()


def test_what_get_many_left_comes_to_one_thread_each() -> None:
    taken: queue.SimpleQueue[int] = queue.SimpleQueue()
    with tb.Queue() as items:
        for _ in range(20):
            first = np.zeros(1)
            items.put_many([first, Bad(), *(np.full(1, each) for each in range(50))])
            assert len(items.get_many(64)) == 1
            with pytest.raises(LookupError):
                items.get()

            def take() -> None:
                for _ in range(10):
                    taken.put(int(items.get(timeout=PATIENCE)[0]))

            in_threads(*[take] * 5)
            assert sorted(taken.get() for _ in range(50)) == list(range(50))
            assert items.empty()


def test_arrays_born_on_the_bus_in_several_threads() -> None:
    with joined(publisher={"depth": 2}) as (publisher, subscriber):
        passed: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def make() -> None:
            with tb.allocate(min_bytes=4096):
                for number in range(100):
                    array = np.full(2048, number) + 1
                    passed.put(array)
                    publisher.publish(np.full(2048, number))
                    assert (passed.get() >= 1).all()

        with beside(subscriber.try_receive):
            in_threads(*[make] * THREADS)
    eventually(lambda: tb.allocate.stats().arrays == 0)


def test_one_asynchronous_subscriber_in_the_loops_of_several_threads() -> None:
    count = 100
    with tb.Publisher("topic", depth=count * 2, reliable=True) as publisher:
        subscriber = tb.AsyncSubscriber("topic", timeout=PATIENCE)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        taken: queue.SimpleQueue[int] = queue.SimpleQueue()

        async def join() -> None:
            for _ in range(50):
                assert not await subscriber.wait_for_publishers(2, timeout=0.001)

        async def receive() -> None:
            for _ in range(count // 2):
                taken.put((await subscriber.receive()).data)

        def publish() -> None:
            for number in range(count):
                publisher.publish(number)

        in_threads(
            lambda: asyncio.run(receive()),
            lambda: asyncio.run(receive()),
            lambda: asyncio.run(join()),
            lambda: asyncio.run(join()),
            publish,
        )
        subscriber.close()
    assert sorted(taken.get() for _ in range(count)) == list(range(count))


def test_a_client_that_several_threads_use_first() -> None:
    with tb.Node("node") as node:
        node.create_service("double", callback=lambda x: x * 2, mode="sync", concurrency=2)
        node.spin(0)
        for _ in range(10):
            client = tb.Client("double", timeout=PATIENCE)
            answers: queue.SimpleQueue[int] = queue.SimpleQueue()

            def call(client: Any = client, answers: Any = answers) -> None:
                for number in range(5):
                    answers.put(client.call_sync(number))

            in_threads(*[call] * THREADS)
            assert sorted(answers.get() for _ in range(5 * THREADS)) == sorted(
                [0, 2, 4, 6, 8] * THREADS
            )
            client.close()


def test_threads_of_a_node_that_are_started_at_the_same_moment_are_all_waited_for() -> None:
    ended: list[int] = []
    for _ in range(20):
        ended.clear()
        with tb.Node("node") as node:

            def work(stop: threading.Event) -> None:
                stop.wait()
                ended.append(1)

            in_threads(*[lambda work=work, node=node: node.spawn_thread(work)] * 8)  # type: ignore[misc]
        assert len(ended) == 8


def test_who_waits_for_memory_gets_what_another_thread_lets_go_of(elsewhere: Elsewhere) -> None:
    """The thread that made the samples waits in the core, and runs no Python to free them."""

    def lend() -> None:
        with joined() as (publisher, subscriber):
            held: queue.SimpleQueue[Any] = queue.SimpleQueue()
            with suppress(tb.OutOfMemory):
                while True:
                    publisher.publish(publisher.loan(16 << 20, "uint8"))
                    held.put(subscriber.receive().data)
            runs_no_more = threading.Event()
            main = threading.current_thread()

            def let_go() -> None:
                runs_no_more.wait()
                eventually(lambda: asleep(main))
                while not held.empty():
                    held.get()

            thread = threading.Thread(target=let_go)
            thread.start()
            runs_no_more.set()
            for _ in range(3):
                loan = publisher.loan(16 << 20, "uint8", timeout=PATIENCE)
                publisher.publish(loan)
                del loan
                subscriber.receive()
            thread.join()

    elsewhere.run(lend, env={"TENSORBUS_BUDGET": str(128 << 20)})
