"""Nodes in event loops: asyncio's own and uvloop's."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell, unused
from support.loops import Run, started
from support.node_runs import becomes, connected, running


def test_a_callback_of_either_kind_gets_message_and_header(run: Run) -> None:
    async def main() -> list[tuple[str, Any, int, str]]:
        got = []

        def plain(message: Any, header: tb.Header) -> None:
            got.append(("plain", message, header.sequence, header.topic))

        async def awaited(message: Any, header: tb.Header) -> None:
            await asyncio.sleep(0)
            got.append(("async", message, header.sequence, header.topic))

        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=plain)
            node.create_subscriber("topic", callback=awaited)
            publisher = connected(node.create_publisher("topic"), 2)
            async with running(node):
                for number in range(3):
                    publisher.publish(number)
                await becomes(lambda: len(got) == 6)
        return sorted(got)

    kinds = ["async"] * 3 + ["plain"] * 3
    assert run(main()) == [(kind, i % 3, i % 3, "topic") for i, kind in enumerate(kinds)]


def test_typed_messages_arrive_as_such_and_tensors_by_reference(run: Run) -> None:
    async def main() -> None:
        got = []
        async with tb.Node("node") as node:
            publisher = node.create_publisher("topic", tb.ArrayMessage)
            node.create_subscriber("topic", tb.ArrayMessage, lambda m, h: got.append(m))
            connected(publisher)
            async with running(node):
                loan = publisher.loan(1000, "float32")
                loan[:] = 7
                publisher.publish(tb.ArrayMessage(loan, "sevens"))
                await becomes(lambda: got)
                assert (got[0].name, got[0].data.sum()) == ("sevens", 7000)
                assert publisher.stats["bytes_copied"] == 0

    run(main())


def test_a_node_is_a_class_to_inherit_from() -> None:
    class Doubler(tb.Node):
        def __init__(self) -> None:
            super().__init__("doubler")
            self.got: list[int] = []
            self.publisher = self.create_publisher("doubled")
            self.create_subscriber("numbers", callback=self.on_number)
            self.create_subscriber("doubled", callback=self.on_doubled)

        async def on_number(self, number: int, header: tb.Header) -> None:
            self.publisher.publish(number * 2)

        def on_doubled(self, number: int, header: tb.Header) -> None:
            self.got.append(number)
            self.stop()

    with tb.Publisher("numbers", history=1) as numbers:
        numbers.publish(21)
        doubler = Doubler()
        connected(doubler.publisher)
        tb.run(doubler.run())
        assert doubler.got == [42]
        assert not doubler.is_running


def test_a_node_is_listed_with_its_topics_and_others_can_wait_for_it(elsewhere: Elsewhere) -> None:
    def live() -> None:
        async def main() -> None:
            async with tb.Node("camera") as node:
                node.create_publisher("image")
                node.create_publisher("depth", tb.ImageMessage)
                tell((node.name, node.publishers, node.subscribers))
                hear()
            tell([node.name for node in tb.list_nodes()])

        tb.run(main())

    other = elsewhere.start(live)
    assert tb.wait_for_node("camera", timeout=PATIENCE)
    assert other.hear() == ("camera", ["image", "depth"], [])
    (node,) = tb.list_nodes()
    assert (node.name, node.topics) == ("camera", ("depth", "image"))
    assert {p.node for topic in tb.list_topics() for p in topic.publishers} == {"camera"}
    other.tell()
    assert other.hear() == []


def test_a_topic_has_one_publisher_and_any_number_of_subscribers_in_a_node() -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            first = node.create_publisher("topic", depth=3)
            with pytest.warns(RuntimeWarning, match="publishes 'topic' already"):
                assert node.create_publisher("topic") is first
            assert node.get_publisher("topic") is first
            assert node.get_publisher("other") is None
            one = node.create_subscriber("topic")
            two = node.create_subscriber("topic")
            assert one is not two
            assert node.get_subscriber("topic") is one
            assert node.get_subscriber("other") is None
            assert node.subscribers == ["topic"]
        with pytest.raises(tb.Closed, match="node 'node' is closed"):
            node.create_publisher("topic")

    asyncio.run(main())


def test_a_subscriber_without_a_callback_is_received_from(run: Run) -> None:
    async def main() -> None:
        async with tb.Node("node") as node:
            subscription = node.create_subscriber("topic")
            publisher = connected(node.create_publisher("topic"))
            async with running(node):
                receiving = await started(subscription.receive(PATIENCE))
                publisher.publish(7)
                assert (await receiving).data == 7
                publisher.publish(8)
                async for sample in subscription:
                    assert sample.data == 8
                    node.stop()  # ends the loop
            assert subscription.receive_count == 2
            assert subscription.last_receive_time is not None

    run(main())


def test_subscribers_of_a_node_do_not_hold_up_one_another(run: Run) -> None:
    async def main() -> None:
        got: list[int] = []
        blocked, go_on = asyncio.Event(), asyncio.Event()

        async def waits(message: int, header: tb.Header) -> None:
            blocked.set()
            await go_on.wait()

        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=waits)
            node.create_subscriber("topic", callback=lambda m, h: got.append(m))
            publisher = connected(node.create_publisher("topic"), 2)
            async with running(node):
                publisher.publish(0)
                await asyncio.wait_for(blocked.wait(), PATIENCE)
                for number in range(1, 5):
                    publisher.publish(number)
                await becomes(lambda: got == [0, 1, 2, 3, 4])
                go_on.set()

    run(main())


def test_what_a_slow_callback_leaves_is_dropped_counted_and_takes_no_memory(run: Run) -> None:
    async def main() -> None:
        got: list[int] = []
        blocked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(message: Any, header: tb.Header) -> None:
            got.append(header.sequence)
            blocked.set()
            await go_on.wait()

        async with tb.Node("node") as node:
            subscription = node.create_subscriber("topic", callback=slow, queue_size=2)
            publisher = connected(node.create_publisher("topic"))
            async with running(node):
                publisher.publish(np.zeros(1000))
                await asyncio.wait_for(blocked.wait(), PATIENCE)
                for _ in range(50):
                    publisher.publish(np.zeros(1000))
                assert tb.participant().arena["used_bytes"] < 10 * 8000 * 2
                go_on.set()
                await becomes(lambda: len(got) == 3)
                assert got == [0, 49, 50]  # the newest
                assert subscription.dropped_count == subscription.stats["missed"] == 48
            assert subscription.dropped_count == 48

    run(main())
    unused()


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_name_is_needed(name: Any) -> None:
    with pytest.raises(tb.InvalidArgument, match="name="):
        tb.Node(name)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(tb.InvalidArgument, match="on_error='ignore'"):
        tb.Node("node", on_error="ignore")  # type: ignore[arg-type]

    async def main() -> None:
        async with tb.Node("node") as node:
            with pytest.raises(tb.InvalidArgument, match="mode='thread'"):
                node.create_subscriber("topic", mode="thread")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="expected a function"):
                node.create_subscriber("topic", callback=7)  # type: ignore[arg-type]
            with pytest.raises(tb.InvalidArgument, match="queue_size=0"):
                node.create_subscriber("topic", queue_size=0)
            with pytest.raises(tb.InvalidArgument, match="for mode='sync'"):
                node.create_subscriber("topic", cpu_affinity=0)
            assert node.subscribers == []

    asyncio.run(main())
