"""Nodes without an event loop: plain callbacks, a thread for each."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.node_runs import connected


async def coroutine(*_: object) -> None:
    pass


def test_each_subscriber_and_timer_has_a_thread_of_its_own() -> None:
    threads: dict[str, str] = {}

    def note(name: str) -> None:
        threads[name] = threading.current_thread().name
        if len(threads) == 3:
            node.stop()

    with tb.Node("node") as node:
        node.create_subscriber("a", callback=lambda m, h: note(m), mode="sync")
        node.create_subscriber("b", callback=lambda m, h: note(m), mode="sync")
        node.create_timer(0.001, lambda: note("timer"), mode="sync")
        for topic in "ab":
            connected(node.create_publisher(topic)).publish(topic)
        assert not node.is_running
        assert node.spin(PATIENCE)
    assert threads["a"] == "node: topic 'a'"
    assert len({threading.main_thread().name, *threads.values()}) == 4
    assert not any(thread.name.startswith("node: ") for thread in threading.enumerate())


def test_spin_says_whether_it_was_stopped_and_can_go_on() -> None:
    got: list[int] = []
    with tb.Node("node") as node:
        node.create_subscriber("topic", callback=lambda m, h: got.append(m), mode="sync")
        publisher = connected(node.create_publisher("topic"))
        assert not node.spin(0)
        assert node.is_running
        publisher.publish(1)
        eventually(lambda: got == [1])  # between two spins
        assert not node.spin(0.001)
        publisher.publish(2)
        eventually(lambda: got == [1, 2])
        node.stop()
        assert node.spin()
    assert node.get_subscriber("topic").receive_count == 2  # type: ignore[union-attr]
    with pytest.raises(tb.Closed):
        node.spin()


@pytest.mark.parametrize("on_error", ["log", "stop", "raise"])
def test_an_exception_does_what_was_chosen(on_error: Any, caplog: pytest.LogCaptureFixture) -> None:
    got: list[int] = []

    def fail(message: int, header: tb.Header) -> None:
        got.append(message)
        if message == 2:
            node.stop()
        raise ValueError("no")

    with tb.Node("node", on_error=on_error) as node:
        node.create_subscriber("topic", callback=fail, mode="sync")
        publisher = connected(node.create_publisher("topic"))
        for number in range(3):
            publisher.publish(number)
        if on_error == "raise":
            with pytest.raises(ValueError, match="no"):
                node.spin(PATIENCE)
        else:
            assert node.spin(PATIENCE)
    assert got == ([0, 1, 2] if on_error == "log" else [0])
    assert caplog.records[0].getMessage() == (
        "node 'node', topic 'topic', sequence 0: ValueError: no"
    )


def test_a_slow_callback_holds_up_nobody_and_what_it_misses_is_counted() -> None:
    got: list[int] = []
    blocked, go_on = threading.Event(), threading.Event()

    def slow(message: int, header: tb.Header) -> None:
        blocked.set()
        go_on.wait(PATIENCE)

    with tb.Node("node") as node:
        slow_one = node.create_subscriber("topic", callback=slow, mode="sync", queue_size=1)
        node.create_subscriber("topic", callback=lambda m, h: got.append(m), mode="sync")
        publisher = connected(node.create_publisher("topic"), 2)
        node.spin(0)
        publisher.publish(0)
        assert blocked.wait(PATIENCE)
        for number in range(1, 6):
            publisher.publish(number)
            eventually(lambda: len(got) == number + 1)  # noqa: B023
        go_on.set()
        eventually(lambda: slow_one.receive_count == 2)
        assert slow_one.dropped_count == 4


@pytest.mark.parametrize("make", ["subscriber", "timer"])
def test_async_work_needs_an_event_loop(make: str) -> None:
    node = tb.Node("node")
    if make == "timer":
        node.create_timer(1, coroutine)
    else:
        node.create_subscriber("topic", callback=coroutine)
    with pytest.raises(RuntimeError, match="node 'node' has async work"):
        node.spin()
    with pytest.raises(RuntimeError, match="node 'node' has async work"):
        node.close_sync()
    asyncio.run(node.close())
    assert tb.list_nodes() == []


def test_a_coroutine_function_and_a_missing_callback_are_refused() -> None:
    with tb.Node("node") as node:
        with pytest.raises(TypeError, match="coroutine is a coroutine function"):
            node.create_subscriber("topic", callback=coroutine, mode="sync")
        with pytest.raises(TypeError, match="coroutine function"):
            node.create_timer(1, coroutine, mode="sync")
        with pytest.raises(TypeError, match="coroutine function"):
            node.spawn_thread(coroutine)
        with pytest.raises(ValueError, match="callback=None"):
            node.create_subscriber("topic", mode="sync")
        with pytest.raises(ValueError, match="mode='both'"):
            node.create_timer(1, print, mode="both")  # type: ignore[arg-type]


def test_synchronous_work_runs_beside_an_event_loop() -> None:
    async def main() -> set[str]:
        names: set[str] = set()

        def note(*_: object) -> None:
            names.add(threading.current_thread().name)
            if len(names) == 2:
                node.stop()

        async with tb.Node("node") as node:
            node.create_subscriber("topic", callback=note)
            node.create_subscriber("topic", callback=note, mode="sync")
            connected(node.create_publisher("topic"), 2).publish(1)
            await asyncio.wait_for(node.run(), PATIENCE)
        return names

    assert asyncio.run(main()) == {threading.main_thread().name, "node: topic 'topic'"}


def test_a_spawned_thread_ends_with_the_node() -> None:
    ended: list[Any] = []

    def work(stop: threading.Event, *args: Any, **kwargs: Any) -> None:
        stop.wait()
        ended.append((args, kwargs))

    with tb.Node("node") as node:
        thread = node.spawn_thread(work, 1, 2, name="worker", three=3)
        assert thread.name == "node: worker"
        assert not node.stop_event.is_set()
    assert ended == [((1, 2), {"three": 3})]

    async def main() -> None:
        async with tb.Node("node") as node:
            node.spawn_thread(work, 4)

    asyncio.run(main())
    assert ended[1] == ((4,), {})


def test_a_spawned_thread_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def fail(stop: threading.Event) -> None:
        raise ValueError("no")

    with tb.Node("node", on_error="raise") as node:
        node.spawn_thread(fail)
        with pytest.raises(ValueError, match="no"):
            node.spin(PATIENCE)
    assert "fail: ValueError: no" in caplog.text


@pytest.mark.parametrize("where", ["subscriber", "timer", "thread"])
def test_what_exits_in_a_thread_ends_the_node_and_spin(where: str) -> None:
    def leave(*_: object) -> None:
        sys.exit(3)

    with tb.Node("node") as node:
        if where == "subscriber":
            node.create_subscriber("topic", callback=leave, mode="sync")
            connected(node.create_publisher("topic")).publish(1)
        elif where == "timer":
            node.create_timer(0.001, leave, mode="sync")
        else:
            node.spawn_thread(leave)
        with pytest.raises(SystemExit, match="3"):
            node.spin(PATIENCE)


@pytest.mark.parametrize("where", ["subscriber", "timer"])
def test_a_cancelled_error_in_a_thread_is_an_error_of_its_callback(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def cancelled(*_: object) -> None:
        node.stop()
        raise asyncio.CancelledError("by a task of a pool")

    with tb.Node("node") as node:
        if where == "subscriber":
            node.create_subscriber("topic", callback=cancelled, mode="sync")
            connected(node.create_publisher("topic")).publish(1)
        else:
            node.create_timer(0.001, cancelled, mode="sync")
        assert node.spin(PATIENCE)
    assert "CancelledError: by a task of a pool" in caplog.text


def test_a_callback_may_close_its_node_from_its_thread() -> None:
    node = tb.Node("node")
    node.create_subscriber("topic", callback=lambda m, h: node.close_sync(), mode="sync")
    connected(node.create_publisher("topic")).publish(1)
    assert node.spin(PATIENCE)
    eventually(lambda: tb.list_nodes() == [])


def test_callbacks_in_several_threads_may_close_their_node_at_once(elsewhere: Elsewhere) -> None:
    def close_at_once() -> None:
        at_once, closed = threading.Barrier(3), []

        def close(message: object, header: tb.Header) -> None:
            at_once.wait(PATIENCE)
            node.close_sync()
            closed.append(message)

        with tb.Node("node") as node:
            for topic in "abc":
                node.create_subscriber(topic, callback=close, mode="sync")
                connected(node.create_publisher(topic)).publish(1)
            assert node.spin(PATIENCE)
        tell(len(closed))

    assert elsewhere.start(close_at_once).hear() == 3


def test_a_thread_runs_where_it_is_told_to() -> None:
    cpu = max(os.sched_getaffinity(0))
    ran: list[set[int]] = []

    def tick() -> None:
        ran.append(os.sched_getaffinity(0))
        node.stop()

    before = os.sched_getaffinity(0)
    with tb.Node("node") as node:
        node.create_timer(0.001, tick, mode="sync", cpu_affinity=cpu)
        assert node.spin(PATIENCE)
        with pytest.raises(tb.InvalidArgument, match=r"cpu_affinity=\(100000,\).*may run on CPUs"):
            node.create_timer(1, tick, mode="sync", cpu_affinity=100000)
        with pytest.raises(tb.InvalidArgument, match="sched_priority=1000: expected 1 to 99"):
            node.create_timer(1, tick, mode="sync", sched_priority=1000)
    assert ran[0] == {cpu}
    assert os.sched_getaffinity(0) == before


def test_a_real_time_priority_is_refused_with_what_is_missing(elsewhere: Elsewhere) -> None:
    def without_privileges() -> None:
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
        with tb.Node("node") as node:
            user = os.geteuid()
            os.seteuid(user or 65534)  # which takes CAP_SYS_NICE from root
            try:
                node.create_timer(1, print, mode="sync", sched_priority=10)
            except tb.AccessDenied as error:
                tell(str(error))
            os.seteuid(user)

    text = elsewhere.start(without_privileges).hear()
    assert "CAP_SYS_NICE" in text
    assert "at least 10" in text


def test_the_priority_is_that_of_the_thread() -> None:
    seen: list[int] = []

    def tick() -> None:
        seen.append(os.sched_getscheduler(0))
        node.stop()

    with tb.Node("node") as node:
        try:
            node.create_timer(0.001, tick, mode="sync", sched_priority=1)
        except tb.AccessDenied as error:
            pytest.skip(str(error))
        assert node.spin(PATIENCE)
    assert seen[0] == os.SCHED_FIFO
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_loop_of_two_processes_answers_every_message(elsewhere: Elsewhere) -> None:
    def control() -> None:
        def on_state(message: float, header: tb.Header) -> None:
            command.publish(message + 1)

        with tb.Node("controller") as node:
            command = node.create_publisher("command", reliable=True, history=20)
            node.create_subscriber("state", callback=on_state, mode="sync")
            node.spawn_thread(lambda stop: (hear(), node.stop()))
            tell("ready")
            node.spin()

    other = elsewhere.start(control)
    assert other.hear() == "ready"
    answers: list[float] = []
    with tb.Node("plant") as node:
        state = node.create_publisher("state", reliable=True)
        node.create_subscriber("command", callback=lambda m, h: answers.append(m), mode="sync")
        connected(state)
        numbers = iter(range(20))

        def tick() -> None:
            number = next(numbers, None)
            if number is not None:
                state.publish(number)

        node.create_timer(0.002, tick, mode="sync")
        node.spin(0)
        eventually(lambda: len(answers) == 20)
    assert answers == list(range(1, 21))
    other.tell()
