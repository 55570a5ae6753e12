"""Threads that use the same objects at the same moment.

A build of CPython without a GIL runs them at once; one with a GIL switches between them very often
here. What is asked for is the same.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, joined, tell, unused
from support.interpreters import IS_FREE_THREADED, pickle_is_safe

THREADS = 4
ROUNDS = 400


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    """With a GIL, threads are to switch between any two steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@contextmanager
def beside(*functions: Callable[[], object]) -> Iterator[None]:
    """Calls each of them again and again, in a thread of its own. What it raises fails the test."""
    ended = threading.Event()
    errors: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not errors, errors


def in_threads(*functions: Callable[[], object]) -> None:
    """Calls each once, at the same moment. What one raises is raised here."""
    barrier = threading.Barrier(len(functions))
    errors: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            barrier.wait(PATIENCE)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def import_everything() -> None:
    import sys

    import numpy

    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)
    before = has_gil()
    import tensorbus
    import tensorbus.cortex
    import tensorbus.multiprocessing
    import tensorbus.nodes

    for name in tensorbus.__all__:
        getattr(tensorbus, name)
    with tensorbus.Publisher("topic", history=1) as publisher:
        publisher.publish({"x": numpy.arange(3)})
        with tensorbus.Subscriber("topic", timeout=30) as subscriber:
            assert subscriber.receive().data["x"].tolist() == [0, 1, 2]
    tell((before, has_gil()))


def test_the_gil_stays_as_it_was(elsewhere: Elsewhere) -> None:
    process = elsewhere.start(import_everything)
    has_gil = not IS_FREE_THREADED
    assert process.hear() == (has_gil, has_gil)


def test_a_dict_that_others_change_is_packed_as_it_was_at_one_moment() -> None:
    numbers = itertools.count()
    message: dict[str, Any] = {}

    def change() -> None:
        number = next(numbers)
        message.update({"first": str(number), "last": str(number)})
        message.clear()
        message.update({f"{each} {number}": float(number) for each in range(number % 7)})

    with joined(publisher={"depth": 8}) as (publisher, subscriber), beside(change, change):
        for _ in range(ROUNDS):
            publisher.publish(message)
            data = subscriber.receive().data
            assert data.get("first") == data.get("last")
            for key, value in data.items():
                if key not in ("first", "last"):
                    assert key.endswith(f" {int(value)}")


def test_arrays_in_a_dict_that_others_replace_arrive_whole() -> None:
    numbers = itertools.count()
    message = {"image": np.zeros(64), "other": {"image": np.zeros(3)}, "text": "x"}

    def replace() -> None:
        number = next(numbers)
        message["image"] = np.full(64, number)
        message["other"] = {"image": np.full(3, number), "more": [str(number)] * 3}
        message["text"] = str(number) * 20

    def publish() -> None:
        publisher.publish(message)

    with (
        joined(publisher={"depth": 64}, subscriber={"max_held": 512}) as (publisher, subscriber),
        beside(replace, replace, publish, publish),
    ):
        for _ in range(ROUNDS):
            data = subscriber.receive().data
            assert (data["image"] == data["image"][0]).all()
            assert (data["other"]["image"] == data["other"]["image"][0]).all()
            assert len(set(data["other"].get("more", ["x"]))) == 1
        del data
    unused()


@pytest.mark.parametrize("kind", ["text", "array", "nested"])
def test_a_list_that_shrinks_while_it_is_published_arrives_as_it_was_at_one_moment(
    kind: str,
) -> None:
    numbers = itertools.count()
    items: list[Any] = []

    def made(number: int) -> Any:
        if kind == "text":
            return f"number {number}"
        return np.full(5, number) if kind == "array" else [f"{number}", {"x": float(number)}]

    def number_of(item: Any) -> int:
        if kind == "text":
            return int(item.split()[1])
        return int(item[0])

    def change() -> None:
        number = next(numbers)
        items[:] = [made(number) for _ in range(20)]
        del items[number % 20 :]
        items.clear()

    with joined(publisher={"depth": 8}) as (publisher, subscriber), beside(change):
        for _ in range(ROUNDS):
            publisher.publish(items)
            assert len({number_of(item) for item in subscriber.receive().data}) <= 1
    unused()


def test_what_a_message_holds_is_let_go_of_once_by_all_threads() -> None:
    shared = {"array": np.arange(1000), "list": [np.arange(10), "text", 1 << 80], "set": {1, 2}}
    counts = [sys.getrefcount(each) for each in (shared["array"], shared["list"])]
    with joined(publisher={"depth": 4}) as (publisher, subscriber):

        def publish() -> None:
            for _ in range(ROUNDS):
                publisher.publish(shared)

        with beside(subscriber.try_receive):
            in_threads(*[publish] * THREADS)
    assert [sys.getrefcount(each) for each in (shared["array"], shared["list"])] == counts


def test_a_set_that_others_change_can_be_published() -> None:
    numbers = itertools.count()
    message = {"set": {1, 2, 3}}

    def change() -> None:
        message["set"].add(next(numbers) % 100)
        message["set"].discard(next(numbers) % 100)

    with joined(publisher={"depth": 8}) as (publisher, subscriber), beside(change, change):
        for _ in range(ROUNDS):
            publisher.publish(message)
            assert subscriber.receive().data["set"] <= set(range(101))


def test_a_shape_that_others_change_is_a_shape_or_refused() -> None:
    shape = [2, 3]

    def change() -> None:
        shape[:] = [1000, 1000]
        shape.clear()
        shape[:] = [4]

    with tb.Publisher("topic") as publisher, beside(change):
        for _ in range(ROUNDS):
            loan = publisher.loan(shape, dtype="uint8")
            assert loan.shape in ((2, 3), (1000, 1000), (), (4,))
    del loan
    unused()


def test_keys_that_come_to_several_threads_are_the_right_ones() -> None:
    """The strings of keys are kept and given out again; these are more than are kept."""
    topics = [f"topic/{number}" for number in range(THREADS)]
    keys = [f"key{number}" for number in range(1200)]
    with ExitStack() as stack:
        pairs = [stack.enter_context(joined(topic)) for topic in topics]

        def exchange(publisher: tb.Publisher, subscriber: tb.Subscriber, number: int) -> None:
            for turn in range(30):
                some = keys[(turn * 97 + number) % 1100 :][:100]
                message = {key: index for index, key in enumerate([*some, *some[::-1]])}
                for _ in range(3):
                    publisher.publish({"id": turn, **message})
                    assert subscriber.receive().data == {"id": turn, **message}

        in_threads(
            *(
                lambda pair=pair, number=number: exchange(*pair, number)  # type: ignore[misc]
                for number, pair in enumerate(pairs)
            )
        )


@dataclass
class Pose(tb.Message):
    x: float = 0.0
    names: list[str] = field(default_factory=list)
    image: Any = None


def test_a_message_type_that_several_threads_use_first() -> None:
    for _ in range(20):
        kind = dataclass(type("Turn", (tb.Message,), {"__annotations__": {"x": float, "y": list}}))

        def exchange(number: int, kind: Any = kind) -> None:
            topic = f"topic/{number}"
            with (
                tb.Publisher(topic, kind, history=1) as publisher,
                tb.Subscriber(topic, kind, timeout=PATIENCE) as subscriber,
            ):
                publisher.publish(kind(x=number, y=[number]))
                assert subscriber.receive().data == kind(x=number, y=[number])

        in_threads(*(lambda number=number: exchange(number) for number in range(THREADS)))  # type: ignore[misc]


def test_a_typed_message_that_others_change() -> None:
    pose = Pose(1.0, ["a"], np.zeros(10))
    numbers = itertools.count()

    def change() -> None:
        number = next(numbers)
        pose.names[:] = [str(number)] * 5
        pose.image = np.full(10, number)
        pose.x = float(number)

    with (
        tb.Publisher("topic", Pose, depth=8) as publisher,
        tb.Subscriber("topic", Pose, timeout=PATIENCE) as subscriber,
        beside(change, change),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(ROUNDS):
            publisher.publish(pose)
            data = subscriber.receive().data
            assert len(set(data.names)) == 1
            assert (data.image == data.image[0]).all()


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


def read_into(seen: list[Any], sample: tb.Sample[Any]) -> None:
    seen.append(sample._core.message(None, None))


def test_overlapping_tensors_of_one_sample_are_copied_once_for_all_threads(
    torch: ModuleType,
) -> None:
    whole = np.arange(16, dtype=np.float32)
    message = [torch.from_numpy(whole)[:9], whole[4:12], torch.from_numpy(whole)[2:]]
    with joined() as (publisher, subscriber):
        for _ in range(50):
            publisher.publish(message)
            sample = subscriber.receive()
            seen: list[Any] = []
            in_threads(*[partial(read_into, seen, sample)] * THREADS)
            for data in seen:
                assert [np.asarray(each).tolist() for each in data] == [
                    whole[:9].tolist(),
                    whole[4:12].tolist(),
                    whole[2:].tolist(),
                ]
            del sample, seen, data
    unused()


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
            waits = threading.Event()

            def let_go() -> None:
                waits.wait()
                while not held.empty():
                    held.get()

            thread = threading.Thread(target=let_go)
            thread.start()
            waits.set()
            for _ in range(3):
                loan = publisher.loan(16 << 20, "uint8", timeout=PATIENCE)
                publisher.publish(loan)
                del loan
                subscriber.receive()
            thread.join()

    elsewhere.run(lend, env={"TENSORBUS_BUDGET": str(128 << 20)})
