"""What makes no sense is refused with an error that says so, and the bus goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined


@pytest.mark.parametrize("endpoint", [tb.Publisher, tb.Subscriber])
@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("", "must not be empty"),
        ("x" * 3000, "3000 bytes; at most 2048"),
        ("ä" * 1025, "2050 bytes"),
        ("\ud800", "expected a str"),
        (7, "topic=7: expected a str"),
        (None, "expected a str"),
        (b"topic", "expected a str"),
    ],
)
def test_a_topic_that_is_no_name_is_refused(
    endpoint: Callable[[Any], object], topic: object, why: str
) -> None:
    with pytest.raises(tb.InvalidArgument, match=why):
        endpoint(topic)


NAMES = [
    *("/a/b", "/a_b", "a%2Fb", "%2Fa%2Fb", "/a//b", "/A/B", "a/b", " a/b", ".a", "..", "a@b.1.pub"),
    *("größe", "gro\u0308ße", "\U0001f980", "a\0b", "a\nb", "x" * 2048, "x" * 2047 + "y", "~", "-"),
]


def test_names_that_look_alike_are_different_topics() -> None:
    subscribers = [tb.Subscriber(name, timeout=PATIENCE) for name in NAMES]
    publishers = [tb.Publisher(name) for name in NAMES]
    for publisher in publishers:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert publisher.publish(publisher.topic) == 1
    for name, subscriber in zip(NAMES, subscribers, strict=True):
        sample = subscriber.receive()
        assert (sample.data, sample.header.topic) == (name, name)
        assert subscriber.try_receive() is None
    for endpoint in (*publishers, *subscribers):
        endpoint.close()


def waits_for(count: Any) -> None:
    with joined() as (publisher, subscriber):
        for wait in (publisher.wait_for_subscribers, subscriber.wait_for_publishers):
            assert wait(1, timeout=0)
            wait(count, timeout=0)


# What counts something: how it is asked for, the least and the most of it.
COUNTS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "depth": (lambda value: tb.Publisher("topic", depth=value), 1, 65_536),
    "history": (lambda value: tb.Publisher("topic", history=value), 0, 65_536),
    "depth of a subscriber": (lambda value: tb.Subscriber("topic", depth=value), 0, 65_536),
    "max_held": (lambda value: tb.Subscriber("topic", max_held=value), 1, 983_040),
    "max_count": (lambda value: tb.Subscriber("topic").try_receive_many(value), 1, 2**32 - 1),
    "count": (waits_for, 0, 2**32 - 1),
    "uses": (lambda value: tb.share(b"", uses=value), 1, 2**32 - 1),
    "budget_bytes": (lambda value: tb.participant(budget_bytes=value), 0, 2**64 - 1),
}
NO_COUNTS = [-1, 2**31, 2**32, 2**63, 2**64, True, 1.5, "8"]


@pytest.mark.parametrize("value", NO_COUNTS)
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_that_is_none_is_refused_with_its_name_and_its_range(name: str, value: Any) -> None:
    call, least, most = COUNTS[name]
    if type(value) is int and least <= value <= most:
        call(value)
        return
    with pytest.raises(tb.InvalidArgument) as refusal:
        call(value)
    range_ = f"expected a whole number from {least} to {most}"
    assert str(refusal.value) == f"{name.split()[0]}={value!r}: {range_}"


@pytest.mark.parametrize("name", COUNTS)
def test_the_least_and_the_most_of_a_count_are_taken(name: str) -> None:
    call, least, most = COUNTS[name]
    call(least)
    call(most)


@pytest.mark.parametrize("option", [{"access": "write"}, {"library": "tensorflow"}])
def test_an_unknown_choice_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(tb.InvalidArgument, match=next(iter(option))):
        tb.Subscriber("topic", **option)


def test_a_timeout_must_be_a_number() -> None:
    with joined(publisher={"reliable": True}) as (publisher, subscriber):
        for call in (
            lambda timeout: publisher.publish(1, timeout=timeout),
            lambda timeout: publisher.wait_for_subscribers(timeout=timeout),
            lambda timeout: subscriber.receive(timeout),
            lambda timeout: subscriber.wait_for_publishers(timeout=timeout),
        ):
            with pytest.raises(TypeError):
                call("1")
            with pytest.raises(tb.InvalidArgument, match="timeout=nan"):
                call(math.nan)
        assert subscriber.try_receive() is None


def test_an_endless_timeout_is_no_timeout() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(1)
        assert subscriber.receive(math.inf).data == 1
        publisher.publish(2)
        assert subscriber.receive(1e300).data == 2


ARRAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "objects": (lambda: np.array([object()]), "elements of object are Python objects"),
    "objects in a structure": (lambda: np.zeros(3, [("a", "O")]), "are Python objects.*a list"),
    "a masked array": (lambda: np.ma.zeros(3), "MaskedArray is a subclass.*asarray"),
    "a matrix": (lambda: np.matrix([[1]]), "matrix is a subclass"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_an_array_that_cannot_travel_is_refused(name: str) -> None:
    make, why = ARRAYS[name]
    assert_refused(make(), why)


def assert_refused(tensor: Any, why: str) -> None:
    with joined() as (publisher, subscriber):
        for message in (tensor, {"good": np.zeros(3), "bad": [tensor]}):
            with pytest.raises(tb.Unsupported, match=why):
                publisher.publish(message)
        publisher.publish("the next")
        assert subscriber.receive().data == "the next"
        assert publisher.stats["sent"] == 1
        assert publisher.stats["bytes_in_flight"] == 0


TENSORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a result with a history": (
        lambda torch: torch.ones(3, requires_grad=True) * 2,
        r"requires gradients and has a history.*tensor\.detach\(\).*no_grad",
    ),
    "a subclass": (
        lambda torch: torch.zeros(3).as_subclass(type("Mine", (torch.Tensor,), {})),
        r"Mine is a subclass.*as_subclass\(torch\.Tensor\)",
    ),
    "a buffer of a subclass of Parameter": (
        lambda torch: type("Mine", (torch.nn.Parameter,), {})(torch.zeros(3)),
        "Mine is a subclass",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_tensor_that_cannot_travel_is_refused(torch: ModuleType, name: str) -> None:
    make, why = TENSORS[name]
    assert_refused(make(torch), why)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_quantized_tensor_is_refused(torch: ModuleType) -> None:
    if not hasattr(torch, "quantize_per_tensor"):
        pytest.skip("this PyTorch has no quantized tensors")
    tensor = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8)
    assert_refused(tensor, r"quantized.*dequantize\(\)")


def test_a_tensor_beyond_the_budget_is_refused_and_the_bus_goes_on(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with joined() as (publisher, subscriber):
            assert tb.participant().arena["budget_bytes"] == 1 << 20
            large = np.zeros(2 << 20, np.uint8)
            for call in (
                lambda: publisher.publish(large),
                lambda: publisher.publish({"large": large}),
                lambda: publisher.loan(2 << 20, dtype="uint8"),
            ):
                with pytest.raises(tb.OutOfMemory, match=r"byte budget.*\(TENSORBUS_BUDGET\)"):
                    call()
            publisher.publish(np.full(1000, 7))
            assert (subscriber.receive().data == 7).all()
            assert publisher.stats["sent"] == 1

    elsewhere.run(run, env={"TENSORBUS_BUDGET": str(1 << 20)})


def test_what_is_held_counts_against_the_budget_until_it_is_let_go(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with joined() as (publisher, subscriber):
            held = []
            for _ in range(10):
                publisher.publish(np.zeros(100_000, np.uint8))
                held.append(subscriber.receive().data)
            with pytest.raises(tb.OutOfMemory, match="wait until subscribers release samples"):
                publisher.publish(np.zeros(100_000, np.uint8))
            held.pop()
            publisher.publish(np.zeros(100_000, np.uint8))

    elsewhere.run(run, env={"TENSORBUS_BUDGET": str(1 << 20)})


@pytest.mark.parametrize("budget", ["many", "1 MiB"])
def test_a_budget_that_is_no_number_is_refused(
    monkeypatch: pytest.MonkeyPatch, budget: str
) -> None:
    monkeypatch.setenv("TENSORBUS_BUDGET", budget)
    with pytest.raises(tb.InvalidArgument, match="TENSORBUS_BUDGET: expected a number of bytes"):
        tb.participant()
