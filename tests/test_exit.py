"""An interpreter may end with anything in its hands: exit code 0, and not a word on stderr."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, eventually, hear, tell
from waits import BLOCKING, IN_A_LOOP, Wait, receive

kept: list[Any] = []


def everything() -> list[Any]:
    """All kinds of objects of the bus, alive."""
    publisher = tb.Publisher("topic", history=2)
    subscriber = tb.Subscriber("topic", timeout=PATIENCE)
    assert publisher.wait_for_subscribers(timeout=PATIENCE)
    for _ in range(3):
        publisher.publish({"array": np.zeros(1000)})
    loan = publisher.loan(1000, dtype="float32")
    sample = subscriber.receive()
    return [publisher, subscriber, loan, sample, subscriber.receive().data["array"][1:]]


def in_globals() -> None:
    kept.extend(everything())


def in_a_function() -> None:
    held = everything()
    assert held
    sys.exit()


def in_a_cycle() -> None:
    cycle = everything()
    cycle.append(cycle)


def in_a_module() -> None:
    np.kept = everything()  # type: ignore[attr-defined]


def in_the_modules_of_the_bus() -> None:
    tb.kept = everything()  # type: ignore[attr-defined]


def in_an_atexit_handler() -> None:
    atexit.register(lambda held: None, everything())


def made_in_an_atexit_handler() -> None:
    atexit.register(lambda: kept.extend(everything()))


def in_a_thread_local() -> None:
    def hold() -> None:
        local.held = everything()
        started.set()
        threading.Event().wait()

    local = threading.local()
    local.held = everything()
    kept.append(local)
    started = threading.Event()
    threading.Thread(target=hold, daemon=True).start()
    started.wait(PATIENCE)


def in_an_executor() -> None:
    pool = ThreadPoolExecutor()
    kept.extend([pool, pool.submit(everything)])


def in_a_generator() -> None:
    def generate() -> Any:
        publisher, subscriber, *held = everything()
        with publisher, subscriber:
            yield from held

    generator = generate()
    next(generator)
    kept.append(generator)


def in_an_exception() -> None:
    def fail() -> None:
        held = everything()
        raise ArithmeticError(held)

    try:
        fail()
    except ArithmeticError as error:
        kept.append(error)


def in_a_loop_that_was_left() -> None:
    async def main() -> None:
        subscriber = tb.AsyncSubscriber("left")
        kept.extend([subscriber, asyncio.ensure_future(subscriber.receive()), everything()])
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    kept[1].cancel()
    loop.run_until_complete(asyncio.wait([kept[1]]))
    kept.append(loop)
    loop.close()


def in_a_daemon_that_publishes() -> None:
    def publish() -> None:
        held = everything()
        while True:
            held[0].publish(np.zeros(100_000))
            started.set()

    started = threading.Event()
    threading.Thread(target=publish, daemon=True).start()
    started.wait(PATIENCE)


def in_a_daemon_that_receives_and_drops() -> None:
    def receive() -> None:
        publisher, subscriber, *_ = everything()
        while True:
            publisher.publish(np.zeros(1000))
            kept[:] = [subscriber.receive()]
            started.set()

    started = threading.Event()
    threading.Thread(target=receive, daemon=True).start()
    started.wait(PATIENCE)


HOLDERS = [
    in_globals,
    in_a_function,
    in_a_cycle,
    in_a_module,
    in_the_modules_of_the_bus,
    in_an_atexit_handler,
    made_in_an_atexit_handler,
    in_a_thread_local,
    in_an_executor,
    in_a_generator,
    in_an_exception,
    in_a_loop_that_was_left,
    in_a_daemon_that_publishes,
    in_a_daemon_that_receives_and_drops,
]


@pytest.mark.parametrize("hold", HOLDERS)
def test_an_interpreter_ends_quietly_with_objects_alive(
    elsewhere: Elsewhere, hold: Callable[[], None]
) -> None:
    elsewhere.run(hold)


def test_an_interpreter_ends_quietly_with_torch_tensors_alive(
    elsewhere: Elsewhere, torch: object
) -> None:
    def hold() -> None:
        import torch

        publisher, subscriber, *rest = everything()
        publisher.publish({"t": torch.zeros(1000), "p": torch.nn.Parameter(torch.zeros(3))})
        while not isinstance(data := subscriber.receive().data, dict) or "t" not in data:
            pass
        kept.extend([publisher, subscriber, data, publisher.loan(5, dtype=torch.bfloat16), *rest])
        torch.kept = data["t"][1:]

    elsewhere.run(hold)


def start_daemons(waits: list[Wait]) -> None:
    """Threads that wait for ever, and have told that they are about to."""
    for wait in waits:
        waiting = threading.Event()
        threading.Thread(target=wait, args=(waiting.set, None), daemon=True).start()
        assert waiting.wait(PATIENCE)


@pytest.mark.parametrize("wait", BLOCKING + IN_A_LOOP)
def test_an_interpreter_ends_quietly_while_a_daemon_waits(elsewhere: Elsewhere, wait: Wait) -> None:
    def leave_it_waiting(wait: Wait) -> None:
        start_daemons([wait])

    elsewhere.run(leave_it_waiting, wait)


class SlowEnd:
    def __del__(self) -> None:
        time.sleep(0.5)  # there is nothing to wait for: they ask by and by


def test_daemons_that_go_on_while_the_interpreter_ends_hang_it_not(elsewhere: Elsewhere) -> None:
    """After a slice of its wait each asks for the GIL, which CPython answers by ending it."""

    def end_slowly() -> None:
        start_daemons([*BLOCKING, *IN_A_LOOP, *BLOCKING])
        kept.extend([SlowEnd(), everything()])

    elsewhere.run(end_slowly)


class LastWords:
    """Uses the bus when it goes, which is when the interpreter takes the modules apart.

    With what it kept: by then nothing can be imported, and the names of modules may be gone.
    """

    def __init__(self) -> None:
        self.publisher = tb.Publisher("topic", history=2)
        self.subscriber = tb.Subscriber("topic", timeout=PATIENCE)
        assert self.publisher.wait_for_subscribers(timeout=PATIENCE)
        self.loan = self.publisher.loan(1000, np.uint8)
        self.message = {"array": np.zeros(1000), "text": "last words"}
        self.errors = (tb.Closed, tb.Timeout)

    def __del__(self) -> None:
        closed, timeout = self.errors
        self.publisher.publish("only text")
        self.publisher.publish(self.message)
        self.publisher.publish(self.loan)
        assert self.subscriber.receive().data == "only text"
        assert self.subscriber.receive().copy().header.sequence == 1
        assert self.subscriber.try_receive() is not None
        try:
            self.subscriber.receive(0)
        except timeout:
            self.subscriber.close()
            self.publisher.close()
        try:
            self.publisher._core.loan("uint8", [1])  # an error of the core's own
        except closed:
            return
        raise AssertionError


# What hangs on another module goes after the bus's own modules, when nobody's functions work.
@pytest.mark.parametrize("place", ["a global", "a cycle", "an atexit handler"])
def test_a_destructor_may_use_the_bus_to_the_end(elsewhere: Elsewhere, place: str) -> None:
    def hold(place: str) -> None:
        held = [LastWords()]
        if place == "a global":
            kept.extend(held)
        elif place == "a cycle":
            held.append(held)
        else:
            atexit.register(lambda held: None, held)

    elsewhere.run(hold, place)


def test_handlers_from_before_and_after_the_import_use_the_bus(elsewhere: Elsewhere) -> None:
    def register() -> None:
        def use() -> None:
            import tensorbus as tb

            with tb.Publisher("topic", history=1) as publisher:
                publisher.publish(b"from a handler")
                with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
                    tell(subscriber.receive().data)

        atexit.register(use)  # runs last, after the bus's own
        import tensorbus  # noqa: F401

        atexit.register(use)
        threading.Thread(target=use).start()

    other = elsewhere.start(register)
    assert [other.hear() for _ in range(3)] == [b"from a handler"] * 3


class LateImport:
    def __del__(self) -> None:
        try:
            import tensorbus

            told = tensorbus.__name__
        except ImportError:
            told = "refused"
        os.write(1, repr(told).encode() + b"\n")


def test_an_import_while_the_interpreter_ends_is_an_error_like_any_other(
    elsewhere: Elsewhere,
) -> None:
    def hold() -> None:
        kept.append(LateImport())

    other = elsewhere.start(hold)
    assert other.hear() in ("refused", "tensorbus")


def test_an_import_in_a_handler_at_the_end_works(elsewhere: Elsewhere) -> None:
    def register() -> None:
        def use() -> None:
            import tensorbus as tb

            held.append(tb.Publisher("topic"))
            held.append(tb.Subscriber("topic"))
            assert held[0].wait_for_subscribers(timeout=PATIENCE)

        held: list[Any] = []
        atexit.register(use)

    elsewhere.run(register)


def exit_at_once() -> None:
    held = everything()
    assert held
    os._exit(3)


def exit_at_once_in_a_thread() -> None:
    held = everything()
    assert held
    threading.Thread(target=os._exit, args=(3,)).start()
    receive(lambda: None, None)


def exit_at_once_beside_waits() -> None:
    start_daemons([*BLOCKING, *IN_A_LOOP])
    os._exit(3)


def exit_at_once_in_a_handler() -> None:
    held = everything()
    assert held
    signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    receive(lambda: None, None)


def exit_at_once_in_a_callback() -> None:
    async def main() -> None:
        async with tb.AsyncSubscriber("topic") as subscriber:
            asyncio.get_running_loop().call_soon(os._exit, 3)
            await subscriber.receive()

    asyncio.run(main())


def exit_in_a_callback() -> None:
    async def main() -> None:
        kept.extend(everything())
        async with tb.AsyncSubscriber("nothing") as subscriber:
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await subscriber.receive()

    asyncio.run(main())


def exit_in_a_task() -> None:
    async def leave() -> None:
        async with tb.AsyncSubscriber("nothing") as subscriber:
            with suppress(tb.Timeout):
                await subscriber.receive(0)
            sys.exit(3)

    async def main() -> None:
        async with tb.AsyncSubscriber("nothing") as subscriber:
            leaving = asyncio.ensure_future(leave())
            kept.append(leaving)
            async for _ in subscriber:
                pass

    asyncio.run(main())


def exit_beside_waits() -> None:
    start_daemons([*BLOCKING, *IN_A_LOOP])
    kept.extend(everything())
    sys.exit(3)


def exit_in_a_block() -> None:
    with tb.Publisher("topic") as publisher, tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.zeros(1000))
        for _ in subscriber:
            sys.exit(3)


@pytest.mark.parametrize(
    "leave",
    [
        exit_at_once,
        exit_at_once_in_a_thread,
        exit_at_once_beside_waits,
        exit_at_once_in_a_handler,
        exit_at_once_in_a_callback,
        exit_in_a_callback,
        exit_in_a_task,
        exit_beside_waits,
        exit_in_a_block,
    ],
)
def test_an_exit_has_its_code_wherever_it_is_called(
    elsewhere: Elsewhere, leave: Callable[[], None]
) -> None:
    code, errors = elsewhere.start(leave).end()
    # asyncio reports the SystemExit that its task ended with, as it does without the bus.
    assert code == 3, errors
    if leave is exit_in_a_task:
        errors = ""
    assert errors == ""


def test_an_exit_in_a_thread_ends_that_thread_alone(elsewhere: Elsewhere) -> None:
    def leave_a_thread() -> None:
        def leave() -> None:
            for _ in subscriber:
                sys.exit(3)

        with tb.Publisher("topic") as publisher, tb.Subscriber("topic") as subscriber:
            thread = threading.Thread(target=leave)
            thread.start()
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(1)
            thread.join(PATIENCE)
            publisher.publish(2)
            tell(subscriber.receive(PATIENCE).data)

    other = elsewhere.start(leave_a_thread)
    assert other.hear() == 2


def test_an_error_in_a_thread_is_told_and_costs_the_others_nothing(elsewhere: Elsewhere) -> None:
    def fail_in_a_thread() -> None:
        def fail() -> None:
            held = everything()
            raise ArithmeticError(len(held))

        with tb.Publisher("another") as publisher, tb.Subscriber("another") as subscriber:
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join(PATIENCE)
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(2)
            tell(subscriber.receive(PATIENCE).data)

    other = elsewhere.start(fail_in_a_thread)
    assert other.hear() == 2
    code, errors = other.end()
    assert code == 0
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("ArithmeticError: 5")


@pytest.mark.parametrize("end", ["sys.exit", "os._exit", "an error", "SIGKILL"])
def test_an_end_of_any_kind_gives_back_what_was_held(elsewhere: Elsewhere, end: str) -> None:
    def hold_and_end(end: str) -> None:
        subscriber = tb.Subscriber("topic", timeout=PATIENCE)
        kept.extend([subscriber, *(subscriber.receive().data for _ in range(3))])
        tell("held")
        hear()
        if end == "sys.exit":
            sys.exit(3)
        elif end == "os._exit":
            os._exit(3)
        elif end == "an error":
            raise ArithmeticError
        signal.raise_signal(signal.SIGKILL)

    with tb.Publisher("topic") as publisher:
        other = elsewhere.start(hold_and_end, end)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(5):
            publisher.publish(np.zeros(10_000))
        assert other.hear() == "held"
        assert publisher.stats["bytes_in_flight"] >= 5 * 80_000
        other.tell()
        code, _ = other.end()
        assert code == {"an error": 1, "SIGKILL": -signal.SIGKILL}.get(end, 3)
        eventually(lambda: publisher.stats["bytes_in_flight"] == 0)
        assert publisher.stats["subscribers"] == 0


def test_samples_sent_just_before_the_end_arrive(elsewhere: Elsewhere) -> None:
    def publish_and_end() -> None:
        publisher = tb.Publisher("topic")
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(np.arange(100_000))
        tell("published")

    with tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        other = elsewhere.start(publish_and_end)
        assert other.hear() == "published"
        other.finish()
        assert np.array_equal(subscriber.receive().data, np.arange(100_000))
