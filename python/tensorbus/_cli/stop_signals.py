"""Signals that end a command well."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tensorbus._base.signals import ending_signals


@contextmanager
def stop_signals(told: Callable[[], object] = lambda: None) -> Iterator[list[int]]:
    """Signals that end a command are noted in the list, and `told` is called."""
    stopped: list[int] = []

    def note(number: int, _: object) -> None:
        stopped.append(number)
        told()

    before = {number: signal.signal(number, note) for number in ending_signals()}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
