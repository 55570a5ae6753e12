"""What waiting costs an event loop."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from contextlib import ExitStack
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere
from support.loops import (
    Run,
    found,
    left_over,
    new_loop,
    next_of,
    receive_in_turn,
    started,
    turns,
)
from tensorbus._aio.loop_poller import LoopPoller, Wait

epoll = select.epoll


class Wakes:
    """How often the loops heard of anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        before = LoopPoller._on_ready

        def on_ready(poller: LoopPoller) -> None:
            self.count += 1
            before(poller)

        monkeypatch.setattr(LoopPoller, "_on_ready", on_ready)


class CountedEpoll:
    """How often loops asked the kernel to watch a descriptor, or to stop it."""

    asked = 0

    def __init__(self) -> None:
        self._epoll = epoll()
        self.fileno = self._epoll.fileno
        self.poll = self._epoll.poll

    def register(self, descriptor: int, events: int) -> None:
        CountedEpoll.asked += 1
        self._epoll.register(descriptor, events)

    def unregister(self, descriptor: int) -> None:
        CountedEpoll.asked += 1
        self._epoll.unregister(descriptor)


def threads() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/task"))


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


def test_a_task_that_receives_on_and_on_is_watched_for_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedEpoll, "asked", 0)
    monkeypatch.setattr("tensorbus._aio.loop_poller.select.epoll", CountedEpoll)

    async def main() -> None:
        with found() as (publisher, subscriber):
            await receive_in_turn(publisher, subscriber)
            assert CountedEpoll.asked == 1

    run(main())


class Timers:
    """What a loop was asked to do later."""

    def __init__(self, loop: Any) -> None:
        self.set = 0
        call_at = loop.call_at

        def spy(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
            self.set += 1
            timer: asyncio.TimerHandle = call_at(*arguments, **options)
            return timer

        loop.call_at = spy


def test_waits_of_one_length_share_a_timer(run: Run) -> None:
    async def main() -> None:
        with found() as (publisher, subscriber):
            timers = Timers(asyncio.get_running_loop())
            await receive_in_turn(publisher, subscriber)
            assert timers.set == 1

    run(main())


def test_each_wait_ends_when_its_own_time_is_up(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ended: list[float] = []

        async def wait(seconds: float) -> None:
            before = loop.time()
            with pytest.raises(tb.Timeout):
                await subscriber.receive(seconds)
            assert loop.time() - before > seconds - 0.002  # loops count in milliseconds, some
            ended.append(seconds)

        with found() as (publisher, subscriber):
            receiving = await started(next_of(subscriber, 0.04))
            publisher.publish(1)
            assert await receiving == 1
            # The timer of that wait is still there: too early for some, too late for others.
            waits = [await started(wait(seconds)) for seconds in (0.3, 0.1, 0.2, 0.02, PATIENCE)]
            await asyncio.gather(*waits[:-1])
            assert ended == [0.02, 0.1, 0.2, 0.3]
            publisher.close()
            assert not waits[-1].done()
            waits[-1].cancel()

    run(main())


def test_a_loop_in_which_nobody_waits_any_more_is_not_woken(
    loop_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakes = Wakes(monkeypatch)
    loop = new_loop(loop_kind)
    with found() as (publisher, subscriber):

        async def take() -> int:
            receiving = await started(next_of(subscriber))
            publisher.publish(7)
            return int(await receiving)

        assert loop.run_until_complete(take()) == 7
        before = wakes.count
        for number in range(20):
            assert left_over(subscriber) == []  # and asks to be told of the next
            publisher.publish(number)
            loop.run_until_complete(turns())
            assert left_over(subscriber) == [number]
        assert wakes.count - before < 5  # not for every sample
    loop.close()


def test_a_descriptor_with_the_number_of_a_closed_one_is_watched(run: Run) -> None:
    async def main() -> None:
        numbers = set()
        for number in range(5):
            with found() as (publisher, subscriber):
                receiving = await started(next_of(subscriber))
                publisher.publish(number)
                assert await receiving == number
                numbers.add(subscriber.fileno())
            del publisher, subscriber, receiving
            await turns()
        assert len(numbers) < 5  # else this has shown nothing

    run(main())


def test_one_without_an_owner_and_with_the_number_of_a_closed_one_is_watched(run: Run) -> None:
    class Owner:
        """Of a descriptor that it has closed."""

    async def main() -> None:
        first, other_end = os.pipe()
        owner = Owner()
        with Wait(first, None, owner):
            pass
        os.close(first)
        del owner
        second, end = os.pipe()
        assert second == first
        with Wait(second, None) as wait:
            os.write(end, b"x")
            await asyncio.wait_for(wait.woken(), PATIENCE)
        for descriptor in (second, end, other_end):
            os.close(descriptor)

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


def test_the_package_imports_asyncio_only_for_who_uses_it(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import sys

        import tensorbus

        assert "asyncio" not in sys.modules
        tensorbus.AsyncSubscriber("topic").close()
        assert "asyncio" in sys.modules

    elsewhere.run(look)
