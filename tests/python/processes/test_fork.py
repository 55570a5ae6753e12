"""A forked child leaves everything to its parent and makes its own."""

from __future__ import annotations

import asyncio
import gc
import glob
import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, in_a_fork, joined

# GCC 12's address sanitizer does not take the locks of its allocator around a fork: a child of a
# process with threads may wait for one for ever.
pytestmark = pytest.mark.skipif(SANITIZED, reason="its allocator cannot be forked beside threads")


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
                    assert "make a new one in the child" in told

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


def test_workers_of_a_forkserver_are_heard(elsewhere: Elsewhere) -> None:
    elsewhere.run(receive_from_workers, "forkserver")


CODES = {"an error": 1, "SIGKILL": -signal.SIGKILL, "SIGTERM": -signal.SIGTERM}


def collect_and_end(end: str) -> None:
    """What the interpreter of a child does with all that it inherited, and then an end."""
    sys.stderr = None  # type: ignore[assignment]  # the error is meant
    gc.collect()
    if end == "os._exit":
        os._exit(0)
    elif end == "sys.exit":
        sys.exit()
    elif end == "an error":
        raise ArithmeticError
    elif end == "SIGKILL":
        signal.raise_signal(signal.SIGKILL)
    elif end == "SIGTERM":
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("end", ["os._exit", "sys.exit", *CODES])
@pytest.mark.parametrize("access", ["read", "private"])
def test_no_end_of_a_child_costs_its_parent_anything(
    elsewhere: Elsewhere, end: str, access: Any
) -> None:
    def run(end: str, access: Any, code: int) -> None:
        with joined(subscriber={"access": access}, publisher={"reliable": True, "depth": 4}) as (
            publisher,
            subscriber,
        ):
            publisher.publish({"a": np.full(10_000, 7), "b": [np.full(10_000, 8)]})
            publisher.publish(np.full(10_000, 9))
            publisher.publish("in the queue")
            held = [subscriber.receive(), subscriber.receive().data]
            data = held[0].data
            loan = publisher.loan(1000, dtype="uint8")
            before = (publisher.stats, subscriber.stats, tb.participant().arena)

            child = os.fork()
            if child == 0:
                held.clear()
                del data, loan
                collect_and_end(end)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code

            # That the child has ended is an event of its own.
            eventually(
                lambda: (publisher.stats, subscriber.stats, tb.participant().arena) == before
            )
            assert (data["a"] == 7).all()
            assert (data["b"][0] == 8).all()
            assert (held[1] == 9).all()
            loan[:] = 10
            publisher.publish(loan)
            assert subscriber.receive().data == "in the queue"
            assert (subscriber.receive().data == 10).all()
            held.clear()
            del data, loan
            assert subscriber.stats["held"] == 0
            assert publisher.stats["bytes_in_flight"] == 0

    elsewhere.run(run, end, access, CODES.get(end, 0))


def test_a_tensor_can_be_read_in_a_child_of_a_child(elsewhere: Elsewhere, torch: object) -> None:
    def run() -> None:
        import torch

        with joined() as (publisher, subscriber):
            publisher.publish({"a": np.arange(1000), "t": torch.arange(1000)})
            sample = subscriber.receive()

            def read() -> None:
                assert np.array_equal(sample.data["a"], np.arange(1000))
                assert torch.equal(sample.data["t"], torch.arange(1000))
                assert np.array_equal(sample.copy().data["a"], np.arange(1000))

            def child() -> None:
                read()
                in_a_fork(read)

            in_a_fork(child)
            assert subscriber.stats["held"] == 1

    elsewhere.run(run)


def test_a_child_that_forks_again_has_three_generations_talk(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
            ids = [tb.participant().id]

            def publish(generation: int) -> None:
                assert tb.participant().id not in ids
                ids.append(tb.participant().id)
                with tb.Publisher("topic") as publisher:
                    assert publisher.wait_for_subscribers(timeout=PATIENCE)
                    publisher.publish(np.full(1000, generation))
                    if generation < 3:
                        in_a_fork(lambda: publish(generation + 1))
                    publisher.publish(-generation)

            in_a_fork(lambda: publish(1))
            received = [subscriber.receive().data for _ in range(6)]
            arrays = [int(data[0]) for data in received if isinstance(data, np.ndarray)]
            numbers = [data for data in received if isinstance(data, int)]
            assert sorted(arrays) == [1, 2, 3]
            assert sorted(numbers) == [-3, -2, -1]

    elsewhere.run(run)


def test_a_fork_before_the_first_use_shares_nothing(elsewhere: Elsewhere) -> None:
    def run() -> None:
        def child() -> None:
            with tb.Publisher("topic", history=1) as publisher:
                publisher.publish(1)
                os.write(told, tb.participant().id.encode())

        heard, told = os.pipe()
        in_a_fork(child)
        in_a_fork(child)
        assert len({os.read(heard, 32), os.read(heard, 32), tb.participant().id.encode()}) == 3

    elsewhere.run(run)


def test_forks_while_other_threads_publish_and_receive(elsewhere: Elsewhere) -> None:
    """At whatever instruction those threads are, the child can make its own and be heard."""

    def run() -> None:
        def publish() -> None:
            while not done:
                publisher.publish({"a": np.full(1000, 5), "b": np.full(10, 6)}, timeout=PATIENCE)

        def receive() -> None:
            for sample in subscriber:
                assert (sample.data["a"] == 5).all()
                taken.append(sample.header.sequence)

        def make_and_drop() -> None:
            while not done:
                with tb.Publisher("other", history=1), tb.Subscriber("other"):
                    publisher.loan(1000, np.float32)

        def child() -> None:
            with tb.Publisher("from a child") as mine:
                assert mine.wait_for_subscribers(timeout=PATIENCE)
                mine.publish(np.full(100, os.getpid()))

        done = False
        taken: list[int] = []
        with (
            joined(publisher={"reliable": True, "depth": 4}) as (publisher, subscriber),
            tb.Subscriber("from a child", depth=200, timeout=PATIENCE) as hearing,
        ):
            threads = [threading.Thread(target=f) for f in (publish, receive, make_and_drop)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(40):
                    in_a_fork(child)
                    sample = hearing.receive()
                    assert (sample.data == sample.data[0]).all()
            finally:
                done = True
            before = len(taken)
            threads[0].join(PATIENCE)
            threads[2].join(PATIENCE)
            eventually(lambda: len(taken) == publisher.stats["sent"])
            assert before > 0
            subscriber.close()
            threads[1].join(PATIENCE)
            assert taken == list(range(len(taken)))
            # The last child may have inherited some of it: its end is an event of its own.
            eventually(lambda: publisher.stats["bytes_in_flight"] == 0)

    elsewhere.run(run)


def test_forks_in_a_program_with_a_loop(elsewhere: Elsewhere) -> None:
    """The child leaves its parent's loop alone, and may run one of its own."""

    def run() -> None:
        async def publish_from_a_loop() -> None:
            async with tb.AsyncSubscriber("answer", timeout=PATIENCE) as answers:
                with tb.Publisher("question") as publisher:
                    assert await answers.wait_for_publishers(timeout=PATIENCE)
                    assert publisher.wait_for_subscribers(timeout=PATIENCE)
                    publisher.publish(os.getpid())
                    assert (await answers.receive()).data == -os.getpid()

        async def main() -> None:
            async with tb.AsyncSubscriber("question", timeout=PATIENCE) as subscriber:
                with tb.Publisher("answer") as publisher:
                    for _ in range(5):
                        receiving = asyncio.ensure_future(subscriber.receive())
                        joining = asyncio.ensure_future(subscriber.wait_for_publishers(2))
                        await asyncio.sleep(0)
                        child = os.fork()
                        if child == 0:
                            code = 1
                            try:
                                asyncio.events._set_running_loop(None)
                                asyncio.run(publish_from_a_loop())
                                code = 0
                            finally:
                                os._exit(code)
                        asked = (await receiving).data
                        assert asked == child
                        publisher.publish(-asked)
                        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                        joining.cancel()

        asyncio.run(main())

    elsewhere.run(run)


def test_a_pool_of_forked_workers_answers(elsewhere: Elsewhere) -> None:
    def run() -> None:
        with tb.Subscriber("topic", timeout=PATIENCE) as subscriber, joined("warm") as (warm, held):
            warm.publish(np.full(1000, 7))
            data = held.receive().data
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.starmap(publish_in_a_worker, [("topic", number) for number in range(6)])
            received = [subscriber.receive().data for _ in range(6)]
            assert sorted(message["id"] for message in received) == list(range(6))
            assert (data == 7).all()
            assert held.stats["held"] == 1

    elsewhere.run(run)


def test_a_child_holds_no_descriptor_of_its_parent(elsewhere: Elsewhere) -> None:
    def run() -> None:
        def descriptors() -> set[str]:
            return {os.readlink(entry) for entry in glob.glob("/proc/self/fd/*") if exists(entry)}

        def exists(entry: str) -> bool:
            return os.path.lexists(entry)

        def child() -> None:
            more = descriptors() - before
            assert len(more) <= 2, "the pipes by which the parent, and owners, see its end"
            assert all(name.startswith("pipe:") for name in more)

        before = descriptors()
        with joined() as (publisher, subscriber):
            subscriber.fileno()
            publisher.publish(np.zeros(1000))
            held = subscriber.receive()
            assert not descriptors() <= before
            in_a_fork(child)
            del held

    elsewhere.run(run)
