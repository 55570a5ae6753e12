"""What docs/limits.md promises to programs with threads."""

from __future__ import annotations

import gc
import queue
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, joined
from support.threads import asleep

THREADS = 4


def blocked(*functions: Callable[[], Any]) -> list[Future[Any]]:
    """What comes of functions, each in a thread of its own that waits for something by now."""

    def run(function: Callable[[], Any], future: Future[Any]) -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    futures: list[Future[Any]] = [Future() for _ in functions]
    for function, future in zip(functions, futures, strict=True):
        thread = threading.Thread(target=run, args=(function, future), daemon=True)
        thread.start()
        eventually(lambda thread=thread: asleep(thread))
        assert not future.done()
    return futures


def all_at_once(function: Callable[[int], Any]) -> list[Any]:
    """What a function returns to threads that call it at the same moment."""
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> Any:
        barrier.wait(PATIENCE)
        return function(number)

    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(run, number) for number in range(THREADS)]
        return [future.result(PATIENCE) for future in running]


def messages(kind: str, publisher: tb.Publisher, number: int, torch: ModuleType) -> Any:
    if kind == "torch":
        return torch.full((100,), number)
    if kind == "numpy":
        return np.full(100, number)
    if kind == "loan":
        loan = publisher.loan(100, dtype=torch.int64)
        loan.fill_(number)
        return loan
    return {"number": number, "tensors": [torch.full((10,), number), np.full(10, number)]}


def number_of(data: Any) -> int:
    if isinstance(data, dict):
        (number,) = {number_of(tensor) for tensor in data["tensors"]} | {data["number"]}
        return int(number)
    assert (data == data[0]).all()
    return int(data[0])


@pytest.mark.parametrize("kind", ["torch", "numpy", "loan", "message"])
def test_each_sample_of_several_threads_comes_to_exactly_one_of_several_threads(
    kind: str, torch: ModuleType
) -> None:
    count = 200
    taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
    options = {"reliable": True, "depth": 4, "timeout": PATIENCE}
    with joined(publisher=options) as (publisher, subscriber):

        def receive() -> None:
            for sample in subscriber:
                taken[threading.get_ident()].append(
                    (sample.header.sequence, number_of(sample.data))
                )

        def publish(thread: int) -> None:
            for number in range(count):
                publisher.publish(messages(kind, publisher, thread * count + number, torch))

        receiving = [threading.Thread(target=receive) for _ in range(THREADS)]
        for thread in receiving:
            thread.start()
        all_at_once(publish)
        eventually(lambda: sum(map(len, taken.values())) == THREADS * count)
        subscriber.close()
        for thread in receiving:
            thread.join(PATIENCE)
        assert publisher.stats["bytes_in_flight"] == 0
    everything = sorted(pair for mine in taken.values() for pair in mine)
    assert [sequence for sequence, _ in everything] == list(range(THREADS * count))
    assert sorted(number for _, number in everything) == list(range(THREADS * count))
    for mine in taken.values():  # what one thread takes, it takes in order
        assert mine == sorted(mine)
    for thread in range(THREADS):  # and what one thread sends is sent in order
        of_thread = [number for _, number in everything if number // count == thread]
        assert of_thread == sorted(of_thread)


def test_samples_of_another_process_come_to_exactly_one_thread(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("topic", reliable=True, depth=4, timeout=PATIENCE) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(1000):
                publisher.publish(number)
            hear()

    taken: queue.SimpleQueue[int] = queue.SimpleQueue()
    with tb.Subscriber("topic") as subscriber:

        def receive_until_closed(thread: int) -> None:
            if thread % 2:
                for sample in subscriber:
                    taken.put(sample.data)
                return
            while tb.wait_any([subscriber]):
                try:
                    sample_or_none = subscriber.try_receive()
                except tb.Closed:
                    return
                if sample_or_none is not None:
                    taken.put(sample_or_none.data)

        other = elsewhere.start(publish)
        with ThreadPoolExecutor(THREADS) as pool:
            receiving = [pool.submit(receive_until_closed, n) for n in range(THREADS)]
            eventually(lambda: taken.qsize() == 1000)
            subscriber.close()
            for future in receiving:
                future.result(PATIENCE)
        other.tell()
    assert sorted(taken.get() for _ in range(1000)) == list(range(1000))


def test_closing_a_subscriber_ends_all_that_wait_for_it() -> None:
    with joined() as (_, subscriber), tb.Subscriber("another") as another:
        waiting = blocked(
            subscriber.receive,
            subscriber.receive,
            lambda: subscriber.receive(PATIENCE),
            lambda: subscriber.wait_for_publishers(2),
            lambda: subscriber.wait_for_publishers(2, PATIENCE),
        )
        (iterating,) = blocked(lambda: list(subscriber))
        (watching,) = blocked(lambda: tb.wait_any([another, subscriber]))
        subscriber.close()
        for future in waiting:
            assert isinstance(future.exception(PATIENCE), tb.Closed)
        assert iterating.result(PATIENCE) == []
        assert watching.result(PATIENCE) == [subscriber]


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_closing_a_publisher_ends_all_that_wait_for_it(timeout: float | None) -> None:
    options = {"reliable": True, "depth": 1, "timeout": timeout}
    with joined(publisher=options) as (publisher, subscriber):
        publisher.publish(0)
        loan = publisher.loan(10, "uint8")
        waiting = blocked(
            lambda: publisher.publish(1),
            lambda: publisher.publish(loan),
            lambda: publisher.publish(np.zeros(1000)),
            lambda: publisher.wait_for_subscribers(2, timeout),
        )
        publisher.close()
        for future in waiting:
            assert isinstance(future.exception(PATIENCE), tb.Closed)
        assert subscriber.receive().data == 0


def came_back(publisher: tb.Publisher) -> None:
    """What a subscriber held, its owner's event loop takes back after the subscriber's close."""
    eventually(lambda: publisher.stats["bytes_in_flight"] == 0)


def test_closing_while_others_are_busy_is_closed_to_all_of_them() -> None:
    chance = random.Random(1)
    for _ in range(30):
        with joined() as (publisher, subscriber):
            enough = threading.Event()
            wanted = chance.randrange(20)

            def publish(
                publisher: tb.Publisher = publisher,
                enough: threading.Event = enough,
                wanted: int = wanted,
            ) -> None:
                number = 0
                while True:
                    publisher.publish(np.full(100, number))
                    number += 1
                    if number > wanted:
                        enough.set()

            def look(subscriber: tb.Subscriber = subscriber) -> None:
                while True:
                    subscriber.try_receive()

            def receive(subscriber: tb.Subscriber = subscriber) -> None:
                while True:
                    subscriber.receive()

            with ThreadPoolExecutor(8) as pool:
                busy = [
                    pool.submit(publish),
                    pool.submit(publish),
                    pool.submit(look),
                    pool.submit(receive),
                ]
                assert enough.wait(PATIENCE)
                closing = [
                    pool.submit(endpoint.close)
                    for endpoint in (publisher, subscriber, publisher, subscriber)
                ]
                for future in closing:
                    future.result(PATIENCE)
                for future in busy:
                    assert isinstance(future.exception(PATIENCE), tb.Closed)
            came_back(publisher)


def test_what_one_thread_received_another_drops() -> None:
    with joined(publisher={"reliable": True, "depth": 8}) as (publisher, subscriber):
        received: queue.Queue[Any] = queue.Queue(100)

        def drop() -> None:
            while (item := received.get()) is not None:
                assert number_of(item) >= 0
                del item

        dropping = [threading.Thread(target=drop) for _ in range(THREADS)]
        for thread in dropping:
            thread.start()
        for number in range(500):
            publisher.publish(np.full(1000, number), timeout=PATIENCE)
            received.put(subscriber.receive().data)
        for _ in dropping:
            received.put(None)
        for thread in dropping:
            thread.join(PATIENCE)
        assert subscriber.stats["held"] == 0
        assert publisher.stats["bytes_in_flight"] == 0


def test_what_a_thread_held_goes_with_it() -> None:
    with joined() as (publisher, subscriber):
        local = threading.local()

        def hold() -> None:
            local.held = subscriber.receive().data

        publisher.publish(np.zeros(1000))
        thread = threading.Thread(target=hold)
        thread.start()
        thread.join(PATIENCE)
        gc.collect()
        assert subscriber.stats["held"] == 0
        assert publisher.stats["bytes_in_flight"] == 0


def test_a_loan_of_one_thread_is_filled_by_others_and_published_by_a_third() -> None:
    with joined() as (publisher, subscriber), ThreadPoolExecutor(THREADS) as pool:
        loan = pool.submit(publisher.loan, (THREADS, 100), "uint8").result(PATIENCE)
        list(pool.map(lambda row: loan[row].fill(row), range(THREADS)))
        pool.submit(publisher.publish, loan).result(PATIENCE)
        received = subscriber.receive().data
        assert (received == np.arange(THREADS)[:, None]).all()


def test_a_loan_that_several_threads_publish_is_published_once() -> None:
    with joined() as (publisher, subscriber):
        for _ in range(50):
            loan = publisher.loan(10, "uint8")

            def publish(_: int, loan: Any = loan) -> bool:
                try:
                    publisher.publish(loan)
                except tb.InvalidArgument:
                    return False
                return True

            assert sum(all_at_once(publish)) == 1
            assert subscriber.receive().data.shape == (10,)
            assert subscriber.try_receive() is None


def test_one_participant_is_made_for_threads_that_ask_at_the_same_moment(
    elsewhere: Elsewhere,
) -> None:
    def ask() -> None:
        assert len(set(all_at_once(lambda _: tb.participant().id))) == 1

    elsewhere.run(ask)


def test_endpoints_come_and_go_in_several_threads() -> None:
    def come_and_go(thread: int) -> None:
        for number in range(25):
            topic = f"topic/{thread}/{number}"
            with tb.Subscriber(f"topic/{thread - 1}"), joined(topic) as (publisher, subscriber):
                publisher.publish(np.full(100, number))
                assert number_of(subscriber.receive().data) == number

    all_at_once(come_and_go)
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)


def test_looking_is_for_any_thread_at_any_time() -> None:
    with joined(publisher={"depth": 4}) as (publisher, subscriber):
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                assert publisher.stats["subscribers"] == 1
                assert subscriber.stats["publishers"] == 1
                assert "topic" in repr(publisher) + repr(subscriber)
                assert subscriber.fileno() == descriptor
                subscriber.ready()
                assert tb.participant().arena["blocks"] >= 0

        descriptor = subscriber.fileno()
        with ThreadPoolExecutor() as pool:
            looking = [pool.submit(look) for _ in range(2)]
            for number in range(300):
                publisher.publish(np.full(100, number))
                assert number_of(subscriber.receive().data) == number
            done.set()
            for future in looking:
                future.result(PATIENCE)


def test_a_sample_may_be_read_by_several_threads() -> None:
    with joined() as (publisher, subscriber):
        for number in range(50):
            publisher.publish({"number": number, "tensors": [np.full(1000, number)]})
            sample = subscriber.receive()
            read = all_at_once(lambda _, sample=sample: number_of(sample.data))
            assert read == [number] * THREADS
            copies = all_at_once(lambda _, sample=sample: number_of(sample.copy().data))
            assert copies == [number] * THREADS
        del sample
        assert subscriber.stats["held"] == 0
