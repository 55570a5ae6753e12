"""Programs written for Cortex, ported by their imports alone."""

from __future__ import annotations

import asyncio
import importlib
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.loops import started
from support.node_runs import becomes
from tensorbus.cortex import Message, MessageFingerprintError, Node, Publisher, Subscriber, run
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import (
    ArrayMessage,
    DictMessage,
    IntMessage,
    StringMessage,
    TensorMessage,
)


@dataclass
class Command(Message):
    speed: float = 0.0
    label: str = ""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("", "Node Publisher Subscriber Message MessageType run __version__"),
        (".messages", "Message MessageType ArrayMessage TensorMessage DictMessage IntMessage"),
        (".messages.base", "Message MessageHeader MessageType"),
        (".messages.standard", "ArrayMessage DictMessage HeaderMessage"),
        (".core", "Node Publisher Subscriber AsyncSubscriber ThreadedSubscriber SubscriberBase"),
        (".core", "SubscriberStats MessageFingerprintError AsyncCallback MessageCallback"),
        (".core", "SyncMessageCallback BaseAsyncExecutor AsyncExecutor RateExecutor"),
        (".core.node", "Node"),
        (".core.publisher", "Publisher"),
        (".core.subscriber", "Subscriber AsyncSubscriber"),
        (".core.subscriber_base", "MessageFingerprintError SubscriberBase SubscriberStats"),
        (".core.sync_subscriber", "ThreadedSubscriber SyncMessageCallback"),
        (".core.types", "AsyncCallback MessageCallback"),
        (".core.executor", "BaseAsyncExecutor AsyncExecutor RateExecutor SyncRateExecutor"),
        (".discovery", "DiscoveryClient DiscoveryDaemon DEFAULT_DISCOVERY_ADDRESS TopicInfo"),
        (".discovery.client", "DiscoveryClient"),
        (".discovery.daemon", "DiscoveryDaemon DEFAULT_DISCOVERY_ADDRESS main"),
        (".discovery.protocol", "TopicInfo DiscoveryCommand DiscoveryStatus"),
        (".utils", "serialize deserialize compute_fingerprint run get_logger set_log_level"),
        (".utils.hashing", "compute_fingerprint fingerprint_to_bytes bytes_to_fingerprint"),
        (".utils.hashing", "get_cached_fingerprint register_fingerprint clear_fingerprint_cache"),
        (".utils.logging", "get_logger set_log_level"),
        (".utils.loop", "run"),
        (".utils.runtime", "runtime_info is_free_threaded low_latency_advisory"),
        (".utils.serialization", "serialize deserialize TORCH_AVAILABLE"),
        (".utils.tracing", "enabled stage record snapshot reset"),
    ],
)
def test_each_name_is_where_programs_import_it_from(module: str, names: str) -> None:
    found = importlib.import_module(f"tensorbus.cortex{module}")
    assert all(hasattr(found, name) for name in [*names.split(), *getattr(found, "__all__", [])])


def publish_arrays() -> None:
    class ArrayPublisher(Node):
        def __init__(self) -> None:
            super().__init__("array_publisher", discovery_address="ipc:///tmp/discovery")
            self.pub = self.create_publisher("/sensor/array", ArrayMessage, queue_size=10)
            self.create_timer(0.005, self.tick)
            self.count = 0

        async def tick(self) -> None:
            data = np.full((4, 5), self.count, dtype=np.float32)
            assert self.pub.publish(ArrayMessage(data=data, name=f"frame_{self.count}"))
            self.count += 1

    async def main() -> None:
        async with ArrayPublisher() as node:
            tell(node.publishers)
            await node.run()
        assert node.publishers == []

    run(main())


def test_arrays_from_one_process_to_a_node_of_another(elsewhere: Elsewhere) -> None:
    class ArraySubscriber(Node):
        def __init__(self) -> None:
            super().__init__("array_subscriber")
            self.got: list[tuple[ArrayMessage, MessageHeader]] = []
            self.sub = self.create_subscriber("/sensor/array", ArrayMessage, callback=self.on)

        async def on(self, message: ArrayMessage, header: MessageHeader) -> None:
            self.got.append((message, header))
            if len(self.got) == 5:
                self.stop()

    async def main() -> ArraySubscriber:
        async with ArraySubscriber() as node:
            await asyncio.wait_for(node.run(), PATIENCE)
            return node

    other = elsewhere.start(publish_arrays)
    assert other.hear() == ["/sensor/array"]
    node = run(main())
    other.kill()
    for message, header in node.got:
        number = header.sequence
        assert message.name == f"frame_{number}"
        assert np.array_equal(message.data, np.full((4, 5), number, np.float32))
        assert header.fingerprint == ArrayMessage.fingerprint()
        assert header.timestamp_ns > 0
    assert node.sub.receive_count == 5
    assert node.sub.last_receive_time is not None
    assert node.subscribers == []


def test_a_system_of_several_nodes_in_one_process() -> None:
    class Sensor(Node):
        def __init__(self) -> None:
            super().__init__("sensor")
            self.pub = self.create_publisher("/state", DictMessage)
            self.create_timer(0.002, self.tick)

        async def tick(self) -> None:
            self.pub.publish(DictMessage(data={"position": np.arange(3.0), "ok": True}))

    class Planner(Node):
        def __init__(self) -> None:
            super().__init__("planner")
            self.pub = self.create_publisher("/command", Command)
            self.create_subscriber("/state", DictMessage, callback=self.on_state)

        async def on_state(self, message: DictMessage, header: MessageHeader) -> None:
            self.pub.publish(Command(speed=float(message.data["position"].sum()), label="go"))

    class Motor(Node):
        def __init__(self) -> None:
            super().__init__("motor")
            self.commands: list[Command] = []
            self.create_subscriber("/command", Command, callback=self.on_command)

        async def on_command(self, message: Command, header: MessageHeader) -> None:
            self.commands.append(message)
            if len(self.commands) == 3:
                for node in nodes:
                    node.stop()

    nodes: list[Any] = []

    async def main() -> None:
        nodes.extend([Sensor(), Planner(), Motor()])
        try:
            await asyncio.wait_for(asyncio.gather(*(node.run() for node in nodes)), PATIENCE)
        finally:
            for node in nodes:
                await node.close()

    run(main())
    assert nodes[2].commands == [Command(3.0, "go")] * 3


def test_a_synchronous_control_loop() -> None:
    done = threading.Event()
    with Node("controller") as node:
        command = node.create_publisher("/command", Command, mode="sync")

        def on_state(message: Command, header: MessageHeader) -> None:
            if message.speed >= 3:
                done.set()

        numbers = iter(range(1000))

        def tick() -> None:
            command.publish(Command(float(next(numbers))))

        def watch(stop_event: threading.Event, limit: float) -> None:
            done.wait(limit)
            node.stop()

        node.create_subscriber("/command", Command, callback=on_state, mode="sync")
        node.create_timer(0.002, tick, mode="sync")
        node.spawn_thread(watch, PATIENCE, name="watch")
        node.spin(timeout=PATIENCE)
        assert done.is_set()
    # A message arrives before who published it has counted it: now the threads have ended.
    assert command.publish_count > 3
    assert command.last_publish_time is not None


def test_tensors_keep_dtype_shape_and_requires_grad(torch: Any) -> None:
    async def main() -> None:
        async with Node("node") as node:
            subscriber = node.create_subscriber("/tensor", TensorMessage)
            publisher = node.create_publisher("/tensor", TensorMessage)
            assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)
            await becomes(lambda: subscriber.is_connected)  # the publisher knows it first
            sent = torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True)
            assert publisher.publish(TensorMessage(data=sent, name="t"))
            received = await subscriber.receive()
            assert received is not None
            message, header = received
            assert isinstance(message, TensorMessage)
            assert (message.name, header.sequence) == ("t", 0)
            assert torch.equal(message.data, sent)
            assert message.data.requires_grad

    run(main())


def test_a_publisher_and_a_subscriber_without_a_node() -> None:
    async def main() -> None:
        got: list[int] = []

        async def on_number(message: IntMessage, header: MessageHeader) -> None:
            got.append(message.data)

        with (
            Publisher("/number", IntMessage, node_name="source") as publisher,
            Subscriber("/number", IntMessage, callback=on_number, topic_timeout=5.0) as subscriber,
        ):
            assert publisher.is_registered
            assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)
            await becomes(lambda: subscriber.is_connected)
            assert publisher.loan(3, "uint8", timeout=PATIENCE).shape == (3,)
            assert subscriber.topic_info is not None
            assert subscriber.topic_info.publishers[0].node == "source"
            task = subscriber.start()
            assert publisher.publish(IntMessage(7))
            await becomes(lambda: got == [7])
            assert subscriber.running
            subscriber.stop()
            await asyncio.wait_for(task, PATIENCE)
            assert not subscriber.running
            with pytest.raises(TypeError, match=r"expected tensorbus\.IntMessage"):
                publisher.publish(StringMessage("seven"))
            receiving = await started(subscriber.receive())
            subscriber.close()
            assert await receiving is None
            assert not subscriber.is_connected
            publisher.close()
            assert not publisher.is_registered
            assert publisher.publish(IntMessage(8)) is False
            assert publisher.publish_count == 1

    run(main())


def test_a_stop_in_the_turn_of_its_start_and_one_of_several_runs_end_a_subscriber() -> None:
    async def main() -> None:
        async def ignore(message: IntMessage, header: MessageHeader) -> None:
            pass

        with Subscriber("/number", IntMessage, ignore) as subscriber:
            begun = subscriber.start()
            subscriber.stop()
            await asyncio.wait_for(begun, PATIENCE)
            both = [await started(subscriber.run()) for _ in range(2)]
            assert subscriber.running
            subscriber.stop()
            await asyncio.wait_for(asyncio.gather(*both), PATIENCE)
            assert not subscriber.running

    asyncio.run(main())


def test_a_node_may_set_attributes_that_nodes_of_cortex_do_not_keep_for_themselves() -> None:
    class Renamed(Node):
        def __init__(self) -> None:
            super().__init__("first")
            self.name = "second"
            self.parameters = {"gain": 1}  # type: ignore[assignment]

    with Renamed() as node:
        assert (node.name, node.parameters) == ("second", {"gain": 1})
        assert node.create_publisher("/number", IntMessage).node_name == "second"
    with Node("node") as plain:
        plain.declare_parameter("gain", 2.0)
        assert plain.name == "node"
        assert list(plain.parameters) == ["gain"]


def test_a_strict_mismatch_ends_the_node_whenever_it_comes() -> None:
    async def main() -> None:
        async def never(message: IntMessage, header: MessageHeader) -> None:
            raise AssertionError

        async with Node("node") as node:
            node.create_subscriber("/number", IntMessage, never, strict_fingerprint=True)
            running = await started(node.run())
            with (
                Publisher("/number", StringMessage),
                pytest.raises(MessageFingerprintError, match="StringMessage"),
            ):
                await asyncio.wait_for(running, PATIENCE)
        with Subscriber("/number", IntMessage, never, strict_fingerprint=True) as subscriber:
            running = await started(subscriber.run())
            with (
                Publisher("/number", StringMessage),
                pytest.raises(MessageFingerprintError, match="StringMessage"),
            ):
                await asyncio.wait_for(running, PATIENCE)

    run(main())


def test_a_mismatch_is_strict_in_mode_sync_and_logged_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def never(message: IntMessage, header: MessageHeader) -> None:
        raise AssertionError

    with Publisher("/number", StringMessage) as publisher:
        with Node("strict") as node, pytest.raises(MessageFingerprintError):
            node.create_subscriber("/number", IntMessage, never, mode="sync")
        assert "MessageFingerprintError" not in caplog.text
        with Node("relaxed") as node:
            node.create_subscriber(
                "/number", IntMessage, never, mode="sync", strict_fingerprint=False
            )
            threading.Thread(target=node.spin).start()
            eventually(lambda: "MessageFingerprintError" in caplog.text)
            publisher.publish(StringMessage("seven"))
            node.stop()


def test_the_latest_wins() -> None:
    """A callback that was busy for a hundred messages gets the newest next."""

    async def main() -> None:
        got: list[int] = []
        busy, go_on = asyncio.Event(), asyncio.Event()

        async def slow(message: IntMessage, header: MessageHeader) -> None:
            got.append(message.data)
            busy.set()
            await go_on.wait()

        async with Node("node") as node:
            subscriber = node.create_subscriber("/number", IntMessage, slow, queue_size=1)
            publisher = node.create_publisher("/number", IntMessage)
            assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)
            ending = await started(node.run())
            publisher.publish(IntMessage(0))
            await asyncio.wait_for(busy.wait(), PATIENCE)
            for number in range(1, 101):
                publisher.publish(IntMessage(number))
            await asyncio.sleep(0.1)  # by its age the callback is known to be behind
            go_on.set()
            await becomes(lambda: len(got) == 2)
            assert got == [0, 100]
            assert subscriber.dropped_count == 99
            node.stop()
            await ending

    run(main())


def test_timers_and_subscribers_take_callbacks_of_their_mode() -> None:
    async def coroutine(*_: Any) -> None:
        pass

    def plain(*_: Any) -> None:
        pass

    async def main() -> None:
        async with Node("node") as node:
            with pytest.raises(TypeError):
                node.create_timer(1.0, plain)
            with pytest.raises(TypeError):
                node.create_timer(1.0, coroutine, mode="sync")
            with pytest.raises(TypeError):
                node.create_subscriber("/t", IntMessage, coroutine, mode="sync")
            with pytest.raises(ValueError, match="callback=None"):
                node.create_subscriber("/t", IntMessage, mode="sync")
            with pytest.raises(ValueError, match="mode='other'"):
                node.create_publisher("/t", IntMessage, mode="other")  # type: ignore[arg-type]
            first = node.create_publisher("/t", IntMessage)
            with pytest.warns(RuntimeWarning, match="already"):
                assert node.create_publisher("/t", IntMessage) is first
            assert node.get_publisher("/t") is first
            one = node.create_subscriber("/t", IntMessage, coroutine)
            two = node.create_subscriber("/t", IntMessage, coroutine)
            assert node.get_subscriber("/t") is one is not two
            assert node.get_subscriber("/u") is node.get_publisher("/u") is None
            assert not node.is_running
            assert not node.stop_event.is_set()
            with pytest.raises(RuntimeError, match="run by its node"):
                await one.run()

    run(main())


def test_a_restarted_publisher_is_heard_again(elsewhere: Elsewhere) -> None:
    def publish(number: int) -> None:
        with Publisher("/number", IntMessage) as publisher:
            assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(IntMessage(number))
            hear()

    async def main() -> None:
        async with Node("node") as node:
            subscriber = node.create_subscriber("/number", IntMessage)
            for number in range(2):
                other = elsewhere.start(publish, number)
                while (received := await subscriber.receive()) is None:  # not connected yet
                    await asyncio.sleep(0.001)
                assert received[0] == IntMessage(number)
                other.kill()

    run(main())


def test_messages_are_bytes_without_the_bus() -> None:
    data = Command(1.5, "go").to_bytes()
    message, header = Command.from_bytes(data)
    assert message == Command(1.5, "go")
    assert header.fingerprint == Command.fingerprint()
    assert Message.decode(data)[0] == message
    assert tb.MessageType.get(Command.fingerprint()) is Command
