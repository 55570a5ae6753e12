"""Ticks on a fixed grid of the monotonic clock."""

from __future__ import annotations

import time


class Grid:
    """When the next tick is due. Being late moves none of those that follow.

    Args:
        period: seconds between two ticks.
        skip: a tick that was due before the last one ended is left out; otherwise it comes late.
        at_once: the first tick is due at the start, and not one period later.

    >>> grid = Grid(1.0, start=100.0)
    >>> grid.due
    101.0
    >>> grid.advance(now=101.2), grid.advance(now=103.5)  # ended in time, and late
    (False, True)
    >>> grid.due, grid.overruns
    (103.0, 1)
    >>> grid = Grid(1.0, skip=True, start=100.0)
    >>> grid.advance(now=104.5)
    True
    >>> grid.due, grid.overruns
    (105.0, 3)
    >>> Grid(1.0, at_once=True, start=100.0).due
    100.0
    """

    def __init__(
        self,
        period: float,
        *,
        skip: bool = False,
        at_once: bool = False,
        start: float | None = None,
    ) -> None:
        self._period = period
        self._skip = skip
        self._start = time.monotonic() if start is None else start
        self._number = 0 if at_once else 1
        self.overruns = 0  # ticks that were due before the one before them had ended

    @property
    def due(self) -> float:
        """Of the monotonic clock; a product, not a sum, so that no error adds up."""
        return self._start + self._number * self._period

    def left(self) -> float:
        """Seconds until the tick is due."""
        return self.due - time.monotonic()

    def advance(self, now: float | None = None) -> bool:
        """The tick has ended; was the next one due by then?"""
        now = time.monotonic() if now is None else now
        self._number += 1
        if now < self.due:
            return False
        if not self._skip:
            self.overruns += 1
            return True
        reached = int((now - self._start) / self._period)
        self.overruns += max(reached + 1 - self._number, 1)
        self._number = max(reached, self._number) + 1
        return True
