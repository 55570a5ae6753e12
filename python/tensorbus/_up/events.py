"""What a supervisor reports: lines of processes, changes of their states, and expectations."""

from __future__ import annotations

from dataclasses import dataclass

OWN_NAME = "up"
"""The name of the supervisor, in lines and files."""


@dataclass(frozen=True)
class LogLine:
    """A line that a process has printed."""

    process: str
    time_ns: int
    text: str


@dataclass(frozen=True)
class StateChange:
    """A process has another state."""

    process: str
    time_ns: int
    state: str
    pid: int
    """0: there is no process."""
    restarts: int
    """Restarts after exits, since it was started by a command."""
    reason: str
    """The exit, or what the process waits for; "": none."""

    @property
    def text(self) -> str:
        """The change as a sentence without its subject."""
        pid = f" (pid {self.pid})" if self.pid else ""
        return f"{self.state}{pid}{': ' if self.reason else ''}{self.reason}"


@dataclass(frozen=True)
class ExpectationChange:
    """An expectation of a process is not met for longer than its grace, or is met again."""

    process: str
    time_ns: int
    expectation: str
    met: bool
    cause: str
    """Why it is not met; "": it is met."""

    @property
    def text(self) -> str:
        """The change as a sentence without its subject."""
        if self.met:
            return f"{self.expectation}: met again"
        return f"{self.expectation}: NOT MET: {self.cause}"


@dataclass(frozen=True)
class Notice:
    """A message of the supervisor itself."""

    time_ns: int
    text: str


Event = LogLine | StateChange | ExpectationChange | Notice
