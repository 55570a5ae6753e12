"""Publishing in an event loop, which goes on while a reliable publisher waits for room."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.loops import Run, started, turns


@asynccontextmanager
async def full(**options: Any) -> AsyncIterator[tuple[tb.AsyncPublisher, tb.Subscriber]]:
    """A reliable publisher and a subscriber without room."""
    given = {"depth": 1, "reliable": True, "timeout": PATIENCE, **options}
    async with tb.AsyncPublisher("topic", **given) as publisher:
        with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
            assert await publisher.wait_for_subscribers(timeout=PATIENCE)
            assert await publisher.publish(0) == 1
            yield publisher, subscriber


def test_the_loop_goes_on_while_a_task_waits_for_room(run: Run) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            waiting = await started(publisher.publish(1))
            await turns(20)
            assert not waiting.done()
            assert subscriber.receive().data == 0
            assert await waiting == 1
            assert subscriber.receive().data == 1

    run(main())


def take_slowly() -> None:
    with tb.Subscriber("topic", timeout=PATIENCE, end_of_stream=True) as subscriber:
        tell([sample.data for sample in subscriber])


def test_a_subscriber_of_another_process_loses_nothing(run: Run, elsewhere: Elsewhere) -> None:
    async def main() -> None:
        async with tb.AsyncPublisher("topic", depth=2, reliable=True) as publisher:
            reader = elsewhere.start(take_slowly)
            assert await publisher.wait_for_subscribers(timeout=PATIENCE)
            for number in range(2000):
                await publisher.publish(number)
        assert reader.hear() == list(range(2000))

    run(main())


def test_tasks_publish_in_the_order_in_which_they_were_started(run: Run) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            tasks = [await started(publisher.publish(number)) for number in range(1, 6)]
            received = []
            for _ in range(6):
                received.append((await asyncio.to_thread(subscriber.receive)).data)
            assert await asyncio.gather(*tasks) == [1] * 5
            assert received == [0, 1, 2, 3, 4, 5]

    run(main())


def test_a_call_that_does_not_wait_overtakes_no_task_that_waits(run: Run) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            first = await started(publisher.publish("first"))
            assert subscriber.receive().data == 0  # there is room now, and the task has not run
            with pytest.raises(tb.Timeout, match="had no room in time"):
                await publisher.publish("second", timeout=0)
            assert await first == 1
            assert subscriber.receive().data == "first"

    run(main())


def test_a_cancelled_task_has_published_nothing_and_lets_the_next_one_go(run: Run) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            first = await started(publisher.publish("cancelled"))
            second = await started(publisher.publish("second"))
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert subscriber.receive().data == 0
            assert await second == 1
            assert subscriber.receive().data == "second"
            assert subscriber.try_receive() is None

    run(main())


@pytest.mark.parametrize("timeout", [0, 0.01, 0.25])
def test_a_timeout_gives_nobody_the_sample(run: Run, timeout: float) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            with pytest.raises(tb.Timeout, match="had no room in time"):
                await publisher.publish(1, timeout=timeout)
            assert subscriber.receive().data == 0
            assert subscriber.try_receive() is None
            assert await publisher.publish(2) == 1

    run(main())


def test_closing_ends_the_tasks_that_wait(run: Run) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            tasks = [await started(publisher.publish(number)) for number in range(2)]
            joining = await started(publisher.wait_for_subscribers(5))
            threading.Thread(target=publisher.close).start()
            for task in [*tasks, joining]:
                with pytest.raises(tb.Closed):
                    await task
            assert subscriber.receive().data == 0

    run(main())


def test_a_lagging_subscriber_is_cut_off_while_a_task_waits(run: Run) -> None:
    async def main() -> None:
        async with full(lag_timeout=0.15) as (publisher, _):
            assert await publisher.publish(1) == 0
            assert publisher.stats["cut_off"] == 1

    run(main())


def test_a_subscriber_that_is_killed_frees_the_task_that_waits_for_it(
    run: Run, elsewhere: Elsewhere
) -> None:
    def forget() -> None:
        subscriber = tb.Subscriber("topic")
        tell("ready")
        hear()
        del subscriber

    async def main() -> None:
        async with tb.AsyncPublisher("topic", depth=1, reliable=True) as publisher:
            idle = elsewhere.start(forget)
            assert await publisher.wait_for_subscribers(timeout=PATIENCE)
            await publisher.publish(0)
            waiting = await started(publisher.publish(1))
            idle.kill()
            assert await waiting == 0

    run(main())


def test_room_wakes_the_loop_by_the_descriptor() -> None:
    """Not only by the look that is due every 100 ms."""

    async def main() -> None:
        async with full() as (publisher, subscriber):
            before = asyncio.get_running_loop().time()
            for number in range(1, 51):
                waiting = await started(publisher.publish(number))
                await turns(3)
                assert subscriber.receive().data == number - 1
                assert await waiting == 1
            assert asyncio.get_running_loop().time() - before < 50 * 0.1

    asyncio.run(main())


def test_a_publisher_that_is_not_reliable_never_waits(run: Run) -> None:
    async def main() -> None:
        async with full(reliable=False) as (publisher, subscriber):
            for number in range(1, 4):
                assert await publisher.publish(number) == 1
            assert subscriber.receive().data == 3

    run(main())


def test_a_loan_is_published_without_a_copy(run: Run) -> None:
    async def main() -> None:
        async with full() as (publisher, subscriber):
            assert subscriber.receive().data == 0
            frame = publisher.loan((4096,), "uint8")
            frame[:] = 5
            await publisher.publish(frame)
            assert (subscriber.receive().data == 5).all()
            assert publisher.stats["bytes_copied"] == 0

    run(main())
