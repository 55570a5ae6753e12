"""The main program of nodes: an event loop, and the signals that end it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

from tensorbus._aio.own_loop import own_loop
from tensorbus._base.public import public

T = TypeVar("T")

# Signals that end a program, each with the handler that it has by default.
_ENDS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


@public
def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a new event loop, and returns its result.

    The loop is uvloop's if uvloop is installed. SIGINT (Ctrl-C) and SIGTERM cancel the coroutine,
    so that its `finally` and `with` blocks run and its nodes end. Then `run` raises
    `KeyboardInterrupt`, like `asyncio.run`, or `SystemExit(143)` after SIGTERM. A second signal
    raises the exception at once. Handlers that the program has set are not replaced. Outside the
    main thread, `run` handles no signals.

    Raises:
        KeyboardInterrupt, SystemExit: see above.
        RuntimeError: an event loop is already running in this thread.
        Exception: the coroutine raised it.

    >>> async def main():
    ...     return 7
    >>> run(main())
    7
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        main.close()
        raise RuntimeError("an event loop runs in this thread already: await the coroutine there")
    with EndedBySignals() as ended, own_loop() as loop:
        task = loop.create_task(main)
        ended.cancels(task)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            ended.raise_if_signalled()
            raise


class EndedBySignals:
    """A context in which the first signal that ends a program cancels a task.

    Enter it before the task exists: without it, a signal during an import raises an exception,
    which may be lost. Outside the main thread it does nothing.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._received: signal.Signals | None = None
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> EndedBySignals:
        if threading.current_thread() is threading.main_thread():
            for number, default in _ENDS.items():
                if signal.getsignal(number) == default:
                    signal.signal(number, self._on_signal)
                    self._handled.append(number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._handled:
            signal.signal(number, _ENDS[number])

    def cancels(self, task: asyncio.Task[Any]) -> None:
        """Sets the task, and cancels it if a signal has already arrived."""
        self._task = task
        if self._received is not None:
            task.cancel()

    def raise_if_signalled(self) -> None:
        if self._received is not None:
            raise ending(self._received) from None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        task = self._task
        if self._received is not None or (task is not None and task.done()):
            raise ending(signal.Signals(number))
        self._received = signal.Signals(number)
        if task is None:
            return
        task.cancel()
        task.get_loop().call_soon_threadsafe(lambda: None)  # wakes a loop that is waiting


class EndedBySigterm:
    """A context in which SIGTERM raises `SystemExit(143)` in the main thread."""

    def __init__(self) -> None:
        self._set = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._set = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
            if self._set:
                signal.signal(signal.SIGTERM, self._on_signal)

    def __exit__(self, *_: object) -> None:
        if self._set:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        raise ending(signal.SIGTERM)


def ending(number: signal.Signals) -> BaseException:
    """The exception with which a program ends after a signal.

    >>> ending(signal.SIGTERM)
    SystemExit(143)
    """
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
