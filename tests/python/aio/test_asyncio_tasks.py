"""Tasks that share a subscriber, give up, and are told of its end and of publishers."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear
from support.loops import Run, found, left_over, next_of, results, started, turns


def test_a_storm_of_cancellations_loses_no_sample(run: Run) -> None:
    chance = random.Random(1)

    async def main() -> None:
        with found(publisher={"depth": 1000}) as (publisher, subscriber):
            tasks: list[asyncio.Task[Any]] = []
            for number in range(1000):
                tasks += [
                    asyncio.ensure_future(next_of(subscriber)) for _ in range(chance.randrange(3))
                ]
                await turns(chance.randrange(3))
                publisher.publish(number)
                await turns(chance.randrange(3))
                for task in chance.sample(tasks[-6:], min(len(tasks), chance.randrange(3))):
                    task.cancel()
            for task in tasks:
                task.cancel()
            received = await results(tasks)
            assert len(received) > 100
            assert len(received) < len(tasks)
            assert sorted(received + left_over(subscriber)) == list(range(1000))

    run(main())


@pytest.mark.parametrize("late", range(6))
def test_a_cancelled_task_keeps_no_wake_up_to_itself(run: Run, late: int) -> None:
    async def main() -> None:
        with found() as (publisher, subscriber):
            for number in range(20):
                first = await started(next_of(subscriber))
                second = await started(next_of(subscriber))
                publisher.publish(number)
                await turns(late)
                if first.cancel():
                    assert await second == number
                else:
                    assert await first == number
                    second.cancel()
                await results([first, second])

    run(main())


def test_wait_for_loses_no_sample(run: Run, elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with tb.Publisher("topic", reliable=True, timeout=PATIENCE) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(500):
                publisher.publish(number)
            hear()

    async def main() -> list[int]:
        chance = random.Random(1)
        received: list[int] = []
        async with tb.AsyncSubscriber("topic", depth=2) as subscriber:
            other = elsewhere.start(publish)
            assert await subscriber.wait_for_publishers(timeout=PATIENCE)
            while len(received) < 500:
                with suppress(asyncio.TimeoutError):
                    within = chance.choice([0, 1e-5, 1e-4, 1e-3])
                    received.append((await asyncio.wait_for(subscriber.receive(), within)).data)
            other.tell()
        return received

    assert run(main()) == list(range(500))


def test_two_tasks_share_one_subscriber(run: Run) -> None:
    async def main() -> None:
        with found(publisher={"depth": 1000}) as (publisher, subscriber):
            received: list[list[int]] = [[], []]

            async def take(mine: list[int]) -> None:
                async for sample in subscriber:
                    mine.append(sample.data)
                    await asyncio.sleep(0)

            taking = [await started(take(mine)) for mine in received]
            for number in range(200):
                publisher.publish(number)
                await turns(number % 4)
            while sum(map(len, received)) < 200:
                await asyncio.sleep(0)
            subscriber.close()
            await asyncio.gather(*taking)
            assert sorted(received[0] + received[1]) == list(range(200))
            assert all(mine and mine == sorted(mine) for mine in received)

    run(main())


def test_the_loops_of_two_threads_share_one_subscriber(run: Run, elsewhere: Elsewhere) -> None:
    count = 2000

    def publish(count: int) -> None:
        with tb.Publisher("topic", reliable=True, depth=4, timeout=PATIENCE) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(count):
                publisher.publish(number)
            hear()

    with tb.AsyncSubscriber("topic") as subscriber, ThreadPoolExecutor() as pool:
        received: list[int] = []

        async def take() -> None:
            async for sample in subscriber:
                received.append(sample.data)
                if len(received) == count:
                    subscriber.close()

        taking = [pool.submit(run, take()) for _ in range(2)]
        other = elsewhere.start(publish, count)
        for future in taking:
            future.result(2 * PATIENCE)
        other.tell()
    assert sorted(received) == list(range(count))


def test_closing_ends_what_waits_in_the_same_loop(run: Run) -> None:
    async def main() -> None:
        with found() as (_, subscriber):
            waiting = [
                await started(subscriber.receive()),
                await started(subscriber.receive()),
                await started(subscriber.wait_for_publishers(2)),
            ]
            subscriber.close()
            for task in waiting:
                with pytest.raises(tb.Closed):
                    await task

    run(main())


def test_closing_ends_what_waits_in_the_loop_of_another_thread(run: Run) -> None:
    with found() as (_, subscriber), ThreadPoolExecutor() as pool:
        waiting = threading.Event()

        async def main() -> None:
            receiving = await started(subscriber.receive())
            joining = await started(subscriber.wait_for_publishers(2))
            waiting.set()
            for task in (receiving, joining):
                with pytest.raises(tb.Closed):
                    await task

        running = pool.submit(run, main())
        assert waiting.wait(PATIENCE)
        subscriber.close()
        running.result(PATIENCE)


def test_waiting_for_publishers_ends_with_their_number_or_the_time(run: Run) -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("topic") as subscriber:
            assert await subscriber.wait_for_publishers(0)
            assert not await subscriber.wait_for_publishers(timeout=0)
            assert not await subscriber.wait_for_publishers(timeout=0.01)
            joining = await started(subscriber.wait_for_publishers(2))
            with tb.Publisher("topic"), tb.Publisher("topic"):
                assert await joining
                assert subscriber.stats["publishers"] == 2

    run(main())


def test_a_publisher_is_not_missed_by_who_waits_beside_others_that_look(run: Run) -> None:
    async def main(subscriber: tb.AsyncSubscriber) -> None:
        for _ in range(20):
            joining = await started(subscriber.wait_for_publishers(timeout=PATIENCE))
            with tb.Publisher("topic"):
                while not joining.done():
                    assert subscriber.try_receive() is None
                    await asyncio.sleep(0)
                assert await joining
            while subscriber.stats["publishers"]:
                await asyncio.sleep(0)

    def look(subscriber: tb.AsyncSubscriber) -> None:
        with suppress(tb.Closed):
            while True:
                subscriber.try_receive()

    with ThreadPoolExecutor() as pool, tb.AsyncSubscriber("topic") as subscriber:
        run(main(subscriber))
        looking = pool.submit(look, subscriber)  # and now in another thread
        run(main(subscriber))
        subscriber.close()
        looking.result(PATIENCE)


def test_asyncio_wait_tells_the_first_of_several_subscribers(run: Run) -> None:
    async def main() -> None:
        with found("a") as (_, a), found("b") as (publisher, b):
            receiving = {await started(next_of(a)), await started(next_of(b))}
            publisher.publish(7)
            done, waiting = await asyncio.wait(receiving, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [7]
            for task in waiting:
                task.cancel()

    run(main())
