"""Ticks on a fixed grid of time."""

from __future__ import annotations


class Grid:
    """When the next tick is due. A late tick does not move the ticks after it.

    All times are of one clock, in the unit of `period`.

    Args:
        period: time between two ticks.
        start: the grid's first point.
        skip: leave out a tick that is due before the previous tick has ended. False: it is late.
        at_once: the first tick is due at the start, and not one period later.

    >>> grid = Grid(1.0, 100.0)
    >>> grid.due
    101.0
    >>> grid.advance(101.2), grid.advance(103.5)  # ended in time, and late
    (False, True)
    >>> grid.due, grid.overruns
    (103.0, 1)
    >>> grid = Grid(1.0, 100.0, skip=True)
    >>> grid.advance(104.5)
    True
    >>> grid.due, grid.overruns
    (105.0, 3)
    >>> Grid(10, 100, at_once=True).due
    100
    """

    def __init__(
        self, period: float, start: float, *, skip: bool = False, at_once: bool = False
    ) -> None:
        self._period = period
        self._skip = skip
        self._first = 0 if at_once else 1
        self.overruns = 0  # ticks that were due before the previous tick had ended
        self.restart(start)

    def restart(self, start: float) -> None:
        """Begins the grid again at this time. `overruns` is not reset."""
        self._start = start
        self._number = self._first

    @property
    def due(self) -> float:
        """When the next tick is due: a product, not a sum, so that rounding errors do not add."""
        return self._start + self._number * self._period

    def advance(self, now: float) -> bool:
        """Goes to the next tick after a tick has ended. True: the next tick was due by then."""
        self._number += 1
        if now < self.due:
            return False
        if not self._skip:
            self.overruns += 1
            return True
        reached = int((now - self._start) // self._period)
        self.overruns += max(reached + 1 - self._number, 1)
        self._number = max(reached, self._number) + 1
        return True
