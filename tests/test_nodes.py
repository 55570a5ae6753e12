"""Nodes in event loops: asyncio's own and uvloop's."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, hear, tell, unused
from loops import Run, started, turns
from node_runs import becomes, connected, running


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
                    publisher.publish(np.full(100, number))
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
            with pytest.raises(tb.Timeout, match="nobody publishes 'topic'"):
                node.create_subscriber("topic", wait_for_topic=False)
            node.create_subscriber("topic", callback=lambda m, h: got.append(m), topic_timeout=0.01)
            async with running(node):
                await becomes(lambda: "nobody has published on 'topic' in 0.01 s" in caplog.text)
                with tb.Publisher("topic", history=1) as publisher:
                    publisher.publish(7)
                    await becomes(lambda: got == [7])
                    node.create_subscriber("topic", wait_for_topic=False)

    asyncio.run(main())
    assert len(caplog.records) == 1


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
