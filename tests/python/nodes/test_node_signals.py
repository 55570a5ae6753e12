"""tb.run and signals: what ends a program of nodes, and how."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, hear, tell
from tensorbus._base.stop_event import StopEvent

ENDS = [(signal.SIGINT, "KeyboardInterrupt()"), (signal.SIGTERM, "SystemExit(143)")]


def live_in_a_loop() -> None:
    async def main() -> None:
        async def clean_up(message: object, header: object) -> None:
            try:
                tell("called")
                await asyncio.Event().wait()
            finally:
                tell("cleaned up")

        async with tb.Node("first") as first, tb.Node("second") as second:
            first.create_subscriber("topic", callback=clean_up)
            second.create_publisher("topic", history=1).publish(1)
            await asyncio.gather(first.run(), second.run())

    try:
        tb.run(main())
    except BaseException as error:
        tell(repr(error))
    tell([node.name for node in tb.list_nodes()])


def live_without_uvloop() -> None:
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    live_in_a_loop()


def live_in_threads() -> None:
    def wait(stop: threading.Event) -> None:
        stop.wait()
        tell("cleaned up")

    try:
        with tb.Node("first") as node:
            node.create_timer(0.001, lambda: None, mode="sync")
            node.spawn_thread(wait)
            tell("called")
            node.spin()
    except BaseException as error:
        tell(repr(error))
    tell([node.name for node in tb.list_nodes()])


@pytest.mark.parametrize(("number", "ending"), ENDS)
@pytest.mark.parametrize("live", [live_in_a_loop, live_without_uvloop, live_in_threads])
def test_a_signal_ends_nodes_with_all_their_clean_up(
    elsewhere: Elsewhere, live: object, number: signal.Signals, ending: str
) -> None:
    other = elsewhere.start(live)  # type: ignore[arg-type]
    assert other.hear() == "called"
    other.signal_when_asleep(number)
    assert other.hear() == "cleaned up"
    assert other.hear() == ending
    assert other.hear() == []


def test_sigterm_ends_the_program_with_143_and_without_a_word(elsewhere: Elsewhere) -> None:
    def live() -> None:
        async def main() -> None:
            async with tb.Node("node") as node:
                asyncio.get_running_loop().call_soon(tell, "ready")
                await node.run()

        tb.run(main())

    other = elsewhere.start(live)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGTERM)
    assert other.end() == (143, "")


@pytest.mark.parametrize("by", ["a signal", "its end"])
def test_a_program_that_leaves_its_node_open_ends(elsewhere: Elsewhere, by: str) -> None:
    def live(by: str) -> None:
        node = tb.Node("node")
        node.create_subscriber("topic", callback=lambda m, h: None, mode="sync")
        node.create_timer(0.001, lambda: None, mode="sync")
        node.spawn_thread(lambda stop: stop.wait())
        node.spin(0.001)
        tell("ready")
        if by == "a signal":
            node.spin()

    other = elsewhere.start(live, by)
    assert other.hear() == "ready"
    if by == "a signal":
        other.signal_when_asleep(signal.SIGTERM)
        assert other.end() == (143, "")


def test_ctrl_c_ends_the_program_as_it_does_with_asyncio_run(elsewhere: Elsewhere) -> None:
    def live() -> None:
        async def main() -> None:
            async with tb.Node("node") as node:
                asyncio.get_running_loop().call_soon(tell, "ready")
                await node.run()

        tb.run(main())

    other = elsewhere.start(live)
    assert other.hear() == "ready"
    other.signal_when_asleep(signal.SIGINT)
    code, errors = other.end()
    assert code == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_ctrl_c_that_an_import_of_the_loop_drops_ends_the_program() -> None:
    class Drops:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name == "uvloop":
                with suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                    told.append(name)
                raise ModuleNotFoundError(name)

    async def main() -> None:
        told.append("went on")

    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "uvloop", raising=False)
        patch.setattr(sys, "meta_path", [Drops, *sys.meta_path])
        with pytest.raises(KeyboardInterrupt):
            tb.run(main())
    assert told == ["uvloop"]


def test_the_second_signal_ends_a_callback_that_does_not(elsewhere: Elsewhere) -> None:
    def live() -> None:
        async def main() -> None:
            async with tb.Node("node") as node:
                node.create_timer(0.001, hang)
                await node.run()

        def hang() -> None:
            tell("hangs")
            time.sleep(10 * PATIENCE)

        try:
            tb.run(main())
        except KeyboardInterrupt:
            tell("interrupted")

    other = elsewhere.start(live)
    assert other.hear() == "hangs"
    other.signal_when_asleep(signal.SIGINT)
    other.signal_when_asleep(signal.SIGINT)
    assert other.hear() == "interrupted"


def test_handlers_of_the_program_and_their_absence_are_left_as_they_were(
    elsewhere: Elsewhere,
) -> None:
    def live() -> None:
        async def main() -> None:
            async with tb.Node("node") as node:
                signal.raise_signal(signal.SIGTERM)
                tell("goes on")
                node.stop()
                await node.run()

        signal.signal(signal.SIGTERM, lambda *_: tell("ours"))
        tb.run(main())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        tb.run(asyncio.sleep(0))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    other = elsewhere.start(live)
    assert other.hear() == "ours"
    assert other.hear() == "goes on"


def test_run_returns_what_the_coroutine_returns_or_raises() -> None:
    async def returns() -> int:
        return 7

    async def raises() -> None:
        raise ValueError("no")

    async def nests() -> None:
        tb.run(returns())

    assert tb.run(returns()) == 7
    with pytest.raises(ValueError, match="no"):
        tb.run(raises())
    with pytest.raises(RuntimeError, match="runs in this thread already"):
        tb.run(nests())


def test_run_uses_uvloop_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(tb.run(loop()), uvloop.Loop)


def test_run_does_without_uvloop_and_in_other_threads(elsewhere: Elsewhere) -> None:
    def live() -> None:
        sys.modules["uvloop"] = None  # type: ignore[assignment]

        async def loop() -> str:
            return type(asyncio.get_running_loop()).__module__

        def run() -> None:
            tell(tb.run(loop()))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    assert elsewhere.start(live).hear() == "asyncio.unix_events"


def test_a_node_of_a_killed_process_is_gone(elsewhere: Elsewhere) -> None:
    def live() -> None:
        node = tb.Node("mortal")
        tell(node.name)
        hear()

    other = elsewhere.start(live)
    assert other.hear() == "mortal"
    assert tb.wait_for_node("mortal", timeout=PATIENCE)
    other.kill()
    assert tb.list_nodes() == []


def test_a_signal_that_another_thread_was_given_ends_spin(elsewhere: Elsewhere) -> None:
    def live() -> None:
        def interrupt(stop: threading.Event) -> None:
            hear()
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        with tb.Node("node") as node:
            node.spawn_thread(interrupt)
            tell("ready")
            try:
                node.spin()
            except KeyboardInterrupt:
                tell("interrupted")

    other = elsewhere.start(live)
    assert other.hear() == "ready"
    other.wait_until_asleep()
    other.tell()
    assert other.hear() == "interrupted"


def test_a_handler_stops_a_node_whose_event_is_in_use() -> None:
    with tb.Node("node") as node:
        before = signal.signal(signal.SIGUSR1, lambda *_: node.stop())
        try:
            with node.stop_event._cond:  # type: ignore[attr-defined]
                signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert node.spin()


def test_an_event_that_a_handler_sets_before_the_wait_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = StopEvent()
    wait = event._cond.wait

    def wait_after_a_signal(timeout: float | None) -> bool:
        signal.raise_signal(signal.SIGUSR1)
        return wait(timeout)

    monkeypatch.setattr(event._cond, "wait", wait_after_a_signal)
    before = signal.signal(signal.SIGUSR1, lambda *_: event.set())
    try:
        assert event.wait(0.01)
    finally:
        signal.signal(signal.SIGUSR1, before)
