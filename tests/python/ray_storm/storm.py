"""What is asked of actors that are killed while tensors go between them.

Each call returns what is right, or raises an error of Ray that says why. No call outlasts Ray's
limits. At the end the memory, the descriptors and the files of before are there, and no others.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

import tensorbus as tb
from ray_storm.roles import Actor, check, kept, tensors_of

# Of a call, which Ray may try three times: each waits for a new process and for Ray's limits. Only
# a failure ever takes as long.
PATIENCE = 180.0
_RETRIES = (0, 0, 2, 2)  # of the calls of each actor
_CALLERS = 3
_SOCKETS = 16  # descriptors of Ray, more or less, in a process
_DELAYS = (0, 0.005, 0.02, 0.1)  # seconds from the begin of a call to a kill, at most

# What may be said of a call that has failed.
_REASONS = {
    "lost": r"RayDirectTransportError: .*the tensors of \w+ are lost: ",
    "actor gone": r"The actor \w+ is unavailable|The actor died",
    "owner gone": r"OwnerDiedError",
    "canceled": r"TaskCancelledError|The task \w+ is canceled",
    # A receiver was killed after it had received, and the call was tried again: Ray does not
    # transfer again, and waits for its limit.
    "not transferred again": r"not found in RDT object store after",
    # The source was killed before it had made the object, and the reference is in a list.
    "not made": r"Tensor transport metadata is not available for object",
}


@dataclass
class Figures:
    """What a storm has seen."""

    kills: int = 0
    calls: int = 0
    right: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # by reason
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds
    left_by_ray: int = 0  # objects in receivers whose call was canceled or has failed


class Storm:
    """`transport`: the name of one, or None: Ray's object store."""

    def __init__(self, folder: Path, transport: str | None, seed: int) -> None:
        self._figures = Figures()
        self._folder, self._transport = folder, transport
        self._chance = random.Random(seed)
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._killed: dict[str, int] = {}  # the processes that were killed last
        self._counts = threading.Lock()  # of the figures and of the processes
        self._actors: dict[str, Any] = {}
        for number, retries in enumerate(_RETRIES):
            name = f"actor{number}"
            actor = ray.remote(
                num_cpus=0, max_restarts=-1, max_task_retries=retries, enable_tensor_transport=True
            )(Actor)
            self._actors[name] = actor.remote(str(folder), name)

    # The calls: each makes an object in `one`, and returns its number if all of it was right.

    def passed(self, one: Any, other: Any, number: int) -> int:
        return _get(other.check.remote(number, self._make(one, number)))

    def got(self, one: Any, other: Any, number: int) -> int:
        return check(number, _get(self._make(one, number)))

    def got_late(self, one: Any, other: Any, number: int) -> int:
        ref = self._make(one, number)
        with suppress(ray.exceptions.GetTimeoutError):
            ray.get(ref, timeout=0.002)
        return check(number, _get(ref))

    def borrowed(self, one: Any, other: Any, number: int) -> int:
        ref = self._make(one, number)
        ray.wait([ref], timeout=PATIENCE, fetch_local=False)
        return _get(other.gets.remote(number, [ref]))

    def put(self, one: Any, other: Any, number: int) -> int:
        data = {"number": number, "tensors": tensors_of(number)}
        return _get(other.check.remote(number, ray.put(data, _tensor_transport=self._transport)))

    def put_by_one(self, one: Any, other: Any, number: int) -> int:
        (ref,) = _get(one.put.remote(number, self._transport))
        return _get(other.check.remote(number, ref))

    def forwarded(self, one: Any, other: Any, number: int) -> int:
        forward = other.forward.options(tensor_transport=self._transport)
        return _get(one.check.remote(number, forward.remote(number, self._make(one, number))))

    def held(self, one: Any, other: Any, number: int) -> int:
        ref = self._make(one, number)
        data = _get(ref)
        done = other.hold.remote(number, ref)
        del ref
        try:
            return _get(done)
        finally:
            check(number, data)  # also if both have died

    def abandoned(self, one: Any, other: Any, number: int) -> int:
        other.check.remote(number, self._make(one, number))
        return number

    def canceled(self, one: Any, other: Any, number: int) -> int:
        done = other.check.remote(number, self._make(one, number))
        ray.cancel(done)
        return _get(done)

    def _make(self, one: Any, number: int) -> Any:
        return one.make.options(tensor_transport=self._transport).remote(number)

    def _calls(self) -> list[Callable[[Any, Any, int], int]]:
        return [
            *(self.passed, self.got, self.got_late, self.borrowed, self.put, self.put_by_one),
            *(self.forwarded, self.held, self.abandoned, self.canceled),
        ]

    # The ledger.

    def run(self, kills: int) -> Figures:
        self._all_answer()
        for call, actors in itertools.product(
            self._calls()[:-1], itertools.permutations(self._actors.values(), 2)
        ):
            with suppress(NotImplementedError):  # Ray may learn late that the object is made
                call(*actors, next(self._numbers))
        descriptors = {name: count for name, (_, count, _) in self._kept().items()}
        callers = [
            threading.Thread(target=self._go_on, args=(self._chance.random(), kills))
            for _ in range(_CALLERS)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self._all_answer()
        self._look_at_what_is_left(descriptors)
        return self._figures

    def _go_on(self, seed: float, kills: int) -> None:
        """Calls until there were so many kills."""
        chance = random.Random(seed)
        while self._figures.kills < kills:
            up = [name for name in self._actors if self._pid(name) != self._killed.get(name)]
            if len(up) < 2:
                time.sleep(0.02)
                continue
            one, other = chance.sample(up, 2)
            if chance.random() < 0.7:
                delay = chance.random() * chance.choice(_DELAYS)
                for name in chance.choice(([one], [other], [one, other])):
                    threading.Timer(delay, self._kill, (name,)).start()
            self._call(chance.choice(self._calls()), one, other)

    def _call(self, call: Callable[[Any, Any, int], int], one: str, other: str) -> None:
        number = next(self._numbers)
        began, reason, wrong = time.monotonic(), "", ""
        try:
            assert call(self._actors[one], self._actors[other], number) == number
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            reason = next((name for name, say in _REASONS.items() if re.search(say, text)), "")
            if not reason:
                wrong = f"{call.__name__} of {one} and {other}: {traceback.format_exc()}"
        with self._counts:
            figures = self._figures
            figures.slowest = max(figures.slowest, time.monotonic() - began)
            figures.calls += 1
            if wrong:
                figures.wrong.append(wrong)
            elif reason:
                figures.errors[reason] += 1
            else:
                figures.right += 1

    def _kill(self, name: str) -> None:
        with self._counts:
            pid = self._pid(name)
            if pid == self._killed.get(name):
                return
            self._killed[name] = pid
            self._figures.kills += 1
        os.kill(pid, signal.SIGKILL)

    def _pid(self, name: str) -> int:
        return int((self._folder / name).read_text())

    def _all_answer(self) -> None:
        """Waits until no actor is being restarted."""
        for actor in self._actors.values():
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    _get(actor.kept.remote())
                    break
                except ray.exceptions.RayActorError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)

    def _look_at_what_is_left(self, descriptors: dict[str, int]) -> None:
        """Until it is right: Ray frees objects a little later than the last reference to them."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._kept()
            for name, (_, _, objects) in found.items():
                if objects and name in self._actors:
                    self._figures.left_by_ray += objects
                    os.kill(self._pid(name), signal.SIGKILL)  # which frees them
                    self._killed[name] = self._pid(name)
            self._all_answer()
            files = os.listdir(tb.participant().domain)
            wrong = [
                f"{name}: {used} bytes are used, {count} descriptors are open"
                for name, (used, count, objects) in found.items()
                if used or count > descriptors[name] + _SOCKETS or objects
            ]
            if len(files) != len(found):
                wrong.append(f"files of the domain: {files}")
            if not wrong:
                return
            if time.monotonic() > deadline:
                self._figures.wrong += wrong
                return
            time.sleep(0.2)

    def _kept(self) -> dict[str, tuple[int, int, int]]:
        for actor in self._actors.values():
            _get(actor.forget.remote())
        found = {name: _get(actor.kept.remote()) for name, actor in self._actors.items()}
        return {**found, "driver": kept()}


def _get(ref: Any) -> Any:
    return ray.get(ref, timeout=PATIENCE)


def run(folder: str, kills: int, seed: int, transport: str | None = "TENSORBUS_NUMPY") -> Figures:
    """Kills so many processes of actors of the Ray instance that this process is connected with."""
    return Storm(Path(folder), transport, seed).run(kills)
