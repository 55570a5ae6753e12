"""Receiving in event loops: asyncio's own and uvloop's."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import select
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, eventually, hear, joined, tell
from tensorbus._loop_poller import LoopPoller

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def runner(kind: str) -> Run:
    if kind == "asyncio":
        return asyncio.run
    import uvloop

    run: Run = uvloop.run
    return run


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    if kind == "asyncio":
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@pytest.fixture(params=["asyncio", "uvloop"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    if kind == "uvloop":
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return kind


@pytest.fixture(name="run")
def run_in_loop(kind: str) -> Run:
    return runner(kind)


@contextmanager
def found(
    topic: str = "topic",
    *,
    publisher: Mapping[str, Any] | None = None,
    subscriber: Mapping[str, Any] | None = None,
) -> Iterator[tuple[tb.Publisher, tb.AsyncSubscriber]]:
    """A publisher and a subscriber in this process that have found each other."""
    with (
        tb.Publisher(topic, **(publisher or {})) as sender,
        tb.AsyncSubscriber(topic, **{"timeout": PATIENCE, **(subscriber or {})}) as receiver,
    ):
        assert sender.wait_for_subscribers(timeout=PATIENCE)
        eventually(lambda: receiver.stats["publishers"] == 1)
        yield sender, receiver


async def turns(count: int = 3) -> None:
    """Lets the other tasks run until they wait."""
    for _ in range(count):
        await asyncio.sleep(0)


async def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that has come to its first wait."""
    task = asyncio.ensure_future(coroutine)
    await turns()
    assert not task.done()
    return task


async def next_of(subscriber: tb.AsyncSubscriber, timeout: float | None = None) -> Any:
    return (await subscriber.receive(timeout)).data


class Wakes:
    """How often the loops heard of anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        before = LoopPoller._on_ready

        def on_ready(poller: LoopPoller) -> None:
            self.count += 1
            before(poller)

        monkeypatch.setattr(LoopPoller, "_on_ready", on_ready)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/task"))


def test_a_sample_that_is_there_is_received(run: Run) -> None:
    with found() as (publisher, subscriber):
        publisher.publish({"id": 7})
        assert run(next_of(subscriber)) == {"id": 7}


def test_a_sample_that_comes_later_is_received(run: Run) -> None:
    async def main() -> None:
        with found() as (publisher, subscriber):
            for number in range(20):
                receiving = await started(next_of(subscriber))
                publisher.publish(number)
                assert await receiving == number

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


def test_fifty_topics_share_one_descriptor_and_need_no_thread(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watched = []
        add_reader = loop.add_reader

        def spy(descriptor: Any, *arguments: Any) -> None:
            watched.append(descriptor)
            add_reader(descriptor, *arguments)

        loop.add_reader = spy  # type: ignore[method-assign, assignment]
        with ExitStack() as stack:
            pairs = [stack.enter_context(found(f"topic/{n}")) for n in range(50)]
            before = threads()
            for round_ in range(5):
                receiving = [await started(next_of(s)) for _, s in pairs]
                for number, (publisher, _) in enumerate(pairs):
                    publisher.publish((round_, number))
                assert await asyncio.gather(*receiving) == [(round_, n) for n in range(50)]
            assert threads() == before
        assert len(watched) == 1

    run(main())


def test_the_loop_rests_while_nobody_publishes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wakes = Wakes(monkeypatch)

    async def main() -> None:
        with found() as (publisher, subscriber):
            receiving = await started(next_of(subscriber))
            await turns(100)
            before = wakes.count
            await turns(1000)
            await asyncio.sleep(0.05)
            assert wakes.count - before < 10  # not once in every turn of the loop
            publisher.publish(1)
            assert await receiving == 1
            after = wakes.count
            publisher.publish(2)  # nobody waits for it
            await turns(1000)
            await asyncio.sleep(0.05)
            assert wakes.count - after < 10

    run(main())


def test_the_loop_rests_beside_a_sample_that_nobody_takes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakes = Wakes(monkeypatch)

    async def main() -> None:
        with found() as (publisher, subscriber):
            publisher.publish(1)
            joining = await started(subscriber.wait_for_publishers(2))
            await turns(100)
            before = wakes.count
            await turns(1000)
            await asyncio.sleep(0.05)
            assert wakes.count - before < 10  # not once in every turn of the loop
            with tb.Publisher("topic"):
                assert await joining
            assert (await subscriber.receive()).data == 1

    run(main())


def test_the_other_tasks_have_their_turns_in_a_flood(run: Run) -> None:
    async def main() -> None:
        with found(publisher={"depth": 1000}) as (publisher, subscriber):
            for number in range(1000):
                publisher.publish(number)
            passed = 0

            async def others() -> None:
                nonlocal passed
                while True:
                    await asyncio.sleep(0)
                    passed += 1

            other = asyncio.ensure_future(others())
            assert [(await subscriber.receive()).data for _ in range(1000)] == list(range(1000))
            assert passed >= 10
            other.cancel()

    run(main())


async def results(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    """What came of tasks that may have been cancelled."""
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for result in ended:
        assert not isinstance(result, Exception), result
    return [result for result in ended if not isinstance(result, asyncio.CancelledError)]


def left_over(subscriber: tb.AsyncSubscriber) -> list[Any]:
    return [sample.data for sample in iter(subscriber.try_receive, None)]


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


def test_a_loop_that_ends_leaves_no_descriptor(run: Run) -> None:
    async def main(publisher: tb.Publisher, subscriber: tb.AsyncSubscriber) -> None:
        receiving = await started(next_of(subscriber))
        forsaken = await started(subscriber.receive())
        publisher.publish(1)
        assert await receiving == 1
        with pytest.raises(tb.Timeout):
            await subscriber.receive(0)
        assert not forsaken.done()  # left to the end of the loop

    with found() as (publisher, subscriber):
        run(main(publisher, subscriber))
        before = open_files()
        for _ in range(50):
            run(main(publisher, subscriber))
            assert open_files() == before


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_is_closed_over_its_tasks_leaves_no_descriptor(kind: str) -> None:
    def close_over(publisher: tb.Publisher, subscriber: tb.AsyncSubscriber) -> None:
        loop = new_loop(kind)
        loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending!"
        tasks = [
            loop.create_task(subscriber.receive()),
            loop.create_task(subscriber.receive(PATIENCE)),
            loop.create_task(subscriber.wait_for_publishers(2)),
        ]
        loop.run_until_complete(turns())
        loop.close()
        del tasks
        # It is none of their business any more, and they of nobody's.
        publisher.publish(1)
        sample = subscriber.try_receive()
        assert sample is not None
        assert subscriber.try_receive() is None

    with found() as (publisher, subscriber):
        close_over(publisher, subscriber)
        gc.collect()
        before = open_files()
        for _ in range(20):
            close_over(publisher, subscriber)
        gc.collect()
        assert open_files() == before


def test_a_wait_without_a_descriptor_left_is_an_error_of_the_bus_and_loses_nothing(
    kind: str, elsewhere: Elsewhere
) -> None:
    def run_out(kind: str) -> None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

        async def main() -> None:
            async with tb.AsyncSubscriber("topic", timeout=PATIENCE) as subscriber:
                before = open_files()
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
                for wait in (subscriber.receive, subscriber.wait_for_publishers):
                    try:
                        await wait()
                    except tb.OutOfMemory as error:
                        tell("RLIMIT_NOFILE is 3" in str(error))
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                eventually(lambda: open_files() <= before)  # the bus has some for a moment
                with tb.Publisher("topic") as publisher:
                    assert await subscriber.wait_for_publishers(timeout=PATIENCE)
                    publisher.publish(7)
                    tell((await subscriber.receive()).data)

        runner(kind)(main())

    other = elsewhere.start(run_out, kind)
    assert [other.hear() for _ in range(3)] == [True, True, 7]
    code, errors = other.end()
    # The bus's own thread may have looked for something meanwhile, and said why it could not: with
    # the limit as it is when it says so.
    assert code == 0
    assert not errors or "RLIMIT_NOFILE is" in errors


def test_ctrl_c_ends_the_loop(kind: str, elsewhere: Elsewhere) -> None:
    def receive(kind: str) -> None:
        async def main() -> None:
            async with tb.AsyncSubscriber("topic") as subscriber:
                tell("ready")
                await subscriber.receive()

        try:
            runner(kind)(main())
        except KeyboardInterrupt:
            tell("interrupted")

    other = elsewhere.start(receive, kind)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"


def test_a_child_that_leaves_a_wait_takes_nothing_from_its_parent(
    kind: str, elsewhere: Elsewhere
) -> None:
    def fork_while_waiting(kind: str) -> None:
        async def main() -> None:
            with tb.Publisher("topic") as publisher:
                async with tb.AsyncSubscriber("topic") as subscriber:
                    assert publisher.wait_for_subscribers(timeout=PATIENCE)
                    receiving = asyncio.ensure_future(subscriber.receive())
                    for _ in range(3):
                        await asyncio.sleep(0)
                    child = os.fork()
                    if child == 0:
                        # As the child's garbage collector would.
                        receiving.get_coro().close()
                        os._exit(0)
                    assert os.waitpid(child, 0)[1] == 0
                    publisher.publish(7)
                    tell((await receiving).data)

        runner(kind)(main())

    other = elsewhere.start(fork_while_waiting, kind)
    assert other.hear() == 7


def test_the_descriptor_tells_poll_about_samples() -> None:
    with found() as (publisher, subscriber):
        poll = select.poll()
        poll.register(subscriber.fileno(), select.POLLIN)
        assert subscriber.try_receive() is None
        for number in range(20):
            assert poll.poll(0) == []
            publisher.publish(number)
            assert poll.poll(PATIENCE * 1000)
            assert left_over(subscriber) == [number]


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


def test_the_package_imports_asyncio_only_for_who_uses_it(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import sys

        import tensorbus

        assert "asyncio" not in sys.modules
        assert tensorbus.AsyncSubscriber.__name__ == "AsyncSubscriber"
        assert "asyncio" in sys.modules

    elsewhere.run(look)
