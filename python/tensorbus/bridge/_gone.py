"""Machines whose sessions have ended, for `tensorbus bridge status`."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

_MAX_PEERS = 32  # the oldest are removed: a peer may connect under any number of names


class _Gone(NamedTuple):
    address: str
    since: float  # seconds, monotonic
    why: str


class GonePeers:
    """Machines that had a session and have none now, oldest first."""

    def __init__(self) -> None:
        self._peers: dict[str, _Gone] = {}

    def add(self, machine: str, address: str, why: str) -> None:
        """Adds a machine whose last session has ended."""
        self.remove(machine)
        self._peers[machine] = _Gone(address, time.monotonic(), why)
        if len(self._peers) > _MAX_PEERS:
            self.remove(next(iter(self._peers)))

    def remove(self, machine: str) -> None:
        """Removes a machine, for example because it has a session again."""
        self._peers.pop(machine, None)

    def status(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        return [
            {"machine": machine, "address": one.address, "gone_s": now - one.since, "why": one.why}
            for machine, one in self._peers.items()
        ]
