"""Nodes whose callbacks fail, or keep too much, and topics that are not what was expected."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.loops import Run
from support.node_runs import becomes, connected, running


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_exception_is_logged_with_node_topic_and_sequence_and_the_rest_goes_on(
    run: Run, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        got: list[int] = []

        def fails(message: int, header: tb.Header) -> None:
            if message == 1:
                raise ValueError("one")
            got.append(message)

        async def fails_later(message: int, header: tb.Header) -> None:
            await asyncio.sleep(0)
            fails(message, header)

        async with tb.Node("frail") as node:
            node.create_subscriber("topic", callback=fails if kind == "plain" else fails_later)
            publisher = connected(node.create_publisher("topic"))
            async with running(node):
                for number in range(3):
                    publisher.publish(number)
                await becomes(lambda: got == [0, 2])

    run(main())
    (record,) = caplog.records
    assert record.name == "tensorbus.node"
    assert record.getMessage() == "node 'frail', topic 'topic', sequence 1: ValueError: one"
    assert record.exc_info is not None


def fail(message: object, header: tb.Header) -> None:
    raise ValueError("no")


def test_an_exception_can_stop_the_node(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node", on_error="stop") as node:
            node.create_subscriber("topic", callback=fail)
            connected(node.create_publisher("topic")).publish(1)
            await asyncio.wait_for(node.run(), PATIENCE)
            assert node.stop_event.is_set()

    run(main())


def test_an_exception_can_be_raised_by_run(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node", on_error="raise") as node:
            node.create_subscriber("topic", callback=fail)
            connected(node.create_publisher("topic")).publish(1)
            with pytest.raises(ValueError, match="no"):
                await asyncio.wait_for(node.run(), PATIENCE)

    run(main())


def test_a_callback_that_is_cancelled_by_itself_has_failed_and_others_are_called() -> None:
    async def main() -> None:
        got: list[int] = []

        async def gives_up(message: int, header: tb.Header) -> None:
            if message == 0:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
            got.append(message)

        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=gives_up)
            publisher = connected(node.create_publisher("topic"))
            async with running(node):
                publisher.publish(0)
                publisher.publish(1)
                await becomes(lambda: got == [1])

    if hasattr(asyncio.Task, "cancelling"):  # Python 3.10 cannot tell who cancelled
        asyncio.run(main())


def test_who_publishes_another_type_is_told_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        got = []
        async with tb.Node("node") as node:
            node.create_subscriber("topic", tb.IntMessage, lambda m, h: got.append(m.data))
            async with running(node):
                with tb.Publisher("topic", tb.StringMessage):
                    await becomes(lambda: "tensorbus.IntMessage" in caplog.text)
                with tb.Publisher("topic", tb.IntMessage, history=1) as publisher:
                    publisher.publish(tb.IntMessage(7))
                    await becomes(lambda: got == [7])

    asyncio.run(main())
    assert "node 'node', topic 'topic': TypeMismatch" in caplog.text
    assert "tensorbus.StringMessage" in caplog.text


def test_a_callback_that_keeps_too_much_is_told_once_and_called_again_when_it_lets_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        kept = []
        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=lambda m, h: kept.append(m), max_held=2)
            publisher = connected(node.create_publisher("topic"))
            async with running(node):
                for number in range(3):
                    publisher.publish(np.full(10_000, number))
                await becomes(lambda: "HoldLimit" in caplog.text)
                assert len(kept) == 2
                kept.clear()
                await becomes(lambda: kept)
                assert kept[0][0] == 2

    asyncio.run(main())
    assert len(caplog.records) == 1


def test_that_a_topic_is_missing_is_told_and_it_may_come_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        got: list[int] = []
        async with tb.Node("node") as node:
            with pytest.raises(tb.Timeout, match="topic 'topic' has no publisher"):
                node.create_subscriber("topic", wait_for_topic=False)
            node.create_subscriber("topic", callback=lambda m, h: got.append(m), topic_timeout=0.01)
            async with running(node):
                await becomes(lambda: "topic 'topic' had no publisher in 0.01 s" in caplog.text)
                with tb.Publisher("topic", history=1) as publisher:
                    publisher.publish(7)
                    await becomes(lambda: got == [7])
                    node.create_subscriber("topic", wait_for_topic=False)

    asyncio.run(main())
    assert len(caplog.records) == 1


class Late:
    def __call__(self, message: object) -> None: ...

    async def method(self, message: object, header: object, third: object) -> None: ...


@pytest.mark.parametrize(
    "callback",
    [lambda: None, lambda message: None, lambda *, message: None, Late(), Late().method],
)
def test_a_callback_of_other_arguments_is_told_when_the_subscription_is_made(callback: Any) -> None:
    with tb.Node("n") as node:
        with pytest.raises(TypeError, match=r"cannot be called as callback\(message, header\): "):
            node.create_subscriber("t", callback=callback)
        assert node.subscribers == []


def test_callbacks_of_timers_and_services_are_told_at_once() -> None:
    with tb.Node("n") as node:
        with pytest.raises(TypeError, match=r"cannot be called as callback\(\): missing"):
            node.create_timer(1, lambda now: None)
        with pytest.raises(TypeError, match=r"cannot be called as callback\(request\): too many"):
            node.create_service("s", callback=lambda: None)


def test_callbacks_that_can_be_called_so_are_taken() -> None:
    @functools.wraps(lambda message: None)
    def wrapper(*arguments: object) -> None: ...

    node = tb.Node("n")
    for number, callback in enumerate(
        (print, wrapper, lambda message, header=None: 0, functools.partial(max, 1), dict)
    ):
        node.create_subscriber(f"t{number}", callback=callback)  # type: ignore[arg-type]
    node.create_timer(1, functools.partial(print, 1))
    node.create_service("sum", callback=sum)
    asyncio.run(node.close())
