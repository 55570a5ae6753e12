"""An interpreter may end with anything in its hands: exit code 0, and not a word on stderr."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from harness import PATIENCE, Elsewhere, tell

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


def in_a_daemon_that_receives() -> None:
    def receive() -> None:
        with tb.Subscriber("nobody publishes") as subscriber:
            started.set()
            subscriber.receive()

    started = threading.Event()
    threading.Thread(target=receive, daemon=True).start()
    started.wait(PATIENCE)


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


def in_a_daemon_that_waits_for_room() -> None:
    def publish() -> None:
        with tb.Publisher("topic", reliable=True, depth=1) as publisher, tb.Subscriber("topic"):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(1)
            started.set()
            publisher.publish(2)

    started = threading.Event()
    threading.Thread(target=publish, daemon=True).start()
    started.wait(PATIENCE)


HOLDERS = [
    in_globals,
    in_a_function,
    in_a_cycle,
    in_a_module,
    in_the_modules_of_the_bus,
    in_an_atexit_handler,
    made_in_an_atexit_handler,
    in_a_daemon_that_receives,
    in_a_daemon_that_publishes,
    in_a_daemon_that_receives_and_drops,
    in_a_daemon_that_waits_for_room,
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
