"""What the workers of the tests of pools do, and how these tell when."""

from __future__ import annotations

import os
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED

METHODS = ["spawn"] if SANITIZED else ["spawn", "fork"]
# Most tests are not about how processes start, and forks are faster.
QUICK: Any = {"context": METHODS[-1]}


def double(item: Any) -> Any:
    return item * 2


class Gate:
    """Where workers wait until they are let through."""

    def __init__(self) -> None:
        self._there = tb.Queue()
        self._go = tb.Queue()

    def wait(self) -> None:
        self._there.put(os.getpid())
        self._go.get()

    def who(self) -> int:
        """The next one that waits."""
        pid: int = self._there.get(timeout=PATIENCE)
        return pid

    def let_one_through(self) -> None:
        self._go.put("go")

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self._there.close()
        self._go.close()


def wait_for(gate: Gate) -> str:
    gate.wait()
    return "through"
