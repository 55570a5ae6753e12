"""Faults, one after the other, and calms in which all must flow again as before."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.bridge.certificates import write_certificates
from support.bridge.machines import Machine, Machines
from support.harness import SANITIZED, here_first

PORT = 7447
TIMEOUT = 5.0  # seconds for which a session waits for a connection
BUDGET = 256 << 20  # bytes of each bridge
# Bytes of a bridge that belong to no budget: Python, and what waits; and freed memory, which a
# sanitizer keeps.
MAX_PRIVATE = (1024 if SANITIZED else 256) << 20
CALM_EVERY = 20  # faults
PATIENCE = 60.0  # seconds for what must happen in a calm
SLACK = 8  # descriptors
BRIDGES = ("bridge-one-0", "bridge-two-1")  # their machines' names: they start first

Fault = tuple[int, Callable[[], str]]  # its weight; does it, and says what it was


class Storm(ABC):
    """Two machines, and a bridge on each: what all storms between machines have.

    A role is two words: the program's, and which of them it is.

    Args:
        machines: two, with a wire.
        folder: for what the programs write.
        seed: of the faults.
        zenoh: the bridges meet on a network of Zenoh. The first one is its router.
        tls: with certificates.
    """

    def __init__(
        self, machines: Machines, folder: Path, seed: int, *, zenoh: bool, tls: bool
    ) -> None:
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self._machines = machines
        self._folder = folder
        self._random = random.Random(seed)
        self._programs: dict[str, subprocess.Popen[Any]] = {}
        self._all: list[tuple[str, Machine, subprocess.Popen[Any]]] = []
        self._names: dict[str, str] = {}  # of the program that has a role now
        self._where: dict[str, Machine] = {}
        self._descriptors: dict[str, Counter[str]] = {}  # at first, by kind
        self._largest: Counter[str] = Counter()
        self._longest = 0.0
        self._began = time.monotonic()
        (folder / "bridge.toml").write_text(f"budget = {BUDGET}\ntimeout = {TIMEOUT}\n")
        self._bridge_options = self._write_zenoh() if zenoh else self._tcp_options(tls=tls)
        one, two = machines
        self._where = {"bridge one": one, "bridge two": two, **self._places(one, two)}
        for role in self._where:
            self._start(role)

    @abstractmethod
    def _places(self, one: Machine, two: Machine) -> dict[str, Machine]:
        """Where each role is, beside the bridges."""

    @abstractmethod
    def _command(self, role: str) -> list[str]:
        """The module of a program, and its arguments."""

    @abstractmethod
    def _faults(self) -> list[Fault]: ...

    @abstractmethod
    def _why_not_calm(self, before: dict[str, Any]) -> str:
        """What does not flow yet, since the programs have written `before`."""

    @abstractmethod
    def _totals(self) -> dict[str, int]:
        """What the programs have done."""

    def _check(self) -> None:  # noqa: B027  (a storm may have nothing more to check)
        """At the end of the storm."""

    def run(self, faults: int) -> None:
        self.calm()
        self._descriptors = {role: self._kinds(role) for role in self._bridges()}
        for number in range(1, faults + 1):
            if self.wrong:
                break
            self.fault(number)
            if number % CALM_EVERY == 0 or number == faults:
                self.calm()
        if not self.wrong:
            self._check()
        for role, program in self._programs.items():
            if program.poll() is None and role.startswith("bridge"):
                program.terminate()
                if program.wait() != 0:
                    self.wrong.append(f"{role}: exit status {program.returncode}")

    def report(self) -> dict[str, Any]:
        logs = "".join(self._outputs().values())
        faults = {name: count for name, count in self.counts.items() if name != "calms"}
        return {
            "faults": sum(faults.values()),
            **{f"fault: {name}": count for name, count in sorted(faults.items())},
            **self._totals(),
            "connections lost": logs.count("connection lost"),
            "sessions ended": logs.count("session ended"),
            "calms": self.counts["calms"],
            "longest way to a calm, ms": round(self._longest * 1000),
            "private memory of a bridge, KiB": self._largest["private"] >> 10,
            "shared memory of a bridge, KiB": self._largest["shared"] >> 10,
            "seconds": round(time.monotonic() - self._began),
            "wrong": len(self.wrong),
            **{f"wrong {number}": text for number, text in enumerate(self.wrong[:20])},
        }

    def print_logs(self) -> None:
        for name, output in self._outputs().items():
            print(f"--- {name}\n" + "\n".join(output.splitlines()[-60:]))

    # Faults.
    def fault(self, number: int) -> None:
        faults = self._faults()
        weights = [weight for weight, _ in faults]
        ((_, chosen),) = self._random.choices(faults, weights)
        what = chosen()
        self.counts[what] += 1
        print(f"{time.monotonic() - self._began:8.2f} {number:4} {what}", file=sys.stderr)
        self._pause(0.3)
        self._look()

    def _pause(self, most: float) -> None:
        time.sleep(self._random.uniform(0, most))

    def _faults_of_the_wire(self) -> list[Fault]:
        return [
            (8, self._cut),
            (1, self._cut_long),
            (6, lambda: self._on_the_wire("loss 5 %", "lose", 5)),
            (6, lambda: self._on_the_wire("200 ms", "delay", 0.2)),
            (6, lambda: self._on_the_wire("stall", "stall")),
            (2, self._half_open),
        ]

    def _cut(self) -> str:
        return self._on_the_wire("cut", "cut")

    def _cut_long(self) -> str:
        self._machines.wire.cut()
        time.sleep(TIMEOUT + self._random.uniform(2, 5))
        self._machines.wire.mend()
        return "cut, longer than the time-out"

    def _half_open(self) -> str:
        self._machines.wire.cut(source=self._random.choice(list(self._machines)))
        time.sleep(self._random.uniform(0.5, 4.5))
        self._machines.wire.mend()
        return "half-open"

    def _on_the_wire(self, what: str, do: str, *arguments: float) -> str:
        getattr(self._machines.wire, do)(*arguments)
        self._pause(1.5)
        self._machines.wire.mend()
        return what

    def _kill_bridge(self) -> str:
        return self._kill_and_start(f"bridge {self._random.choice(('one', 'two'))}")

    def _kill_and_start(self, role: str) -> str:
        self._kill(role)
        self._pause(1.0)
        self._start(role)
        return f"kill -9 of a {role.split()[0]}"

    def _replace(self, role: str) -> str:
        self._kill(role)
        self._start(role)
        return f"kill -9 of a {role.split()[0]}"

    def _stop(self) -> str:
        role = self._random.choice(list(self._programs))
        self._programs[role].send_signal(signal.SIGSTOP)
        self._pause(2.0)
        self._programs[role].send_signal(signal.SIGCONT)
        return f"SIGSTOP of a {role.split()[0]}"

    def _clock(self) -> str:
        name = self._names[f"bridge {self._random.choice(('one', 'two'))}"]
        jump = self._random.randint(-(10**14), 10**14)  # ns: more than a day
        (self._folder / f"{name}.clock").write_text(str(jump))
        return "clock jump"

    # Programs.
    def _start(self, role: str) -> None:
        part, which = role.split()
        if role in self._names and part == "bridge":
            name = self._names[role]  # the machine's
        else:
            name = f"{part}-{which}-{len(self._all)}"
        self._names[role] = name
        machine = self._where[role]
        if part == "bridge":
            options = f"{self._bridge_options[which]} --config {self._folder / 'bridge.toml'}"
            command = ["bridge_storm.roles", "bridge", options]
        else:
            command = self._command(role)
        program = machine.run(
            [sys.executable, "-m", *command, name, str(self._folder)], env=here_first()
        )
        self._programs[role] = program
        self._all.append((name, machine, program))

    def _tcp_options(self, *, tls: bool) -> dict[str, str]:
        address = f"{self._machines[0].address}:{PORT}"
        trust = self._write_certificates() if tls else ("--trust-network", "--trust-network")
        return {
            "one": f"{trust[0]} --listen {address}",
            "two": f"{trust[1]} --connect {address}",
        }

    def _write_certificates(self) -> list[str]:
        names = {
            name: f"{name} {one.address}" for name, one in zip(BRIDGES, self._machines, strict=True)
        }
        found = write_certificates(self._folder, *names.values())
        return [
            f"--certificate {found.machines[name].certificate} --key {found.machines[name].key}"
            f" --authority {found.authority}"
            for name in names
        ]

    def _write_zenoh(self) -> dict[str, str]:
        endpoints = {"endpoints": [f"tcp/{self._machines[0].address}:{PORT}"]}
        settings = {
            "one": {"mode": "router", "listen": endpoints},
            "two": {"mode": "client", "connect": endpoints},
        }
        options = {}
        for which, told in settings.items():
            path = self._folder / f"zenoh-{which}.json5"
            path.write_text(json.dumps({**told, "scouting": {"multicast": {"enabled": False}}}))
            options[which] = f"--zenoh {path} --fleet storm"
        return options

    def _kill(self, role: str) -> None:
        self._programs[role].kill()
        self._programs[role].wait()

    # Calms.
    def calm(self) -> None:
        """Without faults: all flows, from the publishers that there are now and from no other."""
        self.counts["calms"] += 1
        began = time.monotonic()
        before = {role: self._read(role) for role in self._programs if "bridge" not in role}
        why = self._why_not_calm(before) or self._why_not_bounded()
        while why and not self.wrong:
            if time.monotonic() - began > PATIENCE:
                self.wrong.append(f"no calm: {why}")
            time.sleep(0.02)
            self._look()
            why = self._why_not_calm(before) or self._why_not_bounded()
        self._longest = max(self._longest, time.monotonic() - began)

    def _why_not_bounded(self) -> str:
        for role, first in self._descriptors.items():
            now = self._kinds(role)
            if now.total() > first.total() + SLACK:
                more, less = dict(now - first), dict(first - now)
                return f"{role}: {now.total()} descriptors: more: {more}, less: {less}"
        return ""

    def _kinds(self, role: str) -> Counter[str]:
        """Of the descriptors of a process, without their numbers."""
        kinds: Counter[str] = Counter()
        for each in Path(f"/proc/{self._programs[role].pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                kinds[re.sub(r"[0-9a-f]{4,}|\d+", "#", str(each.readlink()))] += 1
        return kinds

    def _bridges(self) -> list[str]:
        return [role for role in self._programs if role.startswith("bridge")]

    def _look(self) -> None:
        """At what the programs have said, and at the memory of the bridges."""
        for name, machine, program in self._all:
            output = machine.output(program)
            self.wrong += [f"{name}: {one}" for one in re.findall(r"^WRONG (.*)", output, re.M)]
            for text in ("Traceback", "protocol error", "the peer says"):
                if text in output:
                    self.wrong.append(f"{name}: {text}")
        for role, program in self._programs.items():
            if program.poll() is not None:
                self.wrong.append(f"{role}: it has ended with {program.returncode}")
            elif role.startswith("bridge"):
                self._look_at_memory(role, program.pid)

    def _look_at_memory(self, role: str, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        sizes = {name: int(size) << 10 for name, size in re.findall(r"(Rss\w+):\s+(\d+)", status)}
        private, shared = sizes.get("RssAnon", 0), sizes.get("RssShmem", 0)
        self._largest["private"] = max(self._largest["private"], private)
        self._largest["shared"] = max(self._largest["shared"], shared)
        if private > MAX_PRIVATE:
            self.wrong.append(f"{role}: {private >> 20} MiB of private memory")

    def _read(self, role: str) -> dict[str, Any]:
        path = self._folder / f"{self._names[role]}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def _outputs(self) -> dict[str, str]:
        return {f"{name} {one.pid}": machine.output(one) for name, machine, one in self._all}
