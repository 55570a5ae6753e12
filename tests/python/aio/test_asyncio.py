"""Receiving in event loops: asyncio's own and uvloop's."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, joined, tell
from support.loops import Run, found, next_of, receive_in_turn, started, turns


def test_a_sample_that_is_there_is_received(run: Run) -> None:
    with found() as (publisher, subscriber):
        publisher.publish({"id": 7})
        assert run(next_of(subscriber)) == {"id": 7}


def test_a_sample_that_comes_later_is_received(run: Run) -> None:
    async def main() -> None:
        with found() as (publisher, subscriber):
            await receive_in_turn(publisher, subscriber)

    run(main())


def test_a_receive_without_samples_ends_in_a_timeout(run: Run) -> None:
    async def main() -> None:
        with found() as (_, subscriber):
            for timeout in (0, 0.01, -1):
                with pytest.raises(tb.Timeout, match="no sample on 'topic'"):
                    await subscriber.receive(timeout)
            with pytest.raises(tb.InvalidArgument, match="timeout=nan"):
                await subscriber.receive(float("nan"))

    run(main())


def test_a_subscriber_has_a_timeout_of_its_own(run: Run) -> None:
    async def main() -> None:
        with found(subscriber={"timeout": 0.01}) as (publisher, subscriber):
            with pytest.raises(TimeoutError):
                await subscriber.receive()
            publisher.publish(1)
            assert (await subscriber.receive(0)).data == 1

    run(main())


@pytest.mark.parametrize("forever", [None, 1e12, float("inf")])
def test_a_receive_may_wait_forever(run: Run, forever: float | None) -> None:
    async def main() -> None:
        with found(subscriber={"timeout": None}) as (publisher, subscriber):
            receiving = await started(next_of(subscriber, forever))
            publisher.publish(1)
            assert await receiving == 1

    run(main())


def test_a_full_hold_is_told(run: Run) -> None:
    async def main() -> None:
        with found(subscriber={"max_held": 1}) as (publisher, subscriber):
            receiving = await started(subscriber.receive())
            publisher.publish(np.zeros(100))
            held = await receiving
            publisher.publish(np.ones(100))
            with pytest.raises(tb.HoldLimit):
                await subscriber.receive()
            with pytest.raises(tb.HoldLimit):
                subscriber.try_receive()
            del held, receiving
            await turns()  # the loop lets go of the task
            assert (await subscriber.receive()).data.all()

    run(main())


def test_try_receive_never_waits() -> None:
    with found() as (publisher, subscriber):
        assert subscriber.try_receive() is None
        publisher.publish(1)
        sample = subscriber.try_receive()
        assert sample is not None
        assert sample.data == 1


def test_spinning_finds_what_is_there_and_what_comes_later(run: Run) -> None:
    async def main() -> None:
        with found(subscriber={"spin": 1e-5}) as (publisher, subscriber):
            publisher.publish(0)
            assert (await subscriber.receive()).data == 0
            receiving = await started(next_of(subscriber))
            publisher.publish(1)
            assert await receiving == 1
            with pytest.raises(tb.Timeout):
                await subscriber.receive(0)

    run(main())


def test_a_thousand_samples_of_another_process_come_in_order(
    run: Run, elsewhere: Elsewhere
) -> None:
    def publish() -> None:
        with tb.Publisher("topic", reliable=True, depth=4, timeout=PATIENCE) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(1000):
                publisher.publish(number)
            hear()

    async def main() -> list[int]:
        async with tb.AsyncSubscriber("topic", timeout=PATIENCE) as subscriber:
            other = elsewhere.start(publish)
            received = [(await subscriber.receive()).data for _ in range(1000)]
            other.tell()
            return received

    assert run(main()) == list(range(1000))


def test_async_for_ends_when_no_sample_comes_in_time(run: Run) -> None:
    async def main() -> None:
        with found(subscriber={"timeout": 0.01}) as (publisher, subscriber):
            for number in range(3):
                publisher.publish(number)
            assert [sample.data async for sample in subscriber] == [0, 1, 2]
            assert [sample.data async for sample in subscriber] == []
            publisher.publish(3)
            assert [sample.data async for sample in subscriber] == [3]

    run(main())


def test_async_for_ends_when_the_subscriber_is_closed(run: Run) -> None:
    async def main() -> None:
        with found() as (publisher, subscriber):
            for number in range(3):
                publisher.publish(number)
            received = []
            async for sample in subscriber:
                received.append(sample.data)
                if sample.data == 1:
                    subscriber.close()
            assert received == [0, 1]

    run(main())


def test_async_for_works_on_a_plain_subscriber(run: Run) -> None:
    async def take(subscriber: tb.Subscriber) -> list[int]:
        return [sample.data async for sample in subscriber]

    async def main() -> None:
        with joined(subscriber={"timeout": None}) as (publisher, subscriber):
            publisher.publish(0)
            receiving = await started(take(subscriber))
            for number in (1, 2):
                publisher.publish(number)
                while subscriber.stats["received"] <= number:
                    await asyncio.sleep(0)
            subscriber.close()
            assert await receiving == [0, 1, 2]

    run(main())


def test_a_closed_subscriber_says_so(run: Run) -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("topic") as subscriber:
            assert repr(subscriber) == "<tensorbus.AsyncSubscriber 'topic' publishers=0>"
        subscriber.close()
        assert repr(subscriber) == "<tensorbus.AsyncSubscriber 'topic' closed>"
        assert subscriber.topic == "topic"
        assert subscriber.stats["received"] == 0
        with pytest.raises(tb.Closed):
            await subscriber.receive()
        with pytest.raises(tb.Closed):
            subscriber.try_receive()
        with pytest.raises(tb.Closed):
            await subscriber.wait_for_publishers()
        assert [sample async for sample in subscriber] == []

    run(main())


def test_a_killed_publisher_is_replaced_by_its_successor(run: Run, elsewhere: Elsewhere) -> None:
    def publish(number: int) -> None:
        with tb.Publisher("topic") as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(number)
            tell("published")
            hear()

    async def main() -> None:
        async with tb.AsyncSubscriber("topic", timeout=PATIENCE) as subscriber:
            for number in range(3):
                receiving = await started(next_of(subscriber))
                other = elsewhere.start(publish, number)
                assert await receiving == number
                assert other.hear() == "published"
                receiving = await started(next_of(subscriber))
                other.kill()
                while subscriber.stats["publishers"]:
                    await asyncio.sleep(0)
                successor = elsewhere.start(publish, -number)
                assert await receiving == -number
                successor.tell()
                successor.finish()

    run(main())
