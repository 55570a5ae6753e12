"""Durations of parts of a program.

`CORTEX_TRACE_LATENCY` is the number of durations that are kept for each name. 0, the default, keeps
none.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter_ns
from typing import Any

from tensorbus._aio.callbacks import Callback, is_coroutine_function


def _capacity() -> int:
    try:
        return max(int(os.environ.get("CORTEX_TRACE_LATENCY", "0")), 0)
    except ValueError:
        return 0


_CAPACITY = _capacity()

_lock = Lock()
_samples: dict[str, deque[int]] = {}


def enabled() -> bool:
    """True if durations are recorded."""
    return _CAPACITY > 0


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Records how long the block takes."""
    begin = perf_counter_ns()
    try:
        yield
    finally:
        record(name, perf_counter_ns() - begin)


def record(name: str, nanoseconds: int) -> None:
    """Records a duration under a name. If there are too many, the oldest is dropped."""
    if enabled():
        with _lock:
            _samples.setdefault(name, deque(maxlen=_CAPACITY)).append(int(nanoseconds))


def snapshot() -> dict[str, list[int]]:
    """The durations under each name, in nanoseconds."""
    with _lock:
        return {name: list(times) for name, times in _samples.items()}


def reset() -> None:
    """Removes all durations."""
    with _lock:
        _samples.clear()


def traced(name: str, callback: Callback) -> Callback:
    """The callback, wrapped to record its duration if durations are recorded."""
    if not enabled():
        return callback
    return (
        _traced_async(name, callback)
        if is_coroutine_function(callback)
        else _traced(name, callback)
    )


def _traced(name: str, callback: Callback) -> Callback:
    def call(*arguments: Any) -> Any:
        with stage(name):
            return callback(*arguments)

    return call


def _traced_async(
    name: str, callback: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any) -> Any:
        with stage(name):
            return await callback(*arguments)

    return call
