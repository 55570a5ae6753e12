"""The main program of nodes: an event loop that ends well when it is told to."""

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

# What ends a program, and what its handler is if nobody has set one.
_ENDS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


@public
def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in an event loop of its own: uvloop's where that is installed.

    SIGINT (Ctrl-C) and SIGTERM cancel the coroutine, so that its `finally` and `with` blocks run;
    nodes that run in it end. Then `KeyboardInterrupt` is raised, as by `asyncio.run`, or, for
    SIGTERM, `SystemExit(143)`. The second signal does not wait. Handlers that the program has set
    are left alone, and threads other than the main one get no signals.

    Raises:
        KeyboardInterrupt, SystemExit: see above.
        RuntimeError: an event loop runs in this thread already.
        Exception: whatever the coroutine raises.

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
            ended.raise_if_asked()
            raise


class EndedBySignals:
    """A context in which the first signal that ends a program cancels a task.

    It begins before there is a task, for imports may lose what a signal raises. In the main thread;
    in others it does nothing.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._asked: signal.Signals | None = None
        self._set: list[signal.Signals] = []

    def __enter__(self) -> EndedBySignals:
        if threading.current_thread() is threading.main_thread():
            for number, default in _ENDS.items():
                if signal.getsignal(number) == default:
                    signal.signal(number, self._on_signal)
                    self._set.append(number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._set:
            signal.signal(number, _ENDS[number])

    def cancels(self, task: asyncio.Task[Any]) -> None:
        """Says which task; a signal may have come already."""
        self._task = task
        if self._asked is not None:
            task.cancel()

    def raise_if_asked(self) -> None:
        """What the program is to end with."""
        if self._asked is not None:
            raise ending(self._asked) from None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        task = self._task
        if self._asked is not None or (task is not None and task.done()):
            raise ending(signal.Signals(number))
        self._asked = signal.Signals(number)
        if task is None:
            return
        task.cancel()
        # A loop that waits hears of the cancelling when something else wakes it.
        task.get_loop().call_soon_threadsafe(lambda: None)


class EndedBySigterm:
    """A context in which SIGTERM raises `SystemExit(143)` in the main thread, as SIGINT raises."""

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
    """
    >>> ending(signal.SIGTERM)
    SystemExit(143)
    """
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
