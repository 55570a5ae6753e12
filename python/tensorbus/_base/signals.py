"""Signals: which ones end a command, and Ctrl-C during imports that it must not interrupt."""

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


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Context that delays the `KeyboardInterrupt` of Ctrl-C to its end.

    For imports of extension modules that run Python code. With an interrupt inside, msgspec would
    drop the exception and continue without `datetime`, and nanobind would abort while it makes its
    enums. It does nothing outside the main thread, or if the program has a handler of its own.
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
