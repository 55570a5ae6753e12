"""Receiving: with a timeout, without one, in a loop, through select, and from threads."""

from __future__ import annotations

import selectors
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, joined


@pytest.mark.parametrize("timeout", [0, 0.01, -1, 0.0])
def test_a_receive_without_samples_ends_in_a_timeout(timeout: float) -> None:
    with joined() as (_, subscriber), pytest.raises(tb.Timeout, match="no sample on 'topic'"):
        subscriber.receive(timeout)


def test_a_timeout_is_not_over_before_its_time() -> None:
    with joined() as (_, subscriber):
        before = time.monotonic()
        with pytest.raises(tb.Timeout):
            subscriber.receive(0.05)
        assert time.monotonic() - before >= 0.05


def test_a_tensorbus_timeout_is_a_timeout_error() -> None:
    with joined(subscriber={"timeout": 0}) as (_, subscriber), pytest.raises(TimeoutError):
        subscriber.receive()


def test_a_timeout_of_zero_still_receives_what_is_there() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(1)
        assert subscriber.receive(0).data == 1


def test_try_receive_never_waits() -> None:
    with joined() as (publisher, subscriber):
        assert subscriber.try_receive() is None
        publisher.publish(1)
        sample = subscriber.try_receive()
        assert sample is not None
        assert sample.data == 1
        assert subscriber.try_receive() is None


def test_iteration_ends_when_no_sample_comes_in_time() -> None:
    with joined(subscriber={"timeout": 0}) as (publisher, subscriber):
        for number in range(3):
            publisher.publish(number)
        assert [sample.data for sample in subscriber] == [0, 1, 2]
        assert [sample.data for sample in subscriber] == []
        publisher.publish(3)
        assert [sample.data for sample in subscriber] == [3]


def test_iteration_ends_when_the_subscriber_is_closed() -> None:
    with joined() as (publisher, subscriber):
        for number in range(3):
            publisher.publish(number)
        received = []
        for sample in subscriber:
            received.append(sample.data)
            if sample.data == 1:
                subscriber.close()
        assert received == [0, 1]


def test_a_closed_subscriber_says_so() -> None:
    with joined() as (_, subscriber):
        subscriber.close()
        subscriber.close()
        with pytest.raises(tb.Closed):
            subscriber.receive()
        with pytest.raises(tb.Closed):
            subscriber.try_receive()
        with pytest.raises(tb.Closed):
            subscriber.wait_for_publishers(timeout=PATIENCE)


def in_another_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_closing_ends_the_receive_of_another_thread() -> None:
    with joined() as (_, subscriber), ThreadPoolExecutor() as pool:
        waiting = pool.submit(subscriber.receive, PATIENCE)
        subscriber.close()
        assert isinstance(waiting.exception(PATIENCE), tb.Closed)


def test_waiting_for_publishers_ends_with_their_number_or_the_time() -> None:
    with tb.Subscriber("topic") as subscriber:
        assert subscriber.wait_for_publishers(0, timeout=0)
        assert not subscriber.wait_for_publishers(timeout=0)
        with tb.Publisher("topic"), tb.Publisher("topic"):
            assert subscriber.wait_for_publishers(2, timeout=PATIENCE)
            assert subscriber.stats["publishers"] == 2


def test_the_descriptor_tells_select_about_samples() -> None:
    with joined() as (publisher, subscriber), selectors.DefaultSelector() as selector:

        def by_select() -> list[int]:
            assert selector.select(PATIENCE)
            return [sample.data for sample in iter(subscriber.try_receive, None)]

        selector.register(subscriber.fileno(), selectors.EVENT_READ)
        assert subscriber.try_receive() is None
        publisher.publish("the first, of which the publisher tells by and by")
        while not by_select():
            pass
        for number in range(20):
            assert selector.select(0) == []
            publisher.publish(number)
            publisher.publish(-number)
            assert by_select() == [number, -number]


def test_the_descriptor_tells_select_about_another_process(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("topic") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(50):
                publisher.publish(number, timeout=PATIENCE)

    received: list[int] = []
    with (
        tb.Subscriber("topic", depth=100) as subscriber,
        selectors.DefaultSelector() as selector,
    ):
        selector.register(subscriber, selectors.EVENT_READ)
        elsewhere.start(publish)
        while len(received) < 50:
            assert selector.select(PATIENCE)
            received += [sample.data for sample in iter(subscriber.try_receive, None)]
    assert received == list(range(50))


def test_the_descriptor_knows_of_what_came_before_it() -> None:
    with joined() as (publisher, subscriber), selectors.DefaultSelector() as selector:
        publisher.publish(1)
        selector.register(subscriber.fileno(), selectors.EVENT_READ)
        assert selector.select(PATIENCE)


def test_the_descriptor_becomes_readable_when_another_thread_closes() -> None:
    with joined() as (_, subscriber), selectors.DefaultSelector() as selector:
        selector.register(subscriber.fileno(), selectors.EVENT_READ)
        while subscriber.try_receive() is not None:
            pass
        closing = in_another_thread(subscriber.close)
        assert selector.select(PATIENCE)
        closing.join(PATIENCE)


def test_many_publishers_and_subscribers_live_in_one_process() -> None:
    publishers = [tb.Publisher("topic", depth=100) for _ in range(5)]
    subscribers = [tb.Subscriber("topic", timeout=PATIENCE) for _ in range(5)]
    for publisher in publishers:
        assert publisher.wait_for_subscribers(5, timeout=PATIENCE)
    for round_ in range(10):
        for number, publisher in enumerate(publishers):
            assert publisher.publish((number, round_)) == 5
    wanted = {(number, round_) for number in range(5) for round_ in range(10)}
    for subscriber in subscribers:
        received = [subscriber.receive().data for _ in range(50)]
        assert set(received) == wanted
        for number in range(5):  # in order for each publisher
            assert [r for n, r in received if n == number] == list(range(10))
    for endpoint in (*publishers, *subscribers):
        endpoint.close()


def test_several_threads_publish_and_receive_with_the_same_objects() -> None:
    count, threads = 100, 4
    options = {"depth": count * threads}
    with joined(publisher=options) as (publisher, subscriber), ThreadPoolExecutor(8) as pool:

        def publish(thread: int) -> None:
            for number in range(count):
                publisher.publish({"from": thread, "data": np.full(1000, number)})

        def receive(_: int) -> list[tuple[int, int]]:
            received = []
            for _ in range(count):
                data = subscriber.receive().data
                assert (data["data"] == data["data"][0]).all()
                received.append((data["from"], int(data["data"][0])))
            return received

        receiving = [pool.submit(receive, thread) for thread in range(threads)]
        publishing = [pool.submit(publish, thread) for thread in range(threads)]
        for future in publishing:
            future.result(PATIENCE)
        received = [sample for future in receiving for sample in future.result(PATIENCE)]
    assert sorted(received) == [(t, n) for t in range(threads) for n in range(count)]


def test_other_threads_run_while_one_receives() -> None:
    # The sample that ends the wait comes from the thread that must run during it.
    with joined() as (publisher, subscriber):
        about_to_wait = threading.Event()

        def publish() -> None:
            about_to_wait.wait(PATIENCE)
            publisher.publish(1)

        thread = in_another_thread(publish)
        about_to_wait.set()
        assert subscriber.receive(PATIENCE).data == 1
        thread.join(PATIENCE)


def test_other_threads_run_while_one_waits_for_subscribers() -> None:
    with tb.Publisher("topic") as publisher, ThreadPoolExecutor() as pool:
        subscriber = pool.submit(tb.Subscriber, "topic")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        subscriber.result(PATIENCE).close()


def test_other_threads_run_while_one_waits_to_publish() -> None:
    with joined(publisher={"depth": 1, "reliable": True}) as (publisher, subscriber):
        publisher.publish(1)
        thread = in_another_thread(subscriber.receive)
        assert publisher.publish(2, timeout=PATIENCE) == 1
        thread.join(PATIENCE)


def test_other_threads_run_while_one_copies() -> None:
    data = np.zeros(8 << 20, np.uint8)
    before = sys.getswitchinterval()
    ticks = 0
    done = False

    def tick() -> None:
        nonlocal ticks
        while not done:
            ticks += 1
            time.sleep(0)  # lets go of the GIL, which nobody is made to

    sys.setswitchinterval(1000)
    with tb.Publisher("topic") as publisher:
        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            progressed = False
            deadline = time.monotonic() + PATIENCE
            while not progressed and time.monotonic() < deadline:
                ticks_before = ticks
                publisher.publish(data)
                progressed = ticks > ticks_before
        finally:
            sys.setswitchinterval(before)
            done = True
        thread.join(PATIENCE)
    assert progressed
