"""A received tensor keeps its memory for as long as any view of it lives, and no longer."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, joined

BYTES = 80_000


def in_flight(publisher: tb.Publisher) -> int:
    return publisher.stats["bytes_in_flight"]


def assert_held_until_dropped(sent: Any, keep: Callable[[Any], Any]) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(sent)
        sample = subscriber.receive()
        kept = keep(sample.data)
        del sample
        assert subscriber.stats["held"] == 1
        assert in_flight(publisher) >= BYTES
        del kept
        assert subscriber.stats["held"] == 0
        assert in_flight(publisher) == 0


NUMPY_VIEWS: dict[str, Callable[[Any], Any]] = {
    "the array": lambda array: array,
    "a slice": lambda array: array[3:5],
    "a slice of a slice": lambda array: array[10:90][::-2][3:],
    "a reshaped view": lambda array: array.reshape(100, 100).T,
    "another dtype": lambda array: array.view(np.uint8),
    "one element": lambda array: array[5:6].reshape(()),
    "a memoryview": memoryview,
    "a cast memoryview": lambda array: memoryview(array).cast("B")[5:9],
    "an iterator": lambda array: array.flat,
    "a frombuffer": lambda array: np.frombuffer(array, np.float64),
    "a broadcast": lambda array: np.broadcast_to(array, (3, len(array))),
}


@pytest.mark.parametrize("view", NUMPY_VIEWS)
def test_a_view_of_an_array_keeps_its_memory(view: str) -> None:
    assert_held_until_dropped(np.zeros(BYTES // 8), NUMPY_VIEWS[view])


TORCH_VIEWS: dict[str, Callable[[Any], Any]] = {
    "the tensor": lambda tensor: tensor,
    "a slice": lambda tensor: tensor[3:5],
    "a reshaped view": lambda tensor: tensor.view(100, 100).t(),
    "a detached tensor": lambda tensor: tensor.detach(),
    "its storage": lambda tensor: tensor.untyped_storage(),
    "a numpy array": lambda tensor: tensor.numpy()[2:4],
    "a DLPack copy of the reference": lambda tensor: tensor.__dlpack__(),
}


@pytest.mark.parametrize("view", TORCH_VIEWS)
def test_a_view_of_a_tensor_keeps_its_memory(torch: ModuleType, view: str) -> None:
    assert_held_until_dropped(torch.zeros(BYTES // 8, dtype=torch.float64), TORCH_VIEWS[view])


def test_a_tensor_in_a_graph_keeps_its_memory(torch: ModuleType) -> None:
    weights = torch.ones(BYTES // 8, dtype=torch.float64, requires_grad=True)
    assert_held_until_dropped(
        torch.zeros(BYTES // 8, dtype=torch.float64), lambda tensor: (weights * tensor).sum()
    )


def test_any_tensor_of_a_sample_keeps_all_of_it() -> None:
    sent = {"a": np.zeros(BYTES // 8), "b": [np.ones(BYTES // 8)]}
    assert_held_until_dropped(sent, lambda data: data["b"][0][:1])


def test_a_sample_holds_its_memory_before_anybody_looked_inside() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(np.zeros(BYTES // 8))
        sample = subscriber.receive()
        assert in_flight(publisher) >= BYTES
        assert subscriber.stats["held"] == 1
        del sample
        assert in_flight(publisher) == 0
        assert subscriber.stats["held"] == 0


def test_a_cycle_keeps_its_memory_until_it_is_collected() -> None:
    def make_cycle(data: Any) -> None:
        cycle = [data]
        cycle.append(cycle)

    with joined() as (publisher, subscriber):
        publisher.publish(np.zeros(BYTES // 8))
        gc.collect()
        gc.disable()
        try:
            make_cycle(subscriber.receive().data)
            assert in_flight(publisher) >= BYTES
        finally:
            gc.enable()
        gc.collect()
        assert in_flight(publisher) == 0


def test_a_message_without_tensors_holds_nothing_once_it_is_read() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish({"text": "x" * 1000})
        sample = subscriber.receive()
        assert sample.data == {"text": "x" * 1000}
        assert subscriber.stats["held"] == 0
        assert in_flight(publisher) == 0


def test_a_held_tensor_never_changes() -> None:
    with joined(publisher={"depth": 2}) as (publisher, subscriber):
        publisher.publish(np.full(10_000, 1, np.uint8))
        held = subscriber.receive().data
        for number in range(2, 100):  # memory is reused all the time, but not this
            publisher.publish(np.full(10_000, number, np.uint8))
            assert (held == 1).all()


def test_an_array_that_is_received_for_reading_is_read_only() -> None:
    with joined(subscriber={"access": "read"}) as (publisher, subscriber):
        publisher.publish(np.arange(4))
        received = subscriber.receive().data
    assert not received.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        received[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        received.flags.writeable = True
    assert memoryview(received).readonly
    copy = received.copy()
    copy[0] = 5
    assert received[0] == 0


def test_what_is_held_stays_when_the_subscriber_is_closed_and_gone() -> None:
    with tb.Publisher("topic") as publisher:
        subscriber = tb.Subscriber("topic", timeout=PATIENCE)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.full(BYTES, 7, np.uint8))
        publisher.publish("never received")
        held = subscriber.receive().data
        subscriber.close()
        del subscriber
        assert in_flight(publisher) >= BYTES
        assert (held == 7).all()
        del held
        assert in_flight(publisher) == 0


def test_what_is_held_stays_when_the_publisher_is_closed_and_gone() -> None:
    subscriber = tb.Subscriber("topic", timeout=PATIENCE)
    publisher = tb.Publisher("topic")
    assert publisher.wait_for_subscribers(timeout=PATIENCE)
    publisher.publish(np.full(BYTES, 7, np.uint8))
    held = subscriber.receive().data
    publisher.close()
    del publisher
    with tb.Publisher("another") as another:  # would take the memory if it were free
        for _ in range(10):
            another.publish(np.zeros(BYTES, np.uint8))
    assert (held == 7).all()
    subscriber.close()


def test_a_subscriber_that_holds_all_it_may_is_told_so() -> None:
    with joined(subscriber={"max_held": 2}) as (publisher, subscriber):
        for number in range(3):
            publisher.publish(np.full(1000, number))
        held = [subscriber.receive().data for _ in range(2)]
        with pytest.raises(tb.HoldLimit, match=r"2 samples.*max_held"):
            subscriber.receive()
        with pytest.raises(tb.HoldLimit):
            subscriber.try_receive()
        held.clear()
        assert (subscriber.receive().data == 2).all()
