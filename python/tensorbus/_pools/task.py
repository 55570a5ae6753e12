"""One item of a worker pool, and the future of its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from copy import copy
from typing import Any

log = logging.getLogger("tensorbus.pool")


class Task:
    """An item, until its future is done.

    Args:
        item: see `WorkerPool.submit`.
        priority: see `WorkerPool.submit`.
        deadline: time of the monotonic clock; inf for no limit.
    """

    def __init__(self, item: Any, priority: int, deadline: float) -> None:
        self.item = item
        self.priority = priority
        self.deadline = deadline
        self.future: Future[Any] = Future()
        self.number = -1  # its place in the order of submission
        self.submitted = time.monotonic()
        self.given = 0.0  # when a worker got it the last time
        self.tries = 0
        self.alone = False  # it must not be in a batch with other items
        self.begun = False

    def begin(self) -> bool:
        """Marks the future as running; it can then not be cancelled. False: it was cancelled."""
        if not self.begun:
            with _callbacks():
                self.begun = self.future.set_running_or_notify_cancel()
        return self.begun

    def cancel(self) -> None:
        with _callbacks():
            self.future.cancel()
        self.begin()  # wakes the threads that wait for the future

    def succeed(self, value: Any) -> None:
        """Sets the result of a task that has begun."""
        with _callbacks():
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Sets the exception of a task that has begun."""
        with _callbacks():
            self.future.set_exception(error)


@contextmanager
def _callbacks() -> Iterator[None]:
    """Logs exceptions from callbacks of a future. The future catches only those of `Exception`."""
    try:
        yield
    except BaseException as error:
        log.error("a callback of a result raised %s", type(error).__name__, exc_info=error)


def copy_of(error: BaseException) -> BaseException:
    """A copy for one caller or future: raising an exception adds frames to its traceback.

    >>> class Missing(Exception):
    ...     def __init__(self, name):
    ...         super().__init__(f"no {name}")
    >>> copy_of(Missing("model"))
    Missing('no model')
    """
    try:
        same = copy(error)
        same.args, same.__cause__ = error.args, error.__cause__
    except BaseException:  # its class does not accept its own `args`
        return error.with_traceback(None)
    return same
