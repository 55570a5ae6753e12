"""All that a process may have of the bus, for the tests of its end."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import tensorbus as tb
from support.harness import PATIENCE
from support.waits import Wait


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


def start_daemons(waits: list[Wait]) -> None:
    """Threads that wait for ever, and have told that they are about to."""
    for wait in waits:
        waiting = threading.Event()
        threading.Thread(target=wait, args=(waiting.set, None), daemon=True).start()
        assert waiting.wait(PATIENCE)
