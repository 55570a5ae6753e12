"""Another process that receives and writes, for the tests of the three ways to receive."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, hear, tell

ITEMS = 20_000  # float32: twenty pages
LIBRARIES = ["numpy", "torch"]
WRITABLE = ["private", "shared"]


def ones(library: str) -> Any:
    if library == "numpy":
        return np.ones(ITEMS, np.float32)
    import torch

    return torch.ones(ITEMS)


def loan_with(publisher: tb.Publisher, library: str, value: float) -> Any:
    loan = publisher.loan(like=ones(library))
    loan[:] = value
    return loan


def all_are(tensor: Any, value: float) -> bool:
    return bool((tensor == value).all())


def hold(topic: str, access: str) -> None:
    """Receives a sample when it is told to, or writes a number to the one it has; tells its
    smallest and its largest number each time."""
    with tb.Subscriber(topic, access=access, timeout=PATIENCE) as subscriber:
        tell("ready")
        data = None
        while True:
            command = hear()
            if command == "let go":
                data = None
                tell(None)
                continue
            if command == "receive":
                data = subscriber.receive().data
            elif command != "look":
                data[:] = command
            tell((float(data.min()), float(data.max())))


def ask(other: Process, command: object) -> Any:
    other.tell(command)
    return other.hear()


def start_holder(elsewhere: Elsewhere, access: str) -> Process:
    other = elsewhere.start(hold, "topic", access)
    assert other.hear() == "ready"
    return other
