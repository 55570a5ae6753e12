"""Ctrl-C while something is imported that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Ctrl-C raises its `KeyboardInterrupt` at the end of this context, not inside.

    For imports of extension modules that run Python code: one drops the exception and goes on
    without what it needs (msgspec, for `datetime`), another one aborts (nanobind, for its enums).
    It does nothing in threads other than the main one, and with a handler of the program.
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
