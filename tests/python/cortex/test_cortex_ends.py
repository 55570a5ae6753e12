"""How nodes of Cortex's programs end: spin, Ctrl-C, cancelling, nothing to do."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest

from support.harness import PATIENCE, Elsewhere, eventually, tell
from support.loops import started
from support.node_runs import becomes
from tensorbus.cortex import Node, Publisher, run
from tensorbus.cortex.messages.standard import IntMessage


def test_after_spin_nothing_is_called_until_the_next_spin() -> None:
    ticks: list[float] = []
    got: list[int] = []
    with Publisher("/number", IntMessage) as publisher, Node("node") as node:
        timer = node.create_timer(0.002, lambda: ticks.append(time.monotonic()), mode="sync")
        subscriber = node.create_subscriber(
            "/number", IntMessage, lambda m, h: got.append(m.data), mode="sync"
        )
        for number in range(2):
            assert not node.is_running
            spinning = threading.Thread(target=node.spin, args=(0.2,))
            spinning.start()
            eventually(lambda: node.is_running and subscriber.running)
            publisher.publish(IntMessage(number))
            spinning.join(PATIENCE)
            assert not spinning.is_alive()
            assert not node.is_running
            assert not subscriber.running
            assert not timer.running  # type: ignore[attr-defined]
            seen = len(ticks)
            assert seen > 0
            time.sleep(0.02)  # ten periods
            assert len(ticks) == seen
            ticks.clear()
            assert got == list(range(number + 1))
        # What comes meanwhile waits in the queue.
        publisher.publish(IntMessage(2))
        node.spin(timeout=0.2)
        assert got == [0, 1, 2]
    assert node.publishers == node.subscribers == []


def test_a_callback_may_stop_and_close_its_node() -> None:
    with Node("node") as node:

        def tick() -> None:
            node.close_sync()

        node.create_timer(10.0, tick, mode="sync")
        assert node.spin(timeout=PATIENCE)


def test_a_timer_ticks_at_once_and_then_each_period() -> None:
    begin = time.monotonic()
    at: list[float] = []
    with Node("node") as node:

        def tick() -> None:
            at.append(time.monotonic() - begin)
            if len(at) == 2:
                node.stop()

        node.create_timer(0.5, tick, mode="sync")
        node.spin(timeout=PATIENCE)
    assert at[0] < 0.5 <= at[1]

    async def main() -> None:
        async with Node("node") as node:

            async def once() -> None:
                node.stop()

            node.create_timer(1000.0, once)
            await asyncio.wait_for(node.run(), PATIENCE)

    run(main())


def test_a_cancelled_run_returns() -> None:
    async def main() -> None:
        async def tick() -> None:
            pass

        node = Node("node")
        node.create_timer(0.01, tick)
        running = await started(node.run())
        assert node.is_running
        running.cancel()
        await asyncio.wait_for(running, PATIENCE)
        assert not node.is_running
        await node.close()

    asyncio.run(main())


def test_a_node_with_nothing_to_run_returns_at_once_and_one_with_a_thread_does_not() -> None:
    async def main() -> None:
        async with Node("node") as node:
            node.create_publisher("/number", IntMessage)
            node.create_subscriber("/other", IntMessage)
            await asyncio.wait_for(node.run(), PATIENCE)
            assert not node.stop_event.is_set()
            ended = threading.Event()

            def work(stop: threading.Event) -> None:
                stop.wait()
                ended.set()

            node.spawn_thread(work)
            running = await started(node.run())
            node.stop()
            await asyncio.wait_for(running, PATIENCE)
            assert ended.wait(PATIENCE)

    run(main())


def program(runner: str) -> None:
    class Inference(Node):
        def __init__(self) -> None:
            super().__init__("inference")
            self.told = False
            self.create_timer(0.01, self.tick)

        async def tick(self) -> None:
            if not self.told:
                self.told = True
                tell("ticks")

    async def main() -> None:
        node = Inference()
        try:
            await node.run()
        finally:
            await node.close()
        tell("results are written here")

    (run if runner == "cortex" else asyncio.run)(main())


@pytest.mark.parametrize(
    ("runner", "number"),
    [("cortex", signal.SIGINT), ("asyncio", signal.SIGINT), ("cortex", signal.SIGTERM)],
)
def test_a_signal_ends_a_program_quietly(
    elsewhere: Elsewhere, runner: str, number: signal.Signals
) -> None:
    other = elsewhere.start(program, runner)
    assert other.hear() == "ticks"
    other.signal(number)
    assert other.hear() == "results are written here"
    assert other.end() == (0, "")


def spins() -> None:
    with Node("node") as node:
        node.create_timer(0.01, lambda: None, mode="sync")
        tell("spins")
        node.spin()


def test_ctrl_c_is_raised_from_spin_as_in_cortex(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(spins)
    assert other.hear() == "spins"
    other.signal_when_asleep(signal.SIGINT)
    code, errors = other.end()
    assert code == -signal.SIGINT
    assert errors.strip().endswith("KeyboardInterrupt")


def test_a_sync_subscriber_that_is_added_while_the_node_runs_is_started() -> None:
    async def main() -> None:
        got: list[Any] = []
        async with Node("node") as node:
            publisher = node.create_publisher("/number", IntMessage)

            async def add() -> None:
                if not got:
                    node.create_subscriber(
                        "/number", IntMessage, lambda m, h: got.append(m.data), mode="sync"
                    )
                    publisher.publish(IntMessage(7))

            node.create_timer(1000.0, add)
            running = await started(node.run())
            await becomes(lambda: got == [7])
            node.stop()
            await asyncio.wait_for(running, PATIENCE)

    run(main())
