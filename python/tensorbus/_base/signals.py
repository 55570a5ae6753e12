"""Signals: those that end a command, and Ctrl-C during imports that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def ending_signals() -> list[signal.Signals]:
    """The signals that end a command: SIGINT, SIGTERM, and SIGHUP except under nohup.

    >>> [each.name for each in ending_signals()]
    ['SIGINT', 'SIGTERM', 'SIGHUP']
    """
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


@contextmanager
def stop_signals(on_signal: Callable[[], object] = lambda: None) -> Iterator[list[int]]:
    """Context in which a signal that ends a command is appended to a list instead.

    Args:
        on_signal: called after each signal.
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


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Context that delays the `KeyboardInterrupt` of Ctrl-C to its end.

    It is for imports of extension modules that run Python code. After an interrupt in that code,
    msgspec drops the exception and continues without `datetime`; nanobind, which is creating its
    enums, aborts. It does nothing outside the main thread, or if the program has set a handler.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
