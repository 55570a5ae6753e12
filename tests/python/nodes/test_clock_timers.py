"""Timers that follow a clock topic: one that a test publishes, and that of a player."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.node_runs import connected
from support.screens.commands import Done, program, run_program

BEGIN = 1_700_000_000_000_000_000
SECOND = 1_000_000_000

BOTH = pytest.mark.parametrize("mode", ["async", "sync"])


@contextmanager
def ticking(
    mode: Any, period: float, callback: Callable[[], object] = lambda: None, **options: Any
) -> Iterator[tb.Timer]:
    """A timer by the topic "clock", of a node that runs in a thread of its own."""
    node = tb.Node("node", clock="clock", on_error="log")
    timer = node.create_timer(period, callback, mode=mode, **options)

    async def run() -> None:
        async with node:
            await node.run()

    thread = threading.Thread(target=node.spin if mode == "sync" else lambda: asyncio.run(run()))
    thread.start()
    try:
        yield timer
    finally:
        node.stop()
        thread.join(PATIENCE)
        if mode == "sync":
            node.close_sync()
        assert not thread.is_alive()


class Clock:
    """Says times, and returns when the timer has ticked so often."""

    def __init__(self, publisher: tb.Publisher, timer: tb.Timer) -> None:
        self._publisher = connected(publisher)
        self._timer = timer

    def says(self, *times: float, ticks: int) -> None:
        for seconds in times:
            time_ns = BEGIN + round(seconds * SECOND)
            self._publisher.publish({"time_ns": time_ns, "rate": 1.0, "paused": False})
            eventually(lambda time_ns=time_ns: self._timer.time_ns == time_ns)
        eventually(lambda: self._timer.ticks == ticks)


@BOTH
def test_ticks_come_with_the_clock_and_stand_with_it(mode: Any) -> None:
    with ticking(mode, 0.1) as timer, tb.Publisher("clock") as publisher:
        clock = Clock(publisher, timer)
        clock.says(0, 0.099, ticks=0)
        clock.says(0.1, 0.1, 0.15, ticks=1)
        clock.says(0.2, ticks=2)
        clock.says(10, ticks=100)
        assert timer.overruns == 97
        clock.says(5, ticks=100)  # the clock went back: it begins anew
        clock.says(5.25, 5.29, ticks=102)
    assert timer.ticks == 102


def test_a_node_stops_within_a_long_step() -> None:
    """Also if the callback awaits nothing: the loop has its turn between two ticks."""

    async def run() -> tuple[int, int]:
        asked_at = 0
        async with tb.Node("node", clock="clock") as node:

            def ask() -> None:
                nonlocal asked_at
                asked_at = timer.ticks
                node.stop()

            def tick() -> None:
                if timer.ticks == 3:
                    asyncio.get_running_loop().call_soon(ask)

            async def publish() -> None:
                with tb.Publisher("clock") as publisher:
                    await asyncio.to_thread(connected, publisher)
                    publisher.publish({"time_ns": BEGIN})
                    while timer.time_ns == 0:
                        await asyncio.sleep(0)
                    publisher.publish({"time_ns": BEGIN + 100 * SECOND})
                    await asyncio.Event().wait()

            timer = node.create_timer(0.001, tick)
            task = asyncio.create_task(publish())
            await node.run()
            task.cancel()
            return asked_at, timer.ticks

    asked_at, ticks = asyncio.run(run())
    assert asked_at <= ticks <= asked_at + 2 < 100


@BOTH
def test_a_long_step_has_one_tick_with_skip(mode: Any) -> None:
    with ticking(mode, 0.1, skip=True) as timer, tb.Publisher("clock") as publisher:
        clock = Clock(publisher, timer)
        clock.says(0, ticks=0)
        clock.says(1.05, 1.09, ticks=1)
        clock.says(1.1, ticks=2)
    assert (timer.ticks, timer.overruns) == (2, 9)


@BOTH
def test_the_first_tick_may_come_with_the_first_time(mode: Any) -> None:
    with ticking(mode, 0.1, at_once=True) as timer, tb.Publisher("clock") as publisher:
        assert timer.ticks == 0
        Clock(publisher, timer).says(0, ticks=1)
    assert timer.ticks == 1


@BOTH
def test_another_clock_begins_anew(mode: Any) -> None:
    with ticking(mode, 0.1) as timer:
        with tb.Publisher("clock") as publisher:
            Clock(publisher, timer).says(0, 0.1, ticks=1)
        with tb.Publisher("clock") as publisher:
            Clock(publisher, timer).says(1000, 1000.1, ticks=2)
    assert timer.ticks == 2


@BOTH
def test_an_error_of_a_tick_or_of_a_message_stops_nothing(mode: Any) -> None:
    def tick() -> None:
        raise ValueError("of a tick")

    with ticking(mode, 0.1, tick) as timer, tb.Publisher("clock") as publisher:
        clock = Clock(publisher, timer)
        clock.says(0, 0.25, ticks=2)
        publisher.publish("this is no time")
        clock.says(0.3, ticks=3)
    assert timer.ticks == 3


@BOTH
def test_a_cancelled_timer_ticks_no_more(mode: Any) -> None:
    def tick() -> None:
        if timer.ticks == 2:
            timer.cancel()

    with ticking(mode, 0.1, tick) as timer, tb.Publisher("clock") as publisher:
        Clock(publisher, timer).says(0, 5, ticks=2)
    assert timer.ticks == 2


def test_without_a_clock_nothing_ticks_and_the_node_ends() -> None:
    with tb.Node("node", clock="clock") as node:
        timer = node.create_timer(1e-9, lambda: None, mode="sync")
        assert not node.spin(0.01)
        assert (timer.ticks, timer.time_ns) == (0, 0)
    with tb.Node("one", clock="clock") as node, pytest.raises(tb.InvalidArgument, match="period"):
        node.create_timer(0, lambda: None)
    with pytest.raises(tb.InvalidArgument, match="topic"):
        tb.Node("node", clock="")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten messages, a second of recorded time apart."""
    writer, reader = pytest.importorskip("mcap.writer"), pytest.importorskip("mcap.reader")
    first, path = tmp_path / "first.mcap", tmp_path / "run.mcap"
    with (
        tb.Publisher("number", reliable=True) as publisher,
        tb.Recorder(first, "number", reliable=True),
    ):
        connected(publisher)
        for number in range(10):
            publisher.publish(number)
    with first.open("rb") as source, path.open("wb") as target:
        out = writer.Writer(target)
        out.start()
        messages = [message for _, _, message in reader.make_reader(source).iter_messages()]
        channel = out.register_channel("number", "tensorbus", 0)
        for number, message in enumerate(messages):
            at = BEGIN + number * SECOND
            out.add_message(channel, at, message.data, at, number)
        out.finish()
    return path


@contextmanager
def playing(path: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = (program(), "play", str(path), "--clock", "clock", "--name", "player", *options)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def player(*what: str) -> Done:
    done = run_program("player", *what, "--name", "player")
    assert done.status == 0
    return done


@BOTH
def test_ticks_follow_a_player_in_another_process(path: Path, mode: Any) -> None:
    with ticking(mode, 0.1) as timer, playing(path, "--paused") as process:
        eventually(lambda: timer.time_ns == BEGIN)
        status = ("player", "status", "--name", "player")
        eventually(lambda: run_program(*status).status == 0)  # it is served
        player("step", "4")
        eventually(lambda: timer.ticks == 30)
        player("step")
        eventually(lambda: timer.ticks == 40)
        assert player("status", "--json").row["paused"]
        assert timer.ticks == 40  # the time stands
        player("rate", "100")
        player("resume")
        assert process.wait(PATIENCE) == 0
        eventually(lambda: timer.ticks == 90)
        assert timer.time_ns == BEGIN + 9 * SECOND


def test_ticks_go_on_with_the_next_turn_and_with_the_next_player(path: Path) -> None:
    with ticking("sync", 0.5) as timer:
        with playing(path, "--rate", "100", "--loop"):
            eventually(lambda: timer.ticks > 60)
        ended = timer.ticks
        with playing(path, "--rate", "100") as process:
            assert process.wait(PATIENCE) == 0
            eventually(lambda: timer.ticks >= ended + 18)
