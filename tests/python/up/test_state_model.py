"""Every order of exits, timers and commands, on the states of a supervised process."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tensorbus._up.state import OVER, Do, Machine, Policy, State

POLICIES = {
    name: Policy(name, window=100.0, limit=2)  # type: ignore[arg-type]
    for name in ("no", "on-failure", "always")
}
DEPTH = 9  # events in a row
MAX_TIME = 250.0  # seconds of the clock, in which the window passes twice


@dataclass
class World:
    """A process, a timer and a clock, which do what the machine orders."""

    machine: Machine
    process: bool = False
    timer_runs: bool = False
    now: float = 0.0
    wanted: bool = True
    restarted: list[float] = field(default_factory=list)

    def obey(self, orders: list[Do]) -> None:
        for order in orders:
            if order is Do.SPAWN:
                assert not self.process, "two processes"
                assert self.wanted, "started after a stop"
                self.process = True
            elif order in (Do.STOP, Do.KILL):
                assert self.process, "a signal to no process"
            elif order in (Do.BACK_OFF, Do.LIMIT_STOP):
                assert not self.timer_runs, "two timers"
                self.timer_runs = True
                if order is Do.BACK_OFF:
                    self.restarted.append(self.now)
            elif order is Do.CANCEL:
                assert self.timer_runs, "no timer to cancel"
                self.timer_runs = False
        self.check()

    # Each of the following is one thing that may happen now; it returns whether it can.
    def start(self) -> bool:
        self.wanted = True
        over = self.machine.state in OVER
        self.obey(self.machine.start())
        if over:
            self.restarted.clear()  # a command begins a new count
        return True

    def restart(self) -> bool:
        self.wanted = True
        over = self.machine.state in OVER
        self.obey(self.machine.restart())
        if over:
            self.restarted.clear()
        return True

    def replace(self) -> bool:
        self.obey(self.machine.replace("not well"))
        return True

    def stop(self) -> bool:
        self.wanted = False
        self.obey(self.machine.stop())
        return True

    def kill(self) -> bool:
        self.wanted = False
        self.obey(self.machine.kill())
        return True

    def met(self) -> bool:
        self.obey(self.machine.met())
        return True

    def ready(self) -> bool:
        self.obey(self.machine.ready())
        return True

    def end_well(self) -> bool:
        return self.end(0)

    def crash(self) -> bool:
        return self.end(1)

    def end(self, code: int) -> bool:
        if not self.process:
            return False
        self.process = False
        self.obey(self.machine.exited(code, f"exit {code}", self.now))
        return True

    def time_out(self) -> bool:
        if not self.timer_runs:
            return False
        self.timer_runs = False
        self.obey(self.machine.timer())
        return True

    def window_passes(self) -> bool:
        if self.now + 101 > MAX_TIME:
            return False
        self.now += 101
        return True

    def check(self) -> None:
        machine = self.machine
        assert self.process == machine.alive
        killed = machine.state is State.STOPPING and machine._killed
        timed = machine.state in (State.BACKING_OFF, State.STOPPING) and not killed
        assert self.timer_runs == timed
        if not self.wanted:
            assert machine.state in (State.STOPPING, State.ENDED, State.FAILED)
        if machine.state is State.FAILED:
            assert machine.reason
        recent = [each for each in self.restarted if self.now - each < 100]
        assert len(recent) <= machine.policy.limit

    def key(self) -> tuple[object, ...]:
        machine = self.machine
        recent = tuple(self.now - each for each in machine._recent)
        inner = (machine.state, recent, machine._again, machine._killed, machine._unwell)
        mine = (self.process, self.timer_runs, self.now, self.wanted, tuple(self.restarted))
        return (*inner, *mine)


EVENTS: tuple[Callable[[World], bool], ...] = (
    World.start,
    World.restart,
    World.replace,
    World.stop,
    World.kill,
    World.met,
    World.ready,
    World.end_well,
    World.crash,
    World.time_out,
    World.window_passes,
)


def explore(policy: Policy, check: Callable[[World], None]) -> set[State]:
    """Calls `check` in every reachable world, and returns the states that were reached."""
    first = World(Machine(policy))
    seen = {first.key()}
    open_worlds = deque([(first, 0)])
    states = set()
    while open_worlds:
        world, depth = open_worlds.popleft()
        states.add(world.machine.state)
        check(world)
        if depth == DEPTH:
            continue
        for event in EVENTS:
            following = copy.deepcopy(world)
            if event(following) and following.key() not in seen:
                seen.add(following.key())
                open_worlds.append((following, depth + 1))
    return states


def ends_after_a_stop(world: World) -> None:
    """Invariant 6: the process need not obey the stop signal."""
    following = copy.deepcopy(world)
    following.stop()
    following.time_out()
    following.crash()
    assert following.machine.state in OVER
    assert not following.process
    assert not following.timer_runs


@pytest.mark.parametrize("name", POLICIES)
def test_every_order_keeps_the_invariants(name: str) -> None:
    states = explore(POLICIES[name], ends_after_a_stop)
    assert states == set(State)


def test_the_model_finds_a_restart_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Machine) -> list[Do]:
        self.state = State.WAITING if self.state is State.BACKING_OFF else self.state
        return []

    monkeypatch.setattr(Machine, "stop", forgetful)
    with pytest.raises(AssertionError):
        explore(POLICIES["always"], ends_after_a_stop)


def test_delays_double_up_to_a_maximum_and_begin_again_after_the_window() -> None:
    machine = Machine(Policy("always", backoff=1.0, max_backoff=5.0, window=60.0, limit=0))
    machine.start()
    delays = []
    for now in (0, 1, 2, 3, 200):
        machine.met()
        assert machine.exited(1, "exit 1", now) == [Do.BACK_OFF]
        delays.append(machine.delay)
        machine.timer()
    assert delays == [1.0, 2.0, 4.0, 5.0, 1.0]
