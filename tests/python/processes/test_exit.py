"""An interpreter may end with anything in its hands: exit code 0, and not a word on stderr."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, tell
from support.objects import everything, start_daemons
from support.waits import BLOCKING, IN_A_LOOP, Wait

kept: list[Any] = []


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
