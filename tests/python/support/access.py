"""Another process that receives and writes, for the tests of the three ways to receive."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, Process, hear, tell

ITEMS = 20_000  # float32: twenty pages
LIBRARIES = ["numpy", "torch"]
WRITABLE = ["copy-on-write", "private", "shared"]


def ones(library: str) -> Any:
    if library == "numpy":
        return np.ones(ITEMS, np.float32)
    import torch

    return torch.ones(ITEMS)


def loan_with(publisher: tb.Publisher, library: str, value: float) -> Any:
    loan = publisher.loan(like=ones(library))
    loan[:] = value
    return loan


def is_borrowed(array: Any) -> bool:
    """Whether the array lies in memory of the bus that this process has mapped for reading."""
    return _permissions(array) == "r--s"


def is_shared(array: Any) -> bool:
    """Whether the array lies in memory of the bus to which other processes may write, too."""
    return _permissions(array) == "rw-s"


def _permissions(array: Any) -> str:
    """Those of the array's mapping in /proc/self/maps; empty for memory that is not of the bus."""
    address = array.ctypes.data
    with open("/proc/self/maps") as maps:
        for line in maps:
            bounds, permissions, *_, name = line.split(maxsplit=5)
            first, end = (int(bound, 16) for bound in bounds.split("-"))
            if first <= address < end:
                return permissions if name.startswith("/memfd:") else ""
    raise AssertionError(f"no mapping has {address:#x}")


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
