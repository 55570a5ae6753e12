"""Lists of named queues: those of this machine, those sent to peers, and those of peers.

Queues whose name begins with "service:" are those of services.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from tensorbus import _core
from tensorbus._base.errors import Error, ProtocolError
from tensorbus.bridge._rules import LOCAL_PREFIX
from tensorbus.bridge._shortage import SHORTAGES, Backoff, require_shortage
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._wire.frames import QueueEntry, Queues

logger = logging.getLogger("tensorbus.bridge")

SERVICE_PREFIX = "service:"

_MAX_IN_FRAME = 256
_MAX_QUEUES = 65_536  # of one peer
_OPENS_IN = 1.0  # seconds to wait for the reply of a process before the next try
_OPENED_AT_ONCE = 4  # threads that open queues


class Consumer(Protocol):
    """A user of the list of a peer's queues."""

    def on_queues(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Queues of the peer's machine were added; others, given by key, were removed."""
        ...


class LocalQueues:
    """The named queues of this machine. Mirrors and queues with LOCAL_PREFIX do not count.

    A queue is added to `entries` after it was opened, for which its process must reply. A queue
    with writable tensors (`shared`) is not added: no memory is shared between machines. Queues of
    services are added without opening them.

    Args:
        participant: this machine's bridge.
        on_change: called with new entries, and the keys of removed entries.
    """

    def __init__(
        self,
        participant: _core.Participant,
        on_change: Callable[[list[QueueEntry], list[str]], None],
    ) -> None:
        self.entries: dict[str, QueueEntry] = {}
        self._participant = participant
        self._on_change = on_change
        self._found: dict[str, _core.QueueInfo] = {}
        self._opened: dict[str, _core.Queue] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(_OPENED_AT_ONCE, "tensorbus-open")

    def address_of(self, key: str) -> str:
        """Returns the address of a queue of `entries` in this domain."""
        return self._found[key].address

    def opened(self, key: str) -> _core.Queue | None:
        """Returns the opened queue with this key; None for a service, or if it does not exist."""
        return self._opened.get(key)

    def find(self) -> dict[str, _core.QueueInfo]:
        """Returns the current queues, by key."""
        return {
            info.queue: info
            for info in _core.list_queues(self._participant)
            if not info.machine
            and info.participant != self._participant.id  # a mirror of a service
            and not public_name(info.name).startswith(LOCAL_PREFIX)
        }

    def found(self, found: dict[str, _core.QueueInfo]) -> None:
        """Takes the result of find(): queues may have been added or removed."""
        gone = [key for key in self._found if key not in found]
        new = [info for key, info in found.items() if key not in self._found]
        self._found = found
        services = [info for info in new if info.name.startswith(SERVICE_PREFIX)]
        added = [QueueEntry(info.queue, info.name, 0, 0, False) for info in services]
        self.entries.update((entry.key, entry) for entry in added)
        for info in new:
            if info not in services:
                self._opening[info.queue] = asyncio.ensure_future(self._open(info))
        removed = [key for key in gone if self._forget(key)]
        if added or removed:
            self._on_change(added, removed)

    def close(self) -> None:
        for task in self._opening.values():
            task.cancel()
        self._opening.clear()
        self._opened.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # Returns True if it was an entry.
    def _forget(self, key: str) -> bool:
        opening = self._opening.pop(key, None)
        if opening is not None:
            opening.cancel()
        self._opened.pop(key, None)
        return self.entries.pop(key, None) is not None

    async def _open(self, info: _core.QueueInfo) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff(f"{info.name} is not open", logger.info)
        while True:
            try:
                queue = await loop.run_in_executor(
                    self._threads, _core.Queue.open, info.address, _OPENS_IN, self._participant
                )
                break
            except (Error, *SHORTAGES) as error:  # its process may be stopped
                if not isinstance(error, Error):
                    require_shortage(error)
                await asyncio.sleep(backoff.failed(error))
        backoff.succeeded()
        del self._opening[info.queue]
        if queue.shared:
            logger.info("%s: a shared queue stays on its machine", info.name)
            return
        entry = QueueEntry(
            info.queue, info.name, queue.maxsize, queue.max_bytes, redeliver=queue.redeliver
        )
        self._opened[info.queue] = queue
        self.entries[info.queue] = entry
        self._on_change([entry], [])


class QueueLists:
    """Sends the list of queues that the peer may see, and receives the list of the peer's queues.

    Args:
        link: to the peer.
        local: the queues of this machine, by key.
        queues: notified of the peer's queues.
        services: notified of the peer's services.
    """

    def __init__(
        self,
        link: Link,
        local: Mapping[str, QueueEntry],
        queues: Consumer,
        services: Consumer,
    ) -> None:
        self._link = link
        self._local = local
        self._queues = queues
        self._services = services
        self._there: dict[str, tuple[QueueEntry, Consumer]] = {}  # queues of the peer, by key
        self._told_again: set[str] = set()  # keys of these that were named on this connection

    def connected(self) -> None:
        """Sends all queues to the peer on a new connection."""
        self._told_again.clear()
        self._tell(list(self._local.values()), [], whole=True)

    def changed(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Queues of this machine were added or removed."""
        if self._link.connected:
            self._tell(added, removed, whole=False)

    def on_queues(self, told: Queues) -> None:
        """Takes a list of the peer.

        Raises:
            ProtocolError: the peer has too many queues.
        """
        added: list[QueueEntry] = []
        for entry in told.added:
            if self._may_come(entry):
                self._told_again.add(entry.key)
                if entry.key not in self._there:
                    self._add(entry)
                    added.append(entry)
        gone = set(told.removed)
        if told.whole:
            gone.update(set(self._there) - self._told_again)
        self._told_again -= gone
        removed = [(key, self._remove(key)) for key in gone if key in self._there]
        for consumer in (self._queues, self._services):
            new = [
                entry
                for entry in added
                if entry.key in self._there and self._consumer_of(entry) is consumer
            ]
            old = [key for key, its_consumer in removed if its_consumer is consumer]
            if new or old:
                consumer.on_queues(new, old)

    def _may_come(self, entry: QueueEntry) -> bool:
        return self._link.rules.imports.lets(public_name(entry.name), self._link.machine)

    def _add(self, entry: QueueEntry) -> None:
        if len(self._there) >= _MAX_QUEUES:
            raise ProtocolError(f"QUEUES: more than {_MAX_QUEUES}")
        self._link.budget.remember(entry.key, entry.name)
        self._there[entry.key] = entry, self._consumer_of(entry)

    def _remove(self, key: str) -> Consumer:
        entry, consumer = self._there.pop(key)
        self._link.budget.forget(entry.key, entry.name)
        return consumer

    def _consumer_of(self, entry: QueueEntry) -> Consumer:
        return self._services if entry.name.startswith(SERVICE_PREFIX) else self._queues

    def _tell(self, added: list[QueueEntry], removed: list[str], *, whole: bool) -> None:
        link = self._link
        seen = [
            entry
            for entry in added
            if link.rules.exports.lets(public_name(entry.name), link.machine)
        ]
        for entries in _parts(seen):
            link.send(Queues(entries, [], False))
        for keys in _parts(removed):
            link.send(Queues([], keys, False))
        if whole:
            link.send(Queues([], [], True))


def public_name(name: str) -> str:
    """Returns the name to which rules apply: that of the queue, or of the service."""
    return name[len(SERVICE_PREFIX) :] if name.startswith(SERVICE_PREFIX) else name


def _parts(entries: list[Any]) -> Iterator[list[Any]]:
    """Yields the entries in lists that fit into a frame each."""
    for begin in range(0, len(entries), _MAX_IN_FRAME):
        yield entries[begin : begin + _MAX_IN_FRAME]
