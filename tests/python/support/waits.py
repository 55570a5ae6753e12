"""Every call of the package that waits, for the tests of what ends a wait.

Each makes what it needs, says so by `ready()`, and waits: for nothing that ever comes, until the
timeout. All on topics of their own names, so that any number of them can wait in one process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE

Ready = Callable[[], None]
Wait = Callable[[Ready, float | None], None]


def receive(ready: Ready, timeout: float | None) -> None:
    with tb.Subscriber("receive", timeout=timeout) as subscriber:
        ready()
        subscriber.receive()


def receive_beside_a_silent_publisher(ready: Ready, timeout: float | None) -> None:
    with tb.Publisher("silent"), tb.Subscriber("silent", timeout=timeout) as subscriber:
        assert subscriber.wait_for_publishers(timeout=PATIENCE)
        ready()
        subscriber.receive()


def receive_by_looking(ready: Ready, timeout: float | None) -> None:
    with tb.Subscriber("looking", timeout=timeout, spin=PATIENCE) as subscriber:
        ready()
        subscriber.receive()


def iterate(ready: Ready, timeout: float | None) -> None:
    with tb.Subscriber("iterate", timeout=timeout) as subscriber:
        ready()
        for _ in subscriber:
            pass


def wait_for_publishers(ready: Ready, timeout: float | None) -> None:
    with tb.Subscriber("alone") as subscriber:
        ready()
        subscriber.wait_for_publishers(timeout=timeout)


def wait_for_subscribers(ready: Ready, timeout: float | None) -> None:
    with tb.Publisher("alone too") as publisher:
        ready()
        publisher.wait_for_subscribers(timeout=timeout)


def wait_for_room(ready: Ready, timeout: float | None) -> None:
    options: Any = {"reliable": True, "depth": 1, "timeout": timeout}
    with tb.Publisher("full", **options) as publisher, tb.Subscriber("full"):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(1)
        ready()
        publisher.publish(2)


def wait_for_room_for_a_loan(ready: Ready, timeout: float | None) -> None:
    options: Any = {"reliable": True, "depth": 1}
    with tb.Publisher("loans", **options) as publisher, tb.Subscriber("loans"):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        loans = [publisher.loan(1000, dtype="float32") for _ in range(2)]
        publisher.publish(loans[0])
        ready()
        publisher.publish(loans[1], timeout=timeout)


def wait_for_any(ready: Ready, timeout: float | None) -> None:
    with tb.Subscriber("any/a") as a, tb.Subscriber("any/b") as b:
        ready()
        tb.wait_any([a, b], timeout)


def receive_a_set(ready: Ready, timeout: float | None) -> None:
    both = [tb.Subscriber("set/a"), tb.Subscriber("set/b")]
    with tb.TimeSynchronizer(both, tolerance=0) as sets:
        ready()
        sets.receive(timeout)


def await_a_sample(ready: Ready, timeout: float | None) -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("await", timeout=timeout) as subscriber:
            asyncio.get_running_loop().call_soon(ready)
            await subscriber.receive()

    asyncio.run(main())


def await_a_set(ready: Ready, timeout: float | None) -> None:
    async def main() -> None:
        both = [tb.Subscriber("await/a"), tb.Subscriber("await/b")]
        with tb.TimeSynchronizer(both, tolerance=0, timeout=timeout) as sets:
            asyncio.get_running_loop().call_soon(ready)
            await sets.receive_async()

    asyncio.run(main())


def await_publishers(ready: Ready, timeout: float | None) -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("await publishers") as subscriber:
            asyncio.get_running_loop().call_soon(ready)
            await subscriber.wait_for_publishers(timeout=timeout)

    asyncio.run(main())


def iterate_in_a_loop(ready: Ready, timeout: float | None) -> None:
    async def main() -> None:
        with tb.Subscriber("async for", timeout=timeout) as subscriber:
            asyncio.get_running_loop().call_soon(ready)
            async for _ in subscriber:
                pass

    asyncio.run(main())


BLOCKING: list[Wait] = [
    receive,
    receive_beside_a_silent_publisher,
    receive_by_looking,
    iterate,
    wait_for_publishers,
    wait_for_subscribers,
    wait_for_room,
    wait_for_room_for_a_loan,
    wait_for_any,
    receive_a_set,
]
IN_A_LOOP: list[Wait] = [await_a_sample, await_a_set, await_publishers, iterate_in_a_loop]
