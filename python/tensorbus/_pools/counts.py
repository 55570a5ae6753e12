"""The counters of a pool's items."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from tensorbus._pools.task import Task

# How many of the last items the percentiles are of.
WINDOW = 1024


class Times:
    """The mean and the maximum of a number of times; it keeps the last `window` of them."""

    def __init__(self, window: int = 0) -> None:
        self._sum = 0.0
        self._count = 0
        self._last: deque[float] = deque(maxlen=window)
        self.max = 0.0

    def add(self, seconds: float) -> None:
        self._sum += seconds
        self._count += 1
        self._last.append(seconds)
        self.max = max(self.max, seconds)

    def last(self) -> list[float]:
        """A copy of the last times, for `percentiles`."""
        return [*self._last]

    @property
    def mean(self) -> float:
        return self._sum / self._count if self._count else 0.0


def percentiles(name: str, times: list[float]) -> dict[str, float]:
    """The fields of `PoolStats` for these times, by nearest rank; 0 if there are none.

    >>> percentiles("run", [0.4, 0.1, 0.3, 0.2])
    {'p50_run': 0.2, 'p90_run': 0.4, 'p99_run': 0.4}
    """
    times = sorted(times) or [0.0]
    return {f"p{p}_{name}": times[(p * len(times) + 99) // 100 - 1] for p in (50, 90, 99)}


class Counts:
    """Counts the items that have ended, and their times. The pool's thread counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = self._failed = self._cancelled = self._timed_out = 0
        self._overran = self._refused = 0
        self._wait = Times(WINDOW)
        self._run = Times(WINDOW)
        self._batch = Times()

    def given(self, tasks: list[Task]) -> None:
        """A worker got these tasks, as one message."""
        with self._lock:
            self._batch.add(len(tasks))
            for task in tasks:
                if task.tries == 1:
                    self._wait.add(task.given - task.submitted)

    def answered(self, tasks: list[Task], now: float) -> None:
        """A worker has answered these tasks."""
        with self._lock:
            for task in tasks:
                self._run.add(now - task.given)

    def succeeded(self) -> None:
        with self._lock:
            self._done += 1

    def failed(self) -> None:
        with self._lock:
            self._failed += 1

    def overran(self) -> None:
        with self._lock:
            self._overran += 1

    def refused(self) -> None:
        """Any thread may call it."""
        with self._lock:
            self._refused += 1

    def timed_out(self) -> None:
        with self._lock:
            self._timed_out += 1

    def cancelled(self) -> None:
        with self._lock:
            self._cancelled += 1

    def fields(self) -> dict[str, Any]:
        """The fields of `PoolStats` that are counted here."""
        with self._lock:
            waits, runs = self._wait.last(), self._run.last()
            fields = {
                "done": self._done,
                "failed": self._failed,
                "timed_out": self._timed_out,
                "cancelled": self._cancelled,
                "overran": self._overran,
                "refused": self._refused,
                "mean_batch": self._batch.mean,
                "mean_wait": self._wait.mean,
                "max_wait": self._wait.max,
                "mean_run": self._run.mean,
                "max_run": self._run.max,
            }
        return {**fields, **percentiles("wait", waits), **percentiles("run", runs)}
