"""Mistakes of a first day are errors at once, whose text says what to write instead."""

from __future__ import annotations

import multiprocessing
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE


@pytest.mark.parametrize(
    "endpoint", [tb.AsyncSubscriber, tb.Publisher, lambda name: tb.Queue(name=name)]
)
def test_wait_any_of_one_endpoint_says_to_pass_a_list(endpoint: Callable[[str], Any]) -> None:
    with (
        endpoint("nobody") as one,
        pytest.raises(TypeError, match=re.escape("write wait_any([subscriber])")),
    ):
        tb.wait_any(one, timeout=0)


def test_wait_any_of_one_subscriber_takes_no_sample() -> None:
    with tb.Publisher("t", history=1) as publisher, tb.Subscriber("t") as subscriber:
        publisher.publish(7)
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        with pytest.raises(TypeError, match=r"wait_any\(Subscriber\): expected a list"):
            tb.wait_any(subscriber)  # type: ignore[arg-type]
        assert subscriber.receive(PATIENCE).data == 7


@pytest.mark.parametrize("name", ["jobs", "8"])
def test_a_name_in_the_place_of_maxsize_says_how_a_name_is_given(name: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"A name is given as name={name!r}")):
        tb.Queue(name)  # type: ignore[arg-type]


def queue_call(name: str) -> Callable[[Any], object]:
    def call(timeout: Any) -> object:
        with tb.Queue() as jobs:
            return getattr(jobs, name)(timeout=timeout)

    return call


WAITS: dict[str, Callable[[Any], object]] = {
    "Publisher": lambda timeout: tb.Publisher("t", reliable=True, timeout=timeout),
    "Subscriber": lambda timeout: tb.Subscriber("t", timeout=timeout),
    "AsyncPublisher": lambda timeout: tb.AsyncPublisher("t", timeout=timeout),
    "AsyncSubscriber": lambda timeout: tb.AsyncSubscriber("t", timeout=timeout),
    "Client": lambda timeout: tb.Client("t", timeout=timeout),
    "wait_any": lambda timeout: tb.wait_any([tb.Subscriber("t")], timeout),
    "wait_for_subscribers": lambda value: tb.Publisher("t").wait_for_subscribers(timeout=value),
    "wait_for_publishers": lambda value: tb.Subscriber("t").wait_for_publishers(timeout=value),
    "Queue.open": lambda timeout: tb.Queue.open("jobs", timeout=timeout),
    "get": queue_call("get"),
    "join": queue_call("join"),
    "receive": lambda timeout: tb.Subscriber("t").receive(timeout),
    "publish": lambda timeout: tb.Publisher("t").publish(1, timeout=timeout),
    "publish of bytes": lambda timeout: tb.Publisher("t").publish(b"", timeout=timeout),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_timeout_that_is_no_number_is_told_with_its_name(name: str) -> None:
    with pytest.raises(TypeError) as refusal:
        WAITS[name]("5")
    expected = "timeout='5': expected a number of seconds, as in timeout=5.0, or None"
    assert str(refusal.value) == expected


def test_the_keywords_of_endpoints_that_a_node_spells_otherwise_are_named() -> None:
    with tb.Node("n") as node:
        with pytest.raises(TypeError, match=r"create_subscriber\(depth=\.\.\.\): use queue_size="):
            node.create_subscriber("t", depth=1)
        with pytest.raises(TypeError, match=r"create_publisher\(queue_size=\.\.\.\): use depth="):
            node.create_publisher("t", queue_size=1)
        with pytest.raises(tb.InvalidArgument, match="A callback is given as callback="):
            node.create_subscriber("t", print)  # type: ignore[arg-type]
        assert (node.publishers, node.subscribers) == ([], [])


def test_sizes_as_several_arguments_are_told_to_be_one() -> None:
    with tb.Publisher("t") as publisher, pytest.raises(tb.InvalidArgument, match=r"shape=\(2, 3\)"):
        publisher.loan(2, 3)


@pytest.mark.parametrize("device", ["gpu", "GPU:0", "CUDA", "Cuda:1", "cuda0"])
def test_a_pool_refuses_what_is_nearly_the_name_of_a_gpu(device: str) -> None:
    with pytest.raises(tb.InvalidArgument, match=re.escape(f"{device!r}: expected")):
        tb.WorkerPool(on_device, devices=[device])


def on_device(item: object, device: object) -> object:
    return device


def test_a_history_that_depth_would_cut_is_refused_and_one_that_it_holds_comes_whole() -> None:
    with pytest.raises(
        tb.InvalidArgument, match=r"history=10: .* depth=8 .* give depth=10 or more"
    ):
        tb.Publisher("t", history=10, depth=8)
    with tb.Publisher("t", history=10) as publisher:
        for number in range(20):
            publisher.publish(number)
        with tb.Subscriber("t", timeout=PATIENCE) as subscriber:
            got = [subscriber.receive().data for _ in range(10)]
        assert got == list(range(10, 20))


def received() -> tb.Sample:
    with tb.Publisher("t", history=1) as publisher, tb.Subscriber("t") as subscriber:
        publisher.publish(7)
        return subscriber.receive(PATIENCE)


OF_ONE_PROCESS: dict[str, tuple[Callable[[], Any], str]] = {
    "Publisher": (lambda: tb.Publisher("t"), "open the topic in the child"),
    "Subscriber": (lambda: tb.Subscriber("t"), "open the topic in the child"),
    "AsyncPublisher": (lambda: tb.AsyncPublisher("t"), "open the topic in the child"),
    "AsyncSubscriber": (lambda: tb.AsyncSubscriber("t"), "open the topic in the child"),
    "Node": (lambda: tb.Node("n"), "make the node in the child"),
    "Client": (lambda: tb.Client("s"), "make it in the child"),
    "Shared": (lambda: tb.share(b""), "send its handle"),
    "Sample": (received, "send its data; to keep a copy here, use sample.copy()"),
}


@pytest.mark.parametrize("name", OF_ONE_PROCESS)
def test_what_is_of_one_process_says_what_to_do_instead_of_pickling_it(name: str) -> None:
    make, instead = OF_ONE_PROCESS[name]
    made = make()
    with pytest.raises(TypeError) as refusal:
        pickle.dumps({"it": made})
    assert str(refusal.value) == f"cannot pickle {name!r} object: {instead}"
    context = multiprocessing.get_context("spawn")
    with pytest.raises(TypeError, match=re.escape(instead)):
        context.Process(target=print, args=(made,)).start()
