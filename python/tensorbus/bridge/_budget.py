"""Limits on what each peer costs a bridge: descriptors, endpoints, memory for names, log lines.

Everything that the bridge opens or remembers for a peer is charged to that peer. So no peer can
exhaust what the bridge needs for other peers, new connections and the programs of its own machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from collections.abc import Callable

from tensorbus._base.errors import OutOfMemory, ProtocolError
from tensorbus.bridge._shortage import FIRST_WAIT, LONGEST_WAIT

logger = logging.getLogger("tensorbus.bridge")

_RESERVE = 8  # peers may not use an eighth of each resource
_MEASURED_FOR = 0.1  # seconds for which a measured usage is valid
_MAX_ENDPOINTS = 16_383  # of one participant
_UNLIMITED = 1 << 30
_MAX_REMEMBERED = 64 << 20  # bytes
_MAX_ATTACHING, _MAX_OPENING = 256, 64  # concurrent attaches to shares, and opens of services
_ENTRY_BYTES = 512  # cost of an entry in addition to its texts
_MAX_LINES = 50  # log lines at once; after that one per _LINE_AFTER
_LINE_AFTER = 1.0  # seconds


class Pool:
    """A resource of the bridge that all peers share.

    A peer may have at most twice what is left (Choudhury and Hahne, "Dynamic queue length
    thresholds", 1998). So a single peer gets two thirds, two greedy peers get two fifths each, and
    something is left for a later peer.

    Args:
        name: of the resource, in errors.
        limit: returns the total amount.
        used: returns the amount in use, by peers and others; 0 if unknown.
    """

    def __init__(
        self, name: str, limit: Callable[[], int], used: Callable[[], int] = lambda: 0
    ) -> None:
        self.name = name
        self.taken = 0  # by all peers
        self._limit = limit
        self._used = used
        self._own = self._measured = used()
        self._measured_until = 0.0

    @property
    def limit(self) -> int:
        """The total amount."""
        return self._limit()

    @property
    def left(self) -> int:
        """The amount that is left for peers."""
        now = time.monotonic()
        if now >= self._measured_until:
            self._measured = self._used()
            self._measured_until = now + _MEASURED_FOR
        limit = self.limit
        return limit - limit // _RESERVE - max(self._measured, self._own + self.taken)


class Share:
    """The part of a pool that one peer has taken."""

    def __init__(self, pool: Pool, machine: str, on_room: Callable[[], None]) -> None:
        self.taken = 0
        self._pool = pool
        self._machine = machine
        self._on_room = on_room

    def take(self, count: int) -> None:
        """
        Raises:
            OutOfMemory: the peer may not take so many.
        """
        left = self._pool.left - count
        if self.taken + count > 2 * left:
            raise OutOfMemory(
                f"{self._machine} may not take more {self._pool.name} of this bridge: it has "
                f"{self.taken}, and {max(left + count, 0)} are left for all"
            )
        self.taken += count
        self._pool.taken += count

    def give_back(self, count: int) -> None:
        self.taken -= count
        self._pool.taken -= count
        self._on_room()

    async def wait_for(self, count: int) -> None:
        """Like take(), but waits until the peer may take `count`."""
        delay = FIRST_WAIT
        while True:
            try:
                return self.take(count)
            except OutOfMemory:
                await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_WAIT)


class LogLines:
    """Limits the log lines that a peer causes: a burst, then one per second.

    Args:
        whose: names the peer in the line with the number of omitted lines.
    """

    def __init__(self, whose: str) -> None:
        self._whose = whose
        self._left = float(_MAX_LINES)
        self._at = 0.0
        self._left_out = 0
        self._telling: asyncio.TimerHandle | None = None

    def warning(self, text: str, *arguments: object) -> None:
        """Writes a warning, or counts it as omitted."""
        self._write(logging.WARNING, text, *arguments)

    def info(self, text: str, *arguments: object) -> None:
        """Writes a line of the level INFO, or counts it as omitted."""
        self._write(logging.INFO, text, *arguments)

    def _write(self, level: int, text: str, *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._left = min(_MAX_LINES, self._left + (now - self._at) / _LINE_AFTER)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            logger.log(level, text, *arguments)
            return
        self._left_out += 1
        if self._telling is None:
            self._telling = loop.call_later(_MAX_LINES * _LINE_AFTER, self.close)

    def close(self) -> None:
        """Logs the number of omitted lines, if there are any."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._left_out:
            logger.warning("%s: %d more lines were left out", self._whose, self._left_out)
            self._left_out = 0


class Budget:
    """The shared resources of a bridge."""

    def __init__(self) -> None:
        self.descriptors = Pool("descriptors (RLIMIT_NOFILE)", _descriptor_limit, open_descriptors)
        self.endpoints = Pool("endpoints", lambda: _MAX_ENDPOINTS)
        self.log = LogLines("connections")


class PeerBudget:
    """The limits of one peer.

    Args:
        machine: the name of the peer's machine.
        budget: of the bridge.
    """

    def __init__(self, machine: str, budget: Budget | None = None) -> None:
        budget = budget or Budget()
        self.log = LogLines(machine)
        self.descriptors = Share(budget.descriptors, machine, self._go_on)
        self.endpoints = Share(budget.endpoints, machine, self._go_on)
        # These limit threads that wait for processes of this machine, which may be stopped.
        self.attaching = asyncio.Semaphore(_MAX_ATTACHING)
        self.opening = asyncio.Semaphore(_MAX_OPENING)
        self._on_room: list[Callable[[], None]] = []
        self._remembered = 0  # bytes

    def when_room(self, call: Callable[[], None]) -> None:
        """Registers a function that is called each time the peer gives something back."""
        self._on_room.append(call)

    def remember(self, *texts: str) -> None:
        """Charges an entry with these texts to the peer, until forget().

        Raises:
            ProtocolError: the entries of the peer take too much memory.
        """
        size = _size_of(texts)
        if self._remembered + size > _MAX_REMEMBERED:
            raise ProtocolError(
                f"the names of publishers, queues and channels take more than "
                f"{_MAX_REMEMBERED >> 20} MiB here"
            )
        self._remembered += size

    def forget(self, *texts: str) -> None:
        self._remembered -= _size_of(texts)

    def close(self) -> None:
        """Called when the session has ended."""
        self._on_room.clear()
        self.log.close()

    def _go_on(self) -> None:
        for call in self._on_room:
            call()


def open_descriptors() -> int:
    """Returns the number of open descriptors of this process."""
    size = os.stat("/proc/self/fd").st_size  # since Linux 6.2
    if size:
        return size
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:  # no descriptor is left for the directory itself
        return _descriptor_limit()


def _descriptor_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _size_of(texts: tuple[str, ...]) -> int:
    return sum((len(text) if text.isascii() else 4 * len(text) for text in texts), _ENTRY_BYTES)
