"""Threads that use the same objects at the same moment.

A build of CPython without a GIL runs them at once; one with a GIL switches between them very often
here. What is asked for is the same.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined, tell, unused
from support.interpreters import IS_FREE_THREADED
from support.threads import beside, in_threads

THREADS = 4
ROUNDS = 400
pytestmark = pytest.mark.usefixtures("threads_switch_often")


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
