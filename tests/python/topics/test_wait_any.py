"""Waiting for several subscribers at once, without an event loop."""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, joined, tell


@contextmanager
def several(count: int) -> Iterator[tuple[list[tb.Publisher], list[tb.Subscriber]]]:
    """Publishers and subscribers of as many topics."""
    with ExitStack() as stack:
        pairs = [stack.enter_context(joined(f"topic/{number}")) for number in range(count)]
        yield [publisher for publisher, _ in pairs], [subscriber for _, subscriber in pairs]


def test_those_with_samples_are_told_in_the_order_given() -> None:
    with several(5) as (publishers, subscribers):
        for number in (3, 1):
            publishers[number].publish(number)
        assert tb.wait_any(subscribers) == [subscribers[1], subscribers[3]]
        assert tb.wait_any(reversed(subscribers)) == [subscribers[3], subscribers[1]]
        assert [subscribers[n].receive(0).data for n in (1, 3)] == [1, 3]  # nothing was taken
        assert tb.wait_any(subscribers, 0) == []


def test_one_that_is_given_twice_is_told_once() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(1)
        assert tb.wait_any([subscriber, subscriber], PATIENCE) == [subscriber]


@pytest.mark.parametrize("timeout", [0, 0.01, -1])
def test_none_are_told_when_the_time_is_over(timeout: float) -> None:
    with several(3) as (_, subscribers):
        assert tb.wait_any(subscribers, timeout) == []


def test_a_timeout_is_not_over_before_its_time() -> None:
    with several(2) as (_, subscribers):
        before = time.monotonic()
        assert tb.wait_any(subscribers, 0.05) == []
        assert time.monotonic() - before >= 0.05


@pytest.mark.parametrize("timeout", [None, 1e12, float("inf")])
def test_a_wait_may_last_forever(timeout: float | None) -> None:
    with several(2) as (publishers, subscribers), ThreadPoolExecutor() as pool:
        waiting = pool.submit(tb.wait_any, subscribers, timeout)
        publishers[1].publish(1)
        assert waiting.result(PATIENCE) == [subscribers[1]]


def test_a_wait_needs_subscribers() -> None:
    with pytest.raises(tb.InvalidArgument, match="nothing to wait for"):
        tb.wait_any([])
    with (
        tb.AsyncSubscriber("topic") as subscriber,
        pytest.raises(tb.InvalidArgument, match=r"use asyncio\.wait"),
    ):
        tb.wait_any([subscriber])  # type: ignore[list-item]
    with (
        tb.Subscriber("topic") as plain,
        pytest.raises(tb.InvalidArgument, match="timeout=nan"),
    ):
        tb.wait_any([plain], float("nan"))


def test_a_closed_subscriber_is_told() -> None:
    with several(2) as (_, subscribers), ThreadPoolExecutor() as pool:
        waiting = pool.submit(tb.wait_any, subscribers)
        subscribers[1].close()
        assert waiting.result(PATIENCE) == [subscribers[1]]
        assert tb.wait_any(subscribers) == [subscribers[1]]


def test_a_full_hold_is_told() -> None:
    with joined(subscriber={"max_held": 1}) as (publisher, subscriber):
        publisher.publish(np.zeros(100))
        held = subscriber.receive()
        assert tb.wait_any([subscriber], 0) == []
        publisher.publish(np.ones(100))
        assert tb.wait_any([subscriber]) == [subscriber]
        with pytest.raises(tb.HoldLimit):
            subscriber.receive()
        del held
        assert tb.wait_any([subscriber]) == [subscriber]
        assert subscriber.receive(0).data.all()


def test_ready_takes_nothing() -> None:
    with joined() as (publisher, subscriber):
        assert not subscriber.ready()
        publisher.publish(1)
        assert subscriber.ready()
        assert subscriber.ready()
        assert subscriber.receive(0).data == 1
        assert not subscriber.ready()
        subscriber.close()
        assert subscriber.ready()


def test_a_descriptor_that_was_readable_for_nothing_rests_after_ready() -> None:
    with joined() as (publisher, subscriber):
        poll = select.poll()
        poll.register(subscriber.fileno(), select.POLLIN)
        assert poll.poll(0)  # there may have been something before it
        assert not subscriber.ready()
        assert not poll.poll(0)
        publisher.publish("the first, of which the publisher tells by and by")
        assert poll.poll(PATIENCE * 1000)
        while subscriber.ready():
            assert poll.poll(0)
            subscriber.receive()
        assert not poll.poll(0)


def test_every_sample_of_several_processes_is_told(elsewhere: Elsewhere) -> None:
    count = 300

    def publish(topic: str, count: int) -> None:
        with tb.Publisher(topic, reliable=True, depth=4, timeout=PATIENCE) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(count):
                publisher.publish(number)
            hear()

    topics = ["a", "b", "c"]
    received: dict[str, list[int]] = {topic: [] for topic in topics}
    with ExitStack() as stack:
        subscribers = [stack.enter_context(tb.Subscriber(topic)) for topic in topics]
        others = [elsewhere.start(publish, topic, count) for topic in topics]
        while any(len(numbers) < count for numbers in received.values()):
            told = tb.wait_any(subscribers, PATIENCE)
            assert told
            for subscriber in told:
                received[subscriber.topic].append(subscriber.receive(0).data)
        for other in others:
            other.tell()
    assert all(numbers == list(range(count)) for numbers in received.values())


def test_two_threads_may_wait_for_the_same_subscribers() -> None:
    count = 200
    with several(2) as (publishers, subscribers), ThreadPoolExecutor() as pool:
        received: list[int] = []

        def take() -> None:
            while tb.wait_any(subscribers):
                for subscriber in subscribers:
                    try:
                        sample = subscriber.try_receive()
                    except tb.Closed:
                        return
                    if sample is not None:
                        received.append(sample.data)

        taking = [pool.submit(take) for _ in range(2)]
        enough = threading.Event()
        for number in range(count):
            publishers[number % 2].publish(number)
            while len(received) <= number:
                enough.wait(1e-4)
        for subscriber in subscribers:
            subscriber.close()
        for future in taking:
            future.result(PATIENCE)
        assert sorted(received) == list(range(count))


def test_a_killed_publisher_tells_nothing_and_its_successor_does(elsewhere: Elsewhere) -> None:
    def publish(number: int) -> None:
        with tb.Publisher("topic") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(number)
            tell("published")
            hear()

    with tb.Subscriber("topic") as subscriber, ThreadPoolExecutor() as pool:
        other = elsewhere.start(publish, 1)
        assert tb.wait_any([subscriber], PATIENCE) == [subscriber]
        assert subscriber.receive(0).data == 1
        assert other.hear() == "published"
        waiting = pool.submit(tb.wait_any, [subscriber])
        other.kill()
        successor = elsewhere.start(publish, 2)
        assert waiting.result(PATIENCE) == [subscriber]
        assert subscriber.receive(0).data == 2
        successor.tell()


def test_ctrl_c_ends_the_wait(elsewhere: Elsewhere) -> None:
    def wait() -> None:
        with tb.Subscriber("a") as a, tb.Subscriber("b") as b:
            tell("ready")
            try:
                tb.wait_any([a, b])
            except KeyboardInterrupt:
                tell("interrupted")

    other = elsewhere.start(wait)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"


def test_a_wait_goes_on_after_a_signal_that_was_handled(elsewhere: Elsewhere) -> None:
    def wait_in_spite_of_signals() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: tell("handled"))
        with tb.Subscriber("a") as a, tb.Subscriber("b") as b:
            tell("ready")
            tell([subscriber.receive(0).data for subscriber in tb.wait_any([a, b])])

    with tb.Publisher("b") as publisher:
        other = elsewhere.start(wait_in_spite_of_signals)
        assert other.hear() == "ready"
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(3):
            other.signal_when_asleep(signal.SIGUSR1)
            assert other.hear() == "handled"
        publisher.publish(7)
        assert other.hear() == [7]
