"""Ends that a program chooses, wherever it does: their exit code, and what others still get."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.objects import everything, start_daemons
from support.waits import BLOCKING, IN_A_LOOP, receive

kept: list[Any] = []


def exit_at_once() -> None:
    held = everything()
    assert held
    os._exit(3)


def exit_at_once_in_a_thread() -> None:
    held = everything()
    assert held
    threading.Thread(target=os._exit, args=(3,)).start()
    receive(lambda: None, None)


def exit_at_once_beside_waits() -> None:
    start_daemons([*BLOCKING, *IN_A_LOOP])
    os._exit(3)


def exit_at_once_in_a_handler() -> None:
    held = everything()
    assert held
    signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    receive(lambda: None, None)


def exit_at_once_in_a_callback() -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("topic") as subscriber:
            asyncio.get_running_loop().call_soon(os._exit, 3)
            await subscriber.receive()

    asyncio.run(main())


def exit_in_a_callback() -> None:
    async def main() -> None:
        kept.extend(everything())
        async with tb.AsyncSubscriber("nothing") as subscriber:
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await subscriber.receive()

    asyncio.run(main())


def exit_in_a_task() -> None:
    async def leave() -> None:
        async with tb.AsyncSubscriber("nothing") as subscriber:
            with suppress(tb.Timeout):
                await subscriber.receive(0)
            sys.exit(3)

    async def main() -> None:
        async with tb.AsyncSubscriber("nothing") as subscriber:
            leaving = asyncio.ensure_future(leave())
            kept.append(leaving)
            async for _ in subscriber:
                pass

    asyncio.run(main())


def exit_beside_waits() -> None:
    start_daemons([*BLOCKING, *IN_A_LOOP])
    kept.extend(everything())
    sys.exit(3)


def exit_in_a_block() -> None:
    with tb.Publisher("topic") as publisher, tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.zeros(1000))
        for _ in subscriber:
            sys.exit(3)


@pytest.mark.parametrize(
    "leave",
    [
        exit_at_once,
        exit_at_once_in_a_thread,
        exit_at_once_beside_waits,
        exit_at_once_in_a_handler,
        exit_at_once_in_a_callback,
        exit_in_a_callback,
        exit_in_a_task,
        exit_beside_waits,
        exit_in_a_block,
    ],
)
def test_an_exit_has_its_code_wherever_it_is_called(
    elsewhere: Elsewhere, leave: Callable[[], None]
) -> None:
    code, errors = elsewhere.start(leave).end()
    # asyncio reports the SystemExit that its task ended with, as it does without the bus.
    assert code == 3, errors
    if leave is exit_in_a_task:
        errors = ""
    assert errors == ""


def test_an_exit_in_a_thread_ends_that_thread_alone(elsewhere: Elsewhere) -> None:
    def leave_a_thread() -> None:
        def leave() -> None:
            for _ in subscriber:
                sys.exit(3)

        with tb.Publisher("topic") as publisher, tb.Subscriber("topic") as subscriber:
            thread = threading.Thread(target=leave)
            thread.start()
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(1)
            thread.join(PATIENCE)
            publisher.publish(2)
            tell(subscriber.receive(PATIENCE).data)

    other = elsewhere.start(leave_a_thread)
    assert other.hear() == 2


def test_an_error_in_a_thread_is_told_and_costs_the_others_nothing(elsewhere: Elsewhere) -> None:
    def fail_in_a_thread() -> None:
        def fail() -> None:
            held = everything()
            raise ArithmeticError(len(held))

        with tb.Publisher("another") as publisher, tb.Subscriber("another") as subscriber:
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join(PATIENCE)
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(2)
            tell(subscriber.receive(PATIENCE).data)

    other = elsewhere.start(fail_in_a_thread)
    assert other.hear() == 2
    code, errors = other.end()
    assert code == 0
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("ArithmeticError: 5")


@pytest.mark.parametrize("end", ["sys.exit", "os._exit", "an error", "SIGKILL"])
def test_an_end_of_any_kind_gives_back_what_was_held(elsewhere: Elsewhere, end: str) -> None:
    def hold_and_end(end: str) -> None:
        subscriber = tb.Subscriber("topic", timeout=PATIENCE)
        kept.extend([subscriber, *(subscriber.receive().data for _ in range(3))])
        tell("held")
        hear()
        if end == "sys.exit":
            sys.exit(3)
        elif end == "os._exit":
            os._exit(3)
        elif end == "an error":
            raise ArithmeticError
        signal.raise_signal(signal.SIGKILL)

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(hold_and_end, end)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(5):
            publisher.publish(np.zeros(10_000))
        assert other.hear() == "held"
        assert publisher.stats["bytes_in_flight"] >= 5 * 80_000
        other.tell()
        code, _ = other.end()
        assert code == {"an error": 1, "SIGKILL": -signal.SIGKILL}.get(end, 3)
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)
        assert publisher.stats["subscribers"] == 0


def test_samples_sent_just_before_the_end_arrive(elsewhere: Elsewhere) -> None:
    def publish_and_end() -> None:
        publisher = tb.Publisher("topic")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.arange(100_000))
        tell("published")

    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_and_end)
        assert other.hear() == "published"
        other.finish()
        assert np.array_equal(subscriber.receive().data, np.arange(100_000))
