"""How nodes begin, stop and close: by whom, and what of it their callbacks see."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.loops import Run, started, turns
from support.node_runs import becomes, connected, running


def test_several_nodes_run_in_one_process(run: Run) -> None:
    async def main() -> None:
        got: list[int] = []
        async with tb.Node("first") as first, tb.Node("second") as second:

            def hand_on(message: int, header: tb.Header) -> None:
                to_second.publish(message + 1)

            def end(message: int, header: tb.Header) -> None:
                got.append(message)
                first.stop()
                second.stop()

            first.create_subscriber("a", callback=hand_on)
            second.create_subscriber("b", callback=end)
            to_first = connected(second.create_publisher("a"))
            to_second = connected(first.create_publisher("b"))
            to_first.publish(1)
            await asyncio.wait_for(asyncio.gather(first.run(), second.run()), PATIENCE)
            assert got == [2]
            assert [node.name for node in tb.list_nodes()] == ["first", "second"]
        assert tb.list_nodes() == []

    run(main())


def test_what_is_made_while_a_node_runs_runs(run: Run) -> None:
    async def main() -> None:
        got: list[int] = []
        async with tb.Node("node") as node, running(node):
            assert node.is_running
            node.create_subscriber("topic", callback=lambda m, h: got.append(m))
            connected(node.create_publisher("topic")).publish(1)
            node.create_timer(0.001, lambda: got.append(2))
            await becomes(lambda: {1, 2} <= set(got))

    run(main())


def test_stop_may_come_first_and_from_any_thread(run: Run) -> None:
    async def main() -> None:
        early = tb.Node("early")
        early.stop()
        await asyncio.wait_for(early.run(), PATIENCE)
        await early.close()
        async with tb.Node("late") as late:
            ending = await started(late.run())
            thread = threading.Thread(target=late.stop)
            thread.start()
            await asyncio.wait_for(ending, PATIENCE)
            thread.join()

    run(main())


def test_a_node_runs_once_at_a_time(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node, running(node):
            with pytest.raises(RuntimeError, match="node 'node' runs already"):
                await node.run()
            assert node.is_running

    run(main())


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_no_callback_is_called_after_stop(mode: Any) -> None:
    got: list[int] = []

    async def main() -> None:
        def stop(message: int, header: tb.Header) -> None:
            got.append(message)
            node.stop()

        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=stop, mode=mode)
            publisher = connected(node.create_publisher("topic"))
            for number in range(5):
                publisher.publish(number)
            await asyncio.wait_for(node.run(), PATIENCE)

    asyncio.run(main())
    assert got == [0]


@pytest.mark.parametrize("by", ["stop", "cancel", "close"])
def test_the_end_cancels_callbacks_that_wait(run: Run, by: str) -> None:
    async def main() -> None:
        ends: list[str] = []
        waits = asyncio.Event()

        async def wait(message: int, header: tb.Header) -> None:
            waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("callback")

        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=wait)
            connected(node.create_publisher("topic")).publish(1)
            task = await started(node.run())
            await asyncio.wait_for(waits.wait(), PATIENCE)
            if by == "stop":
                node.stop()
            elif by == "cancel":
                task.cancel()
            else:
                await node.close()
            await asyncio.wait([task], timeout=PATIENCE)
            assert task.cancelled() == (by == "cancel")
            assert ends == ["callback"]
            assert not node.is_running

    run(main())


@pytest.mark.parametrize("period", [0.001, PATIENCE])
def test_a_timer_ends_though_its_callback_swallows_the_cancellation(
    run: Run, period: float
) -> None:
    async def main() -> None:
        async def wait() -> None:
            node.stop()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        async with tb.Node("node") as node:
            node.create_timer(period, wait, at_once=True)
            await asyncio.wait_for(node.run(), PATIENCE / 2)

    run(main())


def test_a_callback_may_close_its_node(run: Run) -> None:
    async def main() -> None:
        node = tb.Node("node")

        async def close(message: int, header: tb.Header) -> None:
            await node.close()

        node.create_subscriber("topic", callback=close)
        connected(node.create_publisher("topic")).publish(1)
        await asyncio.wait_for(node.run(), PATIENCE)
        await turns()
        assert repr(node) == "<tensorbus.Node 'node' closed>"
        assert tb.list_nodes() == []

    run(main())


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_subscription_ends_with_its_stream_and_no_later_publisher_waits_for_it(
    run: Run, mode: Any
) -> None:
    async def main() -> None:
        got: list[int] = []
        async with tb.Node("node") as node, running(node):
            subscription = node.create_subscriber(
                "ends", callback=lambda m, h: got.append(m), mode=mode, end_of_stream=True
            )
            with tb.Publisher("ends") as first:
                connected(first).publish(1)
            await becomes(lambda: got and not subscription.running)
            async with tb.AsyncPublisher("ends", depth=1, reliable=True) as second:
                assert not await second.wait_for_subscribers(timeout=0.3)
                for number in range(50):
                    await second.publish(number, timeout=PATIENCE / 3)
            assert got == [1]

    run(main())
