"""One supervised process: its state, its process and its timer."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable
from itertools import count

from tensorbus._up.events import Event, LogLine, StateChange
from tensorbus._up.process import Running
from tensorbus._up.program import Program
from tensorbus._up.recent_lines import RecentLines
from tensorbus._up.state import OVER, Do, Machine, State
from tensorbus._up.tree import exit_text

_started = count(1)


class Supervised:
    """Does what the state machine of a process orders."""

    def __init__(
        self, program: Program, report: Callable[[Event], None], on_change: Callable[[], None]
    ) -> None:
        """
        Args:
            program: what to run.
            report: is called with each line and each change of the state.
            on_change: is called after each change of the state.
        """
        self.program = program
        self.machine = Machine(program.policy)
        self.running: Running | None = None
        self.lines = RecentLines()
        self.missing: list[str] = []
        """The names that it waits for, or should provide, and that are not there."""
        self.is_stopped = False
        """It was ended by a command, and may be started by another one."""
        self.last_exit = 0
        """The code of its last process; 0 also before the first."""
        self._report = report
        self._on_change = on_change
        self._timer: asyncio.TimerHandle | None = None
        self._shown: tuple[State, str, int] | None = None

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.program.name

    @property
    def state(self) -> State:
        """The state of the process."""
        return self.machine.state

    def command(self, event: Callable[[Machine], list[Do]]) -> None:
        """Gives an event to the state machine, and obeys it."""
        if event in (Machine.start, Machine.restart):
            self.is_stopped = False
        elif event == Machine.stop and self.state not in OVER:
            self.is_stopped = True
        self._obey(event(self.machine))

    def look(self, there: set[str]) -> None:
        """Compares what it waits for, or provides, with the names that are there now."""
        wanted = {State.WAITING: self.program.after, State.STARTING: self.program.provides}
        self.missing = [name for name in wanted.get(self.state, ()) if name not in there]
        if self.missing:
            return self._changed()
        if self.state is State.WAITING:
            self.command(Machine.met)
            self.look(there)
        elif self.state is State.STARTING and self.running:
            self.command(Machine.ready)

    def reaped(self, code: int) -> None:
        """Its process has ended."""
        if self.running:
            self.running.reaped(code)

    def settle(self) -> None:
        """If its process, and all that it left behind, are gone: goes on to the next state."""
        if self.running is None or (code := self.running.gone()) is None:
            return
        self.running.close()
        self.running, self.last_exit = None, code
        self._exited(code, exit_text(code))

    def change(self) -> StateChange:
        """Its state as an event."""
        pid = self.running.pid if self.running else 0
        reason = self.machine.reason
        if self.state is State.BACKING_OFF:
            reason = f"{reason}, starts again in {self.machine.delay:g} s"
        elif self.missing:
            names = ", ".join(self.missing)
            waits = self.state is State.WAITING
            reason = f"waits for {names}" if waits else f"{names} is not there yet"
        now = time.time_ns()
        return StateChange(self.name, now, self.state.value, pid, self.machine.restarts, reason)

    def _exited(self, code: int, why: str) -> None:
        now = asyncio.get_running_loop().time()
        self._obey(self.machine.exited(code, why, now))

    def _obey(self, orders: Iterable[Do]) -> None:
        for order in orders:
            if order is Do.SPAWN:
                self._spawn()
            elif order is Do.STOP:
                self._send(self.program.stop_signal)
                # A stopped process takes no signal but SIGKILL before this one.
                self._send(signal.SIGCONT)
            elif order is Do.KILL:
                self._send(signal.SIGKILL)
            elif order is Do.BACK_OFF:
                self._set_timer(self.machine.delay)
            elif order is Do.LIMIT_STOP:
                self._set_timer(self.program.stop_timeout)
            elif self._timer:
                self._timer.cancel()
                self._timer = None
        self._changed()

    def _spawn(self) -> None:
        try:
            self.running = Running(self.program, next(_started), self._print_line)
        except (OSError, ValueError) as error:
            why = f"cannot be started: {getattr(error, 'strerror', None) or error}"
            self._print_line(f"cannot be started: {error}")
            # After this call: the machine is in the middle of an order.
            asyncio.get_running_loop().call_soon(self._exited, 1, why)

    def _send(self, number: int) -> None:
        if self.running:
            self.running.send(number)

    def _set_timer(self, delay: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay, self._timer_over)

    def _timer_over(self) -> None:
        self._timer = None
        if self.state is State.STOPPING:
            text = f"did not end within {self.program.stop_timeout:g} s of the stop signal: killed"
            self._print_line(text)
        self._obey(self.machine.timer())

    def _print_line(self, text: str) -> None:
        line = LogLine(self.name, time.time_ns(), text)
        self.lines.append(line)
        self._report(line)

    def _changed(self) -> None:
        if self.state not in (State.WAITING, State.STARTING):
            self.missing = []
        change = self.change()
        shown = (self.state, change.reason, change.pid)
        if shown == self._shown:
            return
        self._shown = shown
        self._on_change()
        # Until `look` has found out, it is not known what the process waits for.
        if self.state is State.WAITING and not self.missing:
            return
        if self.state is State.STARTING and self.program.provides and not self.missing:
            return
        self._report(change)
