"""Event loops of both kinds, and tasks in them, for the tests of what waits there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE, eventually

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


async def receive_in_turn(publisher: tb.Publisher, subscriber: tb.AsyncSubscriber) -> None:
    """Samples that are awaited before they are published, one after the other."""
    for number in range(20):
        receiving = await started(next_of(subscriber))
        publisher.publish(number)
        assert await receiving == number


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def results(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    """What came of tasks that may have been cancelled."""
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for result in ended:
        assert not isinstance(result, Exception), result
    return [result for result in ended if not isinstance(result, asyncio.CancelledError)]


def left_over(subscriber: tb.AsyncSubscriber) -> list[Any]:
    return [sample.data for sample in iter(subscriber.try_receive, None)]
