"""Forks victims, in milliseconds: this process has imported everything and is in no domain."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import heapq
import os
import random
import signal
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from storm import records, roles
from storm.actor import Actor, Stage
from storm.ledger import Life
from storm.survivors import SURVIVORS, Channel

KILL, STOP, GO_ON, INTERRUPT = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGINT
LIFETIMES = (0.004, 0.03, 0.1, 0.3)  # seconds; a victim lives up to one of them
STARTING = 0.2  # of the victims die while they start; the others have made their first step
STOPPED = 0.15
BEGINNING = 0.003  # seconds between two looks whether a victim has begun
HELD_UP = 0.1  # seconds for which a survivor is stopped, at most

_prctl = ctypes.CDLL(None).prctl
_PR_SET_PDEATHSIG = 1


def was_interrupted(error: BaseException) -> bool:
    """CPython before 3.12 raises RuntimeError from what interrupts `__set_name__`, in an import."""
    return isinstance(error.__cause__, KeyboardInterrupt)


class Leaves(BaseException):
    """In a victim that ends as any program does: through the end of the interpreter."""


@dataclass
class Victim:
    name: str
    path: Path
    end: list[tuple[float, signal.Signals]]  # what is sent to it, and how long after its beginning
    killed: int | None = None


@dataclass
class Survivor:
    pid: int
    channel: Channel
    path: Path


@dataclass
class Zygote:
    folder: Path
    seed: int
    stage: Stage
    counts: Counter[str] = field(default_factory=Counter)
    survivors: dict[str, Survivor] = field(default_factory=dict)
    victims: dict[int, Victim] = field(default_factory=dict)
    lives: list[Life] = field(default_factory=list)
    _due: list[tuple[float, int, signal.Signals, int]] = field(default_factory=list)
    _starting: set[int] = field(default_factory=set)
    _serial: int = 0
    _steps: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # of the victims: drawn from in their order
        self.disturbance = random.Random(self.seed)  # of what goes by the clock
        gc.collect()
        gc.freeze()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        # A shell that starts us in the background has all of us ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # What is forked.

    def start_survivor(self, name: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel = Channel(theirs)
        actor, path = self._cast(name)
        pid = self._fork(path, lambda: SURVIVORS[name](channel, actor(path)))
        self.survivors[name] = Survivor(pid, Channel(ours), path)
        channel.close()

    def start_victim(self) -> None:
        role = self.chance.choice(list(roles.ROLES))
        actor, path = self._cast(role)
        pid = self._fork(path, lambda: roles.live(actor(path), role))
        self.victims[pid] = Victim(path.name, path, list(self._draw_the_end()))
        if self.chance.random() < STARTING:
            self._plan_the_end(pid)
        else:
            self._starting.add(pid)

    def _cast(self, role: str) -> tuple[Callable[[Path], Actor], Path]:
        self._serial += 1
        serial, chance = self._serial, random.Random(self.seed * 1_000_003 + self._serial)

        def actor(path: Path) -> Actor:
            return Actor(serial, self.stage, records.Recorder(path), chance)

        return actor, self.folder / f"{role}-{serial}"

    def _fork(self, path: Path, life: Callable[[], None]) -> int:
        path.touch()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child can take it
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            return pid
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for survivor in self.survivors.values():
            survivor.channel.close()
        self._be(path, life)
        raise AssertionError("unreachable")

    def _be(self, path: Path, life: Callable[[], None]) -> None:
        """In the child. Its end is written down before it begins to end."""
        code = 0
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, signal.SIGINT})
            life()
        except (SystemExit, KeyboardInterrupt, asyncio.CancelledError):
            pass  # the last: SIGINT in asyncio.run(), before it counts interrupts
        except BaseException as error:
            if not was_interrupted(error):
                records.Recorder(path).wrong(traceback.format_exc()[-1500:].strip())
                code = 1
        records.Recorder(path).write(records.LEAVES, records.OK)
        if random.Random(path.name).random() < 0.5:
            raise Leaves
        os._exit(code)

    # What is sent to them, and when.

    def _plan_for_those_who_began(self) -> None:
        for pid in sorted(self._starting):
            if self.victims[pid].path.stat().st_size > 0:
                self._starting.remove(pid)
                self._plan_the_end(pid)

    def _draw_the_end(self) -> Iterator[tuple[float, signal.Signals]]:
        """Most are killed; some are stopped before that, and may go on; some are interrupted."""
        chance = self.chance
        after = chance.random() * chance.choice(LIFETIMES)
        how = chance.random()
        if how < 0.15:
            yield after, STOP
            after += chance.random() * STOPPED
            if how < 0.08:
                yield after, GO_ON
                after += chance.random() * STOPPED
        elif how < 0.2:
            yield after, INTERRUPT
            after += 1
        yield after, KILL

    def _plan_the_end(self, pid: int) -> None:
        now = time.monotonic()
        for after, what in self.victims[pid].end:
            self._plan(now + after, what, pid)

    def _plan(self, at: float, what: signal.Signals, pid: int) -> None:
        self._steps += 1
        heapq.heappush(self._due, (at, self._steps, what, pid))

    def hold_up(self, name: str) -> None:
        pid = self.survivors[name].pid
        self.counts["survivors stopped"] += 1
        os.kill(pid, STOP)
        self._plan(time.monotonic() + self.disturbance.random() * HELD_UP, GO_ON, pid)

    def kill_a_worker(self) -> None:
        """Of the pool; one that has begun, as a pool ends when a worker dies while it starts."""
        pool = self.survivors["pool"]
        begun = {each.item for each in records.read(pool.path) if each.what == records.WORK}
        children: list[str] = []
        for thread in Path(f"/proc/{pool.pid}/task").iterdir():
            with suppress(FileNotFoundError):  # it has ended
                children += (thread / "children").read_text().split()
        living = sorted(begun & set(map(int, children)))
        if living:
            with suppress(ProcessLookupError):  # the pool has reaped it
                os.kill(self.disturbance.choice(living), KILL)
                self.counts["workers killed"] += 1

    def turn(self, longest: float = 0.05) -> None:
        """Does what is due, and waits for the next thing that is, or for a death."""
        self._plan_for_those_who_began()
        if self._starting:
            longest = min(longest, BEGINNING)
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, what, pid = heapq.heappop(self._due)
            self._send(what, pid)
        wait = min(longest, self._due[0][0] - now) if self._due else longest
        signal.sigtimedwait({signal.SIGCHLD}, max(wait, 0))
        self.reap()

    def _send(self, what: signal.Signals, pid: int) -> None:
        victim = self.victims.get(pid)
        if victim is None and all(pid != survivor.pid for survivor in self.survivors.values()):
            return
        if victim and what in (KILL, INTERRUPT):
            victim.killed = time.monotonic_ns()
        os.kill(pid, what)  # not reaped yet, so that it is this one
        self.counts[what.name] += victim is not None

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, code: int) -> None:
        victim = self.victims.pop(pid, None)
        self._starting.discard(pid)
        if victim is None:
            names = [name for name, each in self.survivors.items() if each.pid == pid]
            self.lives.append(self._life_of_survivor(names[0], ended=time.monotonic_ns()))
            said = [each.detail for each in self.lives[-1].records if each.what == records.WRONG]
            raise RuntimeError(f"{names[0]} ended: exit code {code}; {said}")
        found = records.read(victim.path)
        victim.path.unlink()
        life = Life(victim.name, found, victim.killed)
        self.counts["killed" if code == -KILL else "left"] += 1
        if code not in (0, -KILL, -INTERRUPT):
            life.records.append(records.wrong_end(victim.name, code))
        self.lives.append(life)

    # The end of a round.

    def take_lives(self) -> list[Life]:
        """Of all that died since, and of what the survivors did."""
        lives = self.lives + [self._life_of_survivor(name) for name in self.survivors]
        self.lives = []
        for survivor in self.survivors.values():  # they rest, and what they wrote has been read
            os.truncate(survivor.path, 0)
        return lives

    def _life_of_survivor(self, name: str, ended: int | None = None) -> Life:
        survivor = self.survivors[name]
        found = records.read(survivor.path)
        return Life(name, found, ended)

    def ask(self, name: str, what: str) -> object:
        channel = self.survivors[name].channel
        channel.tell(what)
        return self.hear(name)

    def hear(self, name: str) -> object:
        """What a survivor says; it fails loudly when one says nothing."""
        until = time.monotonic() + 60
        while not self.survivors[name].channel.waits(0.001):
            self.turn(0.01)
            if time.monotonic() > until:
                raise RuntimeError(f"{name} hangs (pid {self.survivors[name].pid})")
        return self.survivors[name].channel.hear()

    def end(self) -> None:
        for pid in [*self.victims, *(each.pid for each in self.survivors.values())]:
            os.kill(pid, KILL)
            os.waitpid(pid, 0)
