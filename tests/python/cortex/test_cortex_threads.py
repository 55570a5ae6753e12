"""Cortex's ThreadedSubscriber: connected when it is made, and a thread that starts and stops."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import Any

import pytest

from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from tensorbus.cortex import Node, Publisher
from tensorbus.cortex.core import MessageFingerprintError, ThreadedSubscriber
from tensorbus.cortex.core.subscriber_base import SubscriberBase
from tensorbus.cortex.messages.standard import IntMessage, StringMessage


def ignored(message: Any, header: Any) -> None:
    pass


def test_it_calls_back_in_a_thread_that_starts_and_stops(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        with Publisher("/number", IntMessage, node_name="source") as publisher:
            tell(publisher.address)
            while (number := hear()) is not None:
                publisher.publish(IntMessage(number))

    other = elsewhere.start(publish)
    address = other.hear()
    got: list[tuple[int, str]] = []

    def on_number(message: IntMessage, header: Any) -> None:
        got.append((message.data, threading.current_thread().name))
        if message.data == 1:
            raise ValueError("a callback's errors are logged")

    with ThreadedSubscriber("/number", IntMessage, on_number, "sink", queue_size=8) as subscriber:
        assert subscriber.is_connected
        assert subscriber.topic_info is not None
        assert subscriber.topic_info.address == address
        assert subscriber.topic_info.publisher_node == "source"
        assert not subscriber.running
        for first in (0, 2):
            subscriber.start()
            subscriber.start()  # is idempotent
            assert subscriber.running
            assert subscriber.is_running
            for number in (first, first + 1):
                other.tell(number)
            eventually(lambda first=first: len(got) == first + 2)
            subscriber.stop(timeout=PATIENCE)
            assert not subscriber.running
        assert [number for number, _ in got] == [0, 1, 2, 3]
        assert {name for _, name in got} == {"sink: topic '/number'"}
        assert subscriber.receive_count == subscriber.stats.received == 4
        assert (subscriber.dropped_count, subscriber.stats.dropped_estimated) == (0, 0)
        assert list(subscriber.stats.last_sequence_by_publisher.values()) == [3]
        assert subscriber.stats.last_recv_perf_ns is not None
    subscriber.close()  # is idempotent
    assert not subscriber.is_connected
    other.tell(None)


def test_closing_wakes_an_idle_thread() -> None:
    with Publisher("/number", IntMessage):
        subscriber = ThreadedSubscriber("/number", IntMessage, ignored)
        subscriber.start()
        thread = subscriber._worker._thread
        subscriber.close()
        assert thread is not None
        assert not thread.is_alive()


def test_a_coroutine_callback_is_refused_as_not_synchronous() -> None:
    async def coroutine(message: Any, header: Any) -> None:
        pass

    with pytest.raises(TypeError, match="synchronous"):
        ThreadedSubscriber("/number", IntMessage, coroutine)


def test_no_topic_in_time_is_a_timeout_error_when_it_is_made() -> None:
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"topic '/number' had no publisher in 0\.1 s"):
        ThreadedSubscriber("/number", IntMessage, ignored, topic_timeout=0.1)
    assert time.monotonic() - begin >= 0.1
    with Node("node") as node, pytest.raises(TimeoutError):
        node.create_subscriber("/number", IntMessage, ignored, mode="sync", topic_timeout=0.1)


def test_it_waits_for_a_publisher_that_comes_later(elsewhere: Elsewhere) -> None:
    def publish() -> None:
        hear()
        with Publisher("/number", IntMessage):
            hear()

    other = elsewhere.start(publish)
    threading.Timer(0.1, other.tell).start()
    with ThreadedSubscriber("/number", IntMessage, ignored, topic_timeout=PATIENCE) as subscriber:
        assert subscriber.is_connected
        other.tell()


def test_another_type_is_an_error_when_it_is_made() -> None:
    with Publisher("/number", StringMessage):
        with pytest.raises(MessageFingerprintError, match="IntMessage") as raised:
            ThreadedSubscriber("/number", IntMessage, ignored)
        assert isinstance(raised.value, RuntimeError)


def test_a_publisher_of_another_type_that_comes_later_ends_the_thread_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        Publisher("/number", IntMessage),
        ThreadedSubscriber("/number", IntMessage, ignored) as subscriber,
    ):
        subscriber.start()
        with Publisher("/number", StringMessage):
            eventually(lambda: not subscriber.running)
    assert "StringMessage" in caplog.text


@pytest.mark.parametrize("wanted", [{"cpu_affinity": [4095]}, {"sched_priority": 1000}])
def test_a_place_that_cannot_be_had_is_logged(
    wanted: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    got: list[int] = []
    with Publisher("/number", IntMessage) as publisher, Node("node") as node:
        with caplog.at_level(logging.WARNING):
            node.create_subscriber(
                "/number", IntMessage, lambda m, h: got.append(m.data), mode="sync", **wanted
            )
            publisher.publish(IntMessage(7))
            threading.Thread(target=node.spin).start()
            eventually(lambda: got == [7])
            node.stop()
        assert next(iter(wanted)) in caplog.text


def test_without_the_capability_a_priority_is_logged(elsewhere: Elsewhere) -> None:
    def program() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
        os.setuid(65534)
        got: list[int] = []
        with Publisher("/number", IntMessage, domain=f"nobody-{os.getpid()}") as publisher:
            subscriber = ThreadedSubscriber(
                "/number",
                IntMessage,
                lambda m, h: got.append(m.data),
                sched_priority=20,
                domain=f"nobody-{os.getpid()}",
            )
            subscriber.start()
            publisher.publish(IntMessage(7))
            while not got:
                time.sleep(0.001)
            subscriber.close()
        tell(got)

    if os.geteuid() != 0:
        pytest.skip("needs root, to give it up")
    other = elsewhere.start(program, env={"TENSORBUS_DOMAIN": ""})
    assert other.hear() == [7]
    code, errors = other.end()
    assert code == 0
    assert "sched_priority=20: SCHED_FIFO needs CAP_SYS_NICE" in errors


def test_cpu_affinity_is_the_threads_alone() -> None:
    cpu = min(os.sched_getaffinity(0))
    found: list[set[int]] = []
    with (
        Publisher("/number", IntMessage) as publisher,
        ThreadedSubscriber(
            "/number",
            IntMessage,
            lambda m, h: found.append(os.sched_getaffinity(0)),
            cpu_affinity=[cpu],
        ) as subscriber,
    ):
        subscriber.start()
        publisher.publish(IntMessage(7))
        eventually(lambda: found == [{cpu}])
    assert len(os.sched_getaffinity(0)) == os.cpu_count() or cpu in os.sched_getaffinity(0)


def test_the_base_by_itself_knows_its_topic() -> None:
    base = SubscriberBase("/number", IntMessage, node_name="node", topic_timeout=1.0)
    assert (base.topic_name, base.node_name, base.topic_timeout) == ("/number", "node", 1.0)
    assert base.topic_info is None
    assert not base.is_connected
    assert (base.receive_count, base.dropped_count) == (0, 0)
    base.close()


def test_its_callback_is_called_once_at_a_time_when_a_stop_did_not_wait_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[int] = []
    go_on, again = threading.Event(), threading.Event()

    def on_number(message: IntMessage, header: Any) -> None:
        got.append(message.data)
        if len(got) == 2:
            again.set()
        assert go_on.wait(PATIENCE)

    with (
        Publisher("/number", IntMessage) as publisher,
        ThreadedSubscriber("/number", IntMessage, on_number, queue_size=8) as subscriber,
    ):
        subscriber.start()
        for number in range(2):
            publisher.publish(IntMessage(number))
        eventually(lambda: got == [0])
        subscriber.stop(timeout=0.01)
        assert "has not ended in time" in caplog.text
        subscriber.start()
        assert subscriber.running
        assert not again.wait(0.2)
        go_on.set()
        eventually(lambda: got == [0, 1])


def test_starts_from_several_threads_make_one_thread() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Publisher("/number", IntMessage):
            for number in range(30):
                subscriber = ThreadedSubscriber("/number", IntMessage, ignored, f"node {number}")
                together = threading.Barrier(4)
                starts = [
                    threading.Thread(target=lambda: (together.wait(), subscriber.start()))  # noqa: B023
                    for _ in range(4)
                ]
                for start in starts:
                    start.start()
                for start in starts:
                    start.join(PATIENCE)
                names = [thread.name for thread in threading.enumerate()]
                assert names.count(f"node {number}: topic '/number'") == 1
                subscriber.close()
    finally:
        sys.setswitchinterval(interval)


def test_a_timer_ticks_in_the_next_spin_though_its_last_tick_goes_on() -> None:
    ticks: list[int] = []
    go_on = threading.Event()

    def tick() -> None:
        ticks.append(1)
        assert go_on.wait(PATIENCE)

    with Node("node") as node:
        node.create_timer(0.01, tick, mode="sync")
        assert not node.spin(0.1)
        assert len(ticks) == 1
        spinning = threading.Thread(target=node.spin)
        spinning.start()
        eventually(lambda: node.is_running)
        go_on.set()
        eventually(lambda: len(ticks) > 2)
        node.stop()
        spinning.join(PATIENCE)
        assert not spinning.is_alive()


def test_a_queue_size_of_0_is_1_and_others_are_refused_before_it_waits() -> None:
    with (
        Publisher("/number", IntMessage),
        ThreadedSubscriber("/number", IntMessage, ignored, queue_size=0) as subscriber,
    ):
        assert subscriber.queue_size == 1
    for size in (-1, 65_537, 1.5):
        with pytest.raises(ValueError, match="queue_size="):
            ThreadedSubscriber(
                "/none", IntMessage, ignored, queue_size=size, topic_timeout=PATIENCE
            )  # type: ignore[arg-type]
