"""The wire between machines of a test: it loses, delays, reorders, stalls and is cut at a word.

    with Machines(2, wire=True) as machines:
        machines.wire.delay(0.1, jitter=0.05)
        machines.wire.cut(source=machines[0])  # one direction: a half-open connection
        machines.wire.mend()

A command names the direction that it is for, from the machine `source` to the machine `target`; all
directions, if it names none. It holds when the call returns. Faults of different kinds add up.

The program that forwards the packets is `support.bridge.relay`. This is the test's handle to it.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.harness import PATIENCE

if TYPE_CHECKING:
    from support.bridge.machines import Machine

RELAY = Path(__file__).with_name("relay.py")


class Counts(NamedTuple):
    """Packets of one or more directions. With offloading, a packet has up to 64 KiB."""

    delivered: int
    lost: int
    cut: int
    overflowed: int  # they did not fit the queue of a limited or stalled direction
    reordered: int  # delivered after one that was sent later
    waiting: int


class Wire:
    def __init__(self, middle: Machine, seed: int) -> None:
        self._relay, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._relay.settimeout(PATIENCE)
        with end:
            command = [sys.executable, "-I", str(RELAY), str(end.fileno()), str(seed)]
            self._program = middle.run(command, pass_fds=[end.fileno()])
        self._middle = middle

    def join(self, machine: Machine) -> None:
        """Makes the end of the wire in a machine, the interface `wire0`."""
        with open(f"/proc/{machine.pid}/ns/net", "rb") as namespace:
            command = {"do": "join", "machine": machine.number, "address": machine.address}
            self._ask(command, namespace.fileno())

    def leave(self, machine: Machine) -> None:
        """Removes this end; the faults stay, for when the machine joins again."""
        self._ask({"do": "leave", "machine": machine.number})

    def delay(
        self,
        seconds: float,
        *,
        jitter: float = 0.0,
        source: Machine | None = None,
        target: Machine | None = None,
    ) -> None:
        """A packet takes so long, and up to `jitter` seconds more, so that some overtake others."""
        self._set(source, target, delay=seconds, jitter=jitter)

    def lose(
        self, percent: float, *, source: Machine | None = None, target: Machine | None = None
    ) -> None:
        """So many of a hundred packets are lost, chosen by the seed of the machines."""
        self._set(source, target, loss=percent / 100)

    def cut(self, *, source: Machine | None = None, target: Machine | None = None) -> None:
        """No packet arrives, also of those that are on their way."""
        self._set(source, target, cut=True)

    def stall(self, *, source: Machine | None = None, target: Machine | None = None) -> None:
        """Packets are kept, at most 64 MiB for each direction, and delivered when it is mended."""
        self._set(source, target, stalled=True)

    def limit(
        self,
        bytes_per_second: float,
        *,
        source: Machine | None = None,
        target: Machine | None = None,
    ) -> None:
        """So many bytes pass in a second. What would wait longer than 0.2 s is dropped."""
        self._set(source, target, rate=bytes_per_second)

    def mend(self, *, source: Machine | None = None, target: Machine | None = None) -> None:
        """No faults any more."""
        self._set(source, target, delay=0, jitter=0, loss=0, cut=False, stalled=False, rate=None)

    def counts(self, *, source: Machine | None = None, target: Machine | None = None) -> Counts:
        """What has happened to the packets of these directions since the start."""
        return Counts(**self._ask({"do": "count", **directions(source, target)}))

    def close(self) -> None:
        self._relay.close()

    def _set(self, source: Machine | None, target: Machine | None, **faults: float | None) -> None:
        self._ask({"do": "set", "faults": faults, **directions(source, target)})

    def _ask(self, command: dict[str, Any], *descriptors: int) -> Any:
        try:
            socket.send_fds(self._relay, [json.dumps(command).encode()], descriptors)
            answer = self._relay.recv(1 << 16)
        except OSError:
            answer = b""
        assert answer, f"the wire's program does not answer\n{self._middle.output(self._program)}"
        return json.loads(answer)


def directions(source: Machine | None, target: Machine | None) -> dict[str, int | None]:
    return {
        "source": None if source is None else source.number,
        "target": None if target is None else target.number,
    }
