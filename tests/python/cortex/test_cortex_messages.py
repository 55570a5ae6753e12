"""What messages of Cortex's programs may hold, and what comes of what is received."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.interpreters import classes_are_freed
from support.loops import started
from support.node_runs import becomes
from support.repository import ROOT
from tensorbus.cortex import Message, MessageType, Node, Publisher, Subscriber, run
from tensorbus.cortex.messages import standard
from tensorbus.cortex.messages.base import MessageHeader
from tensorbus.cortex.messages.standard import (
    ArrayMessage,
    DictMessage,
    IntMessage,
    PoseMessage,
    StringMessage,
    TensorMessage,
)
from tensorbus.cortex.utils.hashing import compute_fingerprint


@dataclass
class State(Message, name="test.State"):
    step: int = 0
    pose: np.ndarray = None  # type: ignore[assignment]
    names: list[str] = field(default_factory=list)
    battery: float = 0.0
    clock: threading.Event = None  # type: ignore[assignment]  # no field of ours can be of this
    unknown: "NotThere" = None  # type: ignore[name-defined]  # noqa: F821, UP037


@dataclass
class Unnamed(Message):
    x: int = 0


LAX: list[dict[str, Any]] = [
    {"step": 1.0},
    {"pose": [1.0, 2.0]},
    {"names": ("a", "b")},
    {"battery": None},
    {"clock": 7, "unknown": "x"},
    {},
]


def publish_states() -> None:
    @dataclass
    class Elsewhere(Message, name="test.State"):
        step: int = 0
        pose: np.ndarray = None  # type: ignore[assignment]
        names: list[str] = field(default_factory=list)
        battery: float = 0.0
        clock: threading.Event = None  # type: ignore[assignment]
        unknown: "NotThere" = None  # type: ignore[name-defined]  # noqa: F821, UP037

    with Publisher("/state", Elsewhere, queue_size=len(LAX)) as publisher:
        tell("ready")
        hear()
        for fields in LAX:
            assert publisher.publish(Elsewhere(**fields))
        hear()


def test_annotations_bind_nothing_between_processes(elsewhere: Elsewhere) -> None:
    other = elsewhere.start(publish_states)
    other.hear()

    async def main() -> None:
        with Subscriber("/state", State, queue_size=len(LAX)) as subscriber:
            assert subscriber.is_connected
            other.tell()
            for fields in LAX:
                received = await subscriber.receive()
                assert received is not None
                assert received[0] == State(**fields)

    run(main())
    other.tell()


def test_annotations_of_standard_messages_bind_nothing_either() -> None:
    sent = [
        PoseMessage([0, 0, 0], (0, 0, 0, 1)),
        IntMessage(1.5),
        StringMessage(7),
        ArrayMessage([1, 2]),
        DictMessage({1: None}),
    ]
    for message in sent:
        again, header = type(message).from_bytes(message.to_bytes())
        assert again == message
        assert type(Message.decode(message.to_bytes())[0]) is type(message)
        assert MessageType.get(header.fingerprint) is type(message)
    assert all(issubclass(getattr(standard, name), Message) for name in standard.__all__)


def test_standard_messages_are_the_types_that_tensorbus_has() -> None:
    for name in standard.__all__:
        assert getattr(standard, name).definition() == getattr(tb, name).definition()
    assert tb.MessageType.get(tb.IntMessage.fingerprint()) is tb.IntMessage
    with (
        tb.Subscriber("/number", tb.IntMessage, timeout=PATIENCE) as subscriber,
        Publisher("/number", IntMessage) as publisher,
    ):
        assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)
        assert publisher.publish(IntMessage(7))
        assert publisher.publish(IntMessage(1.5))  # which one that checks refuses
        assert subscriber.receive().data == tb.IntMessage(7)
        with pytest.raises(tb.MessageError, match=r"IntMessage\.data: expected int, got float"):
            _ = subscriber.receive().data


def test_tensors_with_a_history_are_detached(torch: Any) -> None:
    made = torch.nn.Linear(2, 2)(torch.ones(2))

    async def main() -> None:
        async with Node("node") as node:
            publisher = node.create_publisher("/features", DictMessage)
            subscriber = node.create_subscriber("/features", DictMessage)
            for _ in range(3):
                assert publisher.publish(DictMessage({"a": [made, 1], "b": (made * 2,)}))
                received = await subscriber.receive()
                assert received is not None
                data = received[0].data  # type: ignore[attr-defined]
                assert torch.equal(data["a"][0], made)
                assert data["a"][0].requires_grad
                assert data["a"][0].is_leaf
                assert torch.equal(data["b"][0], made * 2)

    run(main())
    message = TensorMessage(made)
    again = TensorMessage.from_bytes(message.to_bytes())[0]
    assert torch.equal(again.data, made)
    assert message.data is made
    assert not made.is_leaf


def test_what_can_not_travel_is_an_error_that_names_it() -> None:
    with Publisher("/d", DictMessage) as publisher:
        with pytest.raises(TypeError, match="Event"):
            publisher.publish(DictMessage({"e": threading.Event()}))
        itself: list[Any] = []
        itself.append(itself)
        with pytest.raises(TypeError, match="nested deeper than 60 levels"):
            publisher.publish(DictMessage({"l": itself}))


def test_a_recorder_keeps_what_it_receives_without_end(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with Publisher("/frames", ArrayMessage, queue_size=1000) as publisher:
            tell("ready")
            hear()
            for number in range(600):
                assert publisher.publish(ArrayMessage(np.full((16, 16), number)))
            hear()

    async def main() -> None:
        kept: list[tuple[int, Any]] = []

        async def keep(message: Any, header: MessageHeader) -> None:
            kept.append((header.sequence, message.data))

        async with Node("recorder") as node:
            subscriber = node.create_subscriber("/frames", ArrayMessage, keep, queue_size=1000)
            running = await started(node.run())
            other.tell()
            await becomes(lambda: len(kept) == 600)
            node.stop()
            await running
        assert subscriber.dropped_count == 0
        assert all((frame == number).all() for number, frame in kept)
        assert [number for number, _ in kept] == list(range(600))

    other = elsewhere.start(publish)
    other.hear()
    run(main())
    other.tell()


@pytest.mark.parametrize("max_held", [1, 3, 1000])
def test_how_many_are_held_can_be_said(max_held: int) -> None:
    async def main() -> None:
        async with Node("node") as node:
            publisher = node.create_publisher("/n", ArrayMessage, queue_size=50)
            subscriber = node.create_subscriber(
                "/n", ArrayMessage, queue_size=50, max_held=max_held
            )
            kept = []
            for number in range(40):
                publisher.publish(ArrayMessage(np.full(1000, number)))
                kept.append(await subscriber.receive())
            assert None not in kept
            held = subscriber.subscription.stats.held  # type: ignore[union-attr]
            assert held <= max_held
            assert (held == 40) is (max_held == 1000)

    run(main())


def test_receive_of_a_subscriber_that_is_not_connected_returns_none_at_once() -> None:
    async def main() -> None:
        with Subscriber("/number", IntMessage) as subscriber:
            assert not subscriber.is_connected
            assert await asyncio.wait_for(subscriber.receive(), PATIENCE) is None
            with Publisher("/number", IntMessage) as publisher:
                assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)
                await becomes(lambda: subscriber.is_connected)
                receiving = await started(subscriber.receive())  # now it waits
                publisher.publish(IntMessage(7))
                received = await receiving
                assert received is not None
                assert received[0] == IntMessage(7)

    run(main())


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_with_queue_size_1_a_callback_that_keeps_up_loses_nothing_at_1_khz(
    elsewhere: Elsewhere, mode: Any
) -> None:
    def publish() -> None:
        with Node("source") as node:
            publisher = node.create_publisher("/n", IntMessage, mode="sync")
            tell("ready")
            hear()
            assert publisher.publisher.wait_for_subscribers(timeout=PATIENCE)

            def tick() -> None:
                publisher.publish(IntMessage(publisher.publish_count))
                if publisher.publish_count == 1000:
                    node.stop()

            node.create_timer(0.001, tick, mode="sync")
            node.spin()
            hear()

    other = elsewhere.start(publish)
    other.hear()
    got: list[int] = []
    times = [time.monotonic()]

    async def on_async(message: IntMessage, header: MessageHeader) -> None:
        on_sync(message, header)

    def on_sync(message: IntMessage, header: MessageHeader) -> None:
        got.append(message.data)
        times.append(time.monotonic())

    async def main() -> None:
        async with Node("sink") as node:
            callback = on_async if mode == "async" else on_sync
            subscriber = node.create_subscriber("/n", IntMessage, callback, queue_size=1, mode=mode)
            running = await started(node.run())
            other.tell()
            await becomes(lambda: bool(got) and got[-1] == 999)
            node.stop()
            await running
        assert got == sorted(got)
        assert len(got) + subscriber.dropped_count == 1000
        # It keeps up, unless the machine stalls for longer than samples may wait: 50 ms.
        gaps = (after - before for before, after in pairwise(times))
        stalled = sum(gap for gap in gaps if gap > 0.04)
        assert subscriber.dropped_count <= 1000 * stalled  # no more than came meanwhile

    run(main())
    other.tell()


def test_the_class_of_the_page_is_the_struct_of_the_page_in_cpp() -> None:
    page = (ROOT / "docs/tasks/port_from_cortex.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    struct = re.search(r'TENSORBUS_MESSAGE\(WheelCommand, "(.*?)", left, right\)', page)
    assert struct is not None
    assert done.stdout == f"{struct[1]}\nleft: float = ...\nright: float = ...\n"
    # A module's class is called after both.
    assert IntMessage.definition().startswith("tensorbus.IntMessage\n")
    assert Unnamed.definition().startswith(f"{__name__}.Unnamed\n")


def test_a_header_has_24_bytes_and_says_whose_it_is() -> None:
    header = MessageHeader(1, 2, 3)
    assert len(header.to_bytes()) == MessageHeader.size() == 24
    assert MessageHeader.from_bytes(header.to_bytes() + b"more") == header

    async def main() -> None:
        with Publisher("/n", IntMessage) as publisher, Subscriber("/n", IntMessage) as subscriber:
            publisher.publish(IntMessage(7), flags=1)
            received = await subscriber.receive()
            assert received is not None
            assert isinstance(received[1], MessageHeader)
            assert (received[1].sequence, received[1].topic) == (0, "/n")
            assert received[1].fingerprint == IntMessage.fingerprint()

    run(main())


@classes_are_freed
def test_to_bytes_counts_for_each_class() -> None:
    @dataclass
    class Counted(Message):
        x: int

    numbers = [Counted.from_bytes(Counted(0).to_bytes())[1].sequence for _ in range(3)]
    assert numbers == [0, 1, 2]
    assert Counted.from_bytes(Counted(0).to_bytes(9))[1].sequence == 9
    assert Counted.from_bytes(Counted(0).to_bytes())[1].sequence == 3
    data = Counted(0).to_bytes()
    del Counted
    gc.collect()  # a class that nobody holds is not known
    with pytest.raises(ValueError, match="Counted"):
        Message.decode(data)


def test_attributes_and_parameters_that_programs_of_cortex_use() -> None:
    with Publisher(
        "/n", IntMessage, "source", "ipc:///tmp/d", 5, auto_register=True, context=object()
    ) as publisher:
        assert publisher.address.startswith("ipc:///")
        assert (publisher.node_name, publisher.queue_size) == ("source", 5)
        assert publisher.discovery_address == "ipc:///tmp/d"
        with Subscriber("/n", IntMessage, None, "sink", "", 6, True, 1.0, None, True) as subscriber:
            assert subscriber.topic_info is not None
            assert subscriber.topic_info.address == publisher.address
            assert (subscriber.node_name, subscriber.queue_size) == ("sink", 6)
            assert subscriber.topic_timeout == 1.0
    with Publisher("/n", IntMessage, auto_register=False) as publisher:
        assert not publisher.is_registered


@pytest.mark.parametrize("size", [0, -1, 65_537])
def test_a_queue_size_that_cannot_be_is_an_error_that_names_it(size: int) -> None:
    expected = f"queue_size={size}: expected a whole number from 1 to 65536"
    with Node("node") as node:
        for made in (Publisher, Subscriber, node.create_publisher, node.create_subscriber):
            with pytest.raises(ValueError, match=expected):
                made("/n", IntMessage, queue_size=size)  # type: ignore[operator]


def test_a_field_may_be_called_as_a_method_of_messages() -> None:
    @dataclass
    class Word(Message):
        definition: int = 0
        fingerprint: int = 0
        _plan: int = 0

    assert compute_fingerprint(Word) != 0
    with Publisher("/word", Word) as publisher, Subscriber("/word", Word) as subscriber:
        publisher.publish(Word(1, 2, 3))
        received = asyncio.run(subscriber.receive())
        assert received is not None
        assert received[0] == Word(1, 2, 3)


def test_a_stalled_publisher_does_not_hold_the_constructor(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with Publisher("/n", IntMessage):
            tell("ready")
            hear()

    other = elsewhere.start(publish)
    other.hear()
    other.stop()
    begin = time.monotonic()
    with Subscriber("/n", IntMessage) as subscriber:
        assert time.monotonic() - begin < PATIENCE
        assert not subscriber.is_connected
        other.signal(signal.SIGCONT)
        eventually(lambda: subscriber.is_connected)
    other.tell()
