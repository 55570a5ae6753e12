"""A forked child leaves everything to its parent and makes its own."""

from __future__ import annotations

import multiprocessing
import os
import sys

import numpy as np

import tensorbus as tb
from harness import PATIENCE, Elsewhere, in_a_fork, joined


def test_what_the_parent_made_says_so_in_the_child(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with joined(publisher={"reliable": True}) as (publisher, subscriber):
            participant = tb.participant()

            def child() -> None:
                for use in (
                    lambda: publisher.publish(1),
                    lambda: publisher.loan(1, dtype="uint8"),
                    lambda: publisher.wait_for_subscribers(timeout=PATIENCE),
                    lambda: publisher.stats,
                    publisher.close,
                    lambda: subscriber.receive(PATIENCE),
                    subscriber.try_receive,
                    subscriber.fileno,
                    lambda: subscriber.wait_for_publishers(timeout=PATIENCE),
                    lambda: subscriber.stats,
                    subscriber.close,
                    lambda: participant.id,
                    lambda: participant.arena,
                ):
                    try:
                        use()
                    except tb.Forked as error:
                        told = str(error)
                    else:
                        told = "nothing"
                    assert "the child makes its own" in told

            in_a_fork(child)
            publisher.publish("unharmed")
            assert subscriber.receive().data == "unharmed"

    elsewhere.run(run)


def test_a_child_makes_its_own_and_is_heard(elsewhere: Elsewhere) -> None:
    def run() -> None:
        parent = tb.participant().id
        with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:

            def child() -> None:
                assert tb.participant().id != parent
                with tb.Publisher("topic") as publisher:
                    assert publisher.wait_for_subscribers(timeout=PATIENCE)
                    publisher.publish({"from": "child", "data": np.arange(1000)})

            in_a_fork(child)
            sample = subscriber.receive()
            assert sample.data["from"] == "child"
            assert np.array_equal(sample.data["data"], np.arange(1000))
            assert not sample.header.publisher.startswith(parent)

    elsewhere.run(run)


def test_a_child_hears_its_parent(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with tb.Publisher("topic", history=1) as publisher:
            publisher.publish(np.arange(1000))

            def child() -> None:
                with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
                    assert np.array_equal(subscriber.receive().data, np.arange(1000))

            in_a_fork(child)

    elsewhere.run(run)


def test_the_end_of_a_child_costs_its_parent_nothing(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with joined() as (publisher, subscriber):
            publisher.publish(np.full(10_000, 7, np.uint8))
            received = subscriber.receive().data
            publisher.publish("in the queue")
            loan = publisher.loan(100, dtype="uint8")
            loan[:] = 8

            for _ in range(3):
                child = os.fork()
                if child == 0:
                    sys.exit()  # out of the block, and through the end of an interpreter
                assert os.waitpid(child, 0)[1] == 0
            assert (received == 7).all()
            assert publisher.stats["bytes_in_flight"] >= 10_000
            assert subscriber.receive().data == "in the queue"
            publisher.publish(loan)
            assert (subscriber.receive().data == 8).all()
            del received

    elsewhere.run(run)


def test_a_child_still_reads_what_its_parent_received(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with joined() as (publisher, subscriber):
            publisher.publish(np.arange(1000))
            received = subscriber.receive().data

            def child() -> None:
                assert np.array_equal(received, np.arange(1000))

            in_a_fork(child)

    elsewhere.run(run)


def publish_in_a_worker(topic: str, number: int) -> None:
    with tb.Publisher(topic) as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish({"id": number, "data": np.full(1000, number)})


def receive_from_workers(method: str) -> None:
    context = multiprocessing.get_context(method)
    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        workers = [
            context.Process(target=publish_in_a_worker, args=("topic", number))
            for number in range(2)
        ]
        for worker in workers:
            worker.start()
        received = [subscriber.receive().data for _ in workers]
        for worker in workers:
            worker.join(PATIENCE)
            assert worker.exitcode == 0
    assert {data["id"] for data in received} == {0, 1}
    for data in received:
        assert (data["data"] == data["id"]).all()


def test_workers_that_multiprocessing_spawns_are_heard(elsewhere: Elsewhere) -> None:
    elsewhere.run(receive_from_workers, "spawn")


def test_workers_that_multiprocessing_forks_are_heard(elsewhere: Elsewhere) -> None:
    elsewhere.run(receive_from_workers, "fork")
