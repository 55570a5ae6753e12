"""The states of one supervised process. No clock and no process: the caller has both.

Each method is an event. It changes the state, and returns what the caller must do now, in order.
Invariants, which tests/python/up/test_state_model.py checks in every order of events:

1. A process exists exactly in `STARTING`, `RUNNING` and `STOPPING`: `SPAWN` is never returned while
   one exists.
2. A timer runs exactly in `BACKING_OFF`, and in `STOPPING` until the process has been killed.
3. After `stop` or `kill` nothing is started until `start` or `restart`.
4. `ENDED` and `FAILED` change only by `start` and `restart`.
5. Within `window` seconds at most `limit` restarts follow exits and `replace`.
6. From each state, `stop`, then the timer, then the exit of the process, leads to `ENDED` or
   `FAILED`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

Restart = Literal["no", "on-failure", "always"]


class State(str, Enum):
    """What a supervised process does now; docs/internals/supervisor.md describes each state."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


ALIVE = frozenset({State.STARTING, State.RUNNING, State.STOPPING})
OVER = frozenset({State.ENDED, State.FAILED})


class Do(Enum):
    """An order to the caller."""

    SPAWN = "start the process"
    STOP = "send the stop signal"
    KILL = "send SIGKILL"
    BACK_OFF = "call `timer` after `delay` seconds"
    LIMIT_STOP = "call `timer` after `stop_timeout` seconds"
    CANCEL = "cancel the timer"


@dataclass(frozen=True)
class Policy:
    """When a process is started again. Times are in seconds."""

    restart: Restart = "no"
    backoff: float = 0.5
    """The delay of the first restart within `window`; each further one doubles it."""
    max_backoff: float = 30.0
    window: float = 60.0
    limit: int = 5
    """Restarts within `window`; one more exit is a failure. 0: no limit."""


@dataclass
class Machine:
    """The state of one process."""

    policy: Policy
    state: State = State.ENDED
    restarts: int = 0
    """Restarts after exits and `replace`, since the last `start`."""
    reason: str = ""
    """Why the state is `BACKING_OFF` or `FAILED`."""
    delay: float = 0.0
    """Seconds of the last `BACK_OFF`."""
    _recent: deque[float] = field(default_factory=deque)
    _again: bool = False
    _unwell: str = ""
    _killed: bool = False

    @property
    def alive(self) -> bool:
        """Whether a process exists."""
        return self.state in ALIVE

    def start(self) -> list[Do]:
        """A command: start the process as soon as `met` comes."""
        if self.state is State.STOPPING:
            self._again = True
        if self.state not in OVER:
            return []
        self._recent.clear()
        self.restarts = 0
        return self._wait()

    def met(self) -> list[Do]:
        """All that the process waits for is there."""
        if self.state is not State.WAITING:
            return []
        self.state = State.STARTING
        return [Do.SPAWN]

    def ready(self) -> list[Do]:
        """All that the process provides is there."""
        if self.state is State.STARTING:
            self.state = State.RUNNING
        return []

    def stop(self) -> list[Do]:
        """A command: end the process, and start it no more."""
        self._again, self._unwell = False, ""
        if self.state is State.WAITING:
            self.state = State.ENDED
        elif self.state is State.BACKING_OFF:
            self.state = State.ENDED
            return [Do.CANCEL]
        elif self.state in (State.STARTING, State.RUNNING):
            return self._stop()
        return []

    def kill(self) -> list[Do]:
        """A command: end the process at once, and start it no more."""
        if not self.alive:
            return self.stop()
        cancel = [Do.CANCEL] if self.state is State.STOPPING and not self._killed else []
        self.state, self._again, self._killed = State.STOPPING, False, True
        self._unwell = ""
        return [*cancel, Do.KILL]

    def restart(self) -> list[Do]:
        """A command: end the process if it exists, and start it."""
        if self.state in OVER:
            return self.start()
        if self.state is State.BACKING_OFF:
            return [Do.CANCEL, *self._wait()]
        if self.state in (State.STARTING, State.RUNNING):
            self._again = True
            return self._stop()
        if self.state is State.STOPPING:
            self._again = True
        return []

    def replace(self, why: str) -> list[Do]:
        """The process is not well: end it, and start it again as after an exit.

        Args:
            why: the reason.
        """
        if self.state not in (State.STARTING, State.RUNNING):
            return []
        self._unwell = why
        return self._stop()

    def timer(self) -> list[Do]:
        """The time of `BACK_OFF` or `LIMIT_STOP` is over."""
        if self.state is State.BACKING_OFF:
            return self._wait()
        if self.state is State.STOPPING and not self._killed:
            self._killed = True
            return [Do.KILL]
        return []

    def exited(self, code: int, why: str, now: float) -> list[Do]:
        """The process has ended, and was reaped.

        Args:
            code: 0 for success.
            why: its exit status as text.
            now: seconds of a clock that never goes back.
        """
        if self.state is State.STOPPING:
            cancel = [] if self._killed else [Do.CANCEL]
            unwell, self._unwell = self._unwell, ""
            if self._again:
                self._again = False
                return [*cancel, *self._wait()]
            if unwell:
                return [*cancel, *self._back_off(unwell, now)]
            self.state = State.ENDED
            return cancel
        if not self.alive:
            return []
        wanted = self.policy.restart
        if wanted == "no" or (wanted == "on-failure" and code == 0):
            self.state = State.FAILED if code else State.ENDED
            self.reason = why if code else ""
            return []
        return self._back_off(why, now)

    def _wait(self) -> list[Do]:
        self.state, self.reason = State.WAITING, ""
        return []

    def _stop(self) -> list[Do]:
        self.state, self._killed = State.STOPPING, False
        return [Do.STOP, Do.LIMIT_STOP]

    def _back_off(self, why: str, now: float) -> list[Do]:
        policy, recent = self.policy, self._recent
        while recent and now - recent[0] >= policy.window:
            recent.popleft()
        if policy.limit and len(recent) >= policy.limit:
            self.state = State.FAILED
            times = f"{policy.limit} restarts within {policy.window:g} s"
            self.reason = f"{why}, after {times}"
            return []
        doubled: float = policy.backoff * 2.0 ** min(len(recent), 32)
        self.delay = min(doubled, policy.max_backoff)
        recent.append(now)
        self.restarts += 1
        self.state, self.reason = State.BACKING_OFF, why
        return [Do.BACK_OFF]
