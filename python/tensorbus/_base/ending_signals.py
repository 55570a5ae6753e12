"""Signals that end a command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def ending_signals() -> list[signal.Signals]:
    """SIGINT, SIGTERM and SIGHUP (the terminal is gone); under nohup without SIGHUP.

    >>> [each.name for each in ending_signals()]
    ['SIGINT', 'SIGTERM', 'SIGHUP']
    """
    found = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


@contextmanager
def stop_signals(on_signal: Callable[[], object] = lambda: None) -> Iterator[list[int]]:
    """In this context, signals that end a command are appended to the list and end nothing.

    Args:
        on_signal: called after each.
    """
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)
        on_signal()

    before = {number: signal.signal(number, receive) for number in ending_signals()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
