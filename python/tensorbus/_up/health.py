"""Whether expectations are met: a decision without clocks."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._up.expectation import Expectation


@dataclass
class Watched:
    """One expectation of one process."""

    expected: Expectation
    grace: float
    """Seconds for which it may be unmet."""
    cause: str = ""
    """Why it has not been met for longer than its grace; "": it is met, or its grace lasts."""
    met: bool = False
    """Whether it was met when it was measured last."""
    _since: float | None = None
    _own_since: float | None = None  # since when it is unmet, and no other process is to blame

    def update(self, met: bool, cause: str, now: float, *, excused: bool = False) -> bool:
        """Takes a new measurement. Returns whether `cause` has become empty, or not empty.

        Args:
            met: whether the expectation is met now.
            cause: why not.
            now: seconds of a clock that never goes back.
            excused: another process, for which this one waits, is not well.
        """
        was_unmet, self.met = bool(self.cause), met
        if met:
            self._since, self.cause = None, ""
        else:
            self._since = now if self._since is None else self._since
            if now - self._since >= self.grace:
                self.cause = cause
        if met or excused:
            self._own_since = None
        elif self._own_since is None:
            self._own_since = now
        return bool(self.cause) != was_unmet

    def is_own_fault(self, now: float) -> bool:
        """Whether it has been unmet for its grace, and all that time no other one was to blame."""
        return self._own_since is not None and now - self._own_since >= self.grace

    def reset(self) -> None:
        """The process is started: its grace begins again."""
        self._since, self._own_since, self.cause, self.met = None, None, "", False
