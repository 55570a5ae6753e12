"""A session of two bridges: streams in both directions, over connections that may break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tensorbus import _core
from tensorbus._base.errors import OutOfMemory, ProtocolError
from tensorbus.bridge._budget import PeerBudget
from tensorbus.bridge._queues.lists import QueueLists
from tensorbus.bridge._queues.mirrors import QueueMirrors
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._services.mirror import ServiceMirrors
from tensorbus.bridge._shortage import SHORTAGES, require_shortage
from tensorbus.bridge._streams.channel import NUMBER
from tensorbus.bridge._streams.channels import Channels, Serve
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._topics.exports import Exports
from tensorbus.bridge._topics.mirrors import Mirrors
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.frames import (
    Begin,
    Closed,
    Credit,
    Ended,
    Frame,
    Open,
    PublisherEntry,
    Publishers,
    QueueEntry,
    Queues,
    Unwant,
    Want,
)
from tensorbus.bridge._wire.lane import BULK, EXPRESS, SILENCE, ConnectionOver, Lane

_OF_CONNECTION = 4  # descriptors of a connection


class Session:
    """The session with one peer. It outlives connections.

    The bridge ends the session if it has no connection for too long. It is used in the event loop
    of the bridge. A ProtocolError raised for a frame closes the connection of that frame.

    Args:
        peer: the id of the other bridge.
        machine: the other machine's name.
        rules: what may cross.
        participant: this machine's bridge.
        publishers: returns the publishers of this machine, by key.
        queues: the queues of this machine, by key; changes with them.
        on_cut: called when the connection is gone.
        served: the functions that serve channels opened by the peer, by kind.
        budget: of the peer.

    Raises:
        ProtocolError: the bridge has no descriptors for one more peer.
    """

    def __init__(
        self,
        peer: str,
        machine: str,
        rules: Rules,
        participant: _core.Participant,
        publishers: Callable[[], Mapping[str, PublisherEntry]],
        queues: Mapping[str, QueueEntry],
        on_cut: Callable[[Session, str], None],
        served: Mapping[str, Serve],
        budget: PeerBudget | None = None,
    ) -> None:
        self.peer = peer
        self.machine = machine
        self.name = ""  # the connection that it began with
        self.initiator = ""  # id of the bridge that began the connection
        self.connection = ""
        self.address = ""
        self.ending: asyncio.TimerHandle | None = None
        self.refused = 0  # consecutive connections that a protocol error has ended soon
        self._connected_at = 0.0  # in the event loop's time
        self._completing: asyncio.TimerHandle | None = None
        self._on_cut = on_cut
        self._lanes: dict[str, Lane] = {}
        self._link = Link(machine, rules, participant, budget)
        self._budget = self._link.budget
        try:
            self._budget.descriptors.take(_OF_CONNECTION)  # kept also without a connection
        except OutOfMemory as error:
            raise ProtocolError(f"HELLO: {error}") from None
        self._exports = Exports(self._link, publishers)
        self._mirrors = Mirrors(self._link)
        self.channels = Channels(self._link, served, self._on_protocol_error)
        self._queue_mirrors = QueueMirrors(self._link, self.channels)
        self._services = ServiceMirrors(self._link, self.channels)
        self._queue_lists = QueueLists(self._link, queues, self._queue_mirrors, self._services)
        for part in (self._mirrors, self._queue_mirrors, self._services):
            self._budget.when_room(part.try_soon)

    @property
    def connected(self) -> bool:
        return self._link.connected

    # Connections.
    def connect(self, express: Lane, connection: str, initiator: str) -> None:
        """Continues over a new connection, whose express lane is `express`."""
        self.disconnect("there is a new connection")
        if self.ending is not None:
            self.ending.cancel()
            self.ending = None
        self._lanes[EXPRESS] = self._link.express = express
        loop = asyncio.get_running_loop()
        self._connected_at = loop.time()
        self._completing = loop.call_later(SILENCE, express.close, "no bulk lane in time")
        self.name = self.name or connection
        self.connection, self.initiator = connection, initiator
        self.address = express.peer.address
        express.clock = self._link.clock
        self._mirrors.connected()
        self.channels.connected()
        self._queue_lists.connected()
        self._exports.connected()  # last: its `whole` says that all streams and channels were named
        self._link.pump.add(express)

    def add_bulk(self, bulk: Lane) -> None:
        """
        Raises:
            ProtocolError: the connection already has a bulk lane.
            ConnectionOver: the express lane has ended meanwhile.
        """
        if not self.connected:
            raise ConnectionOver
        if BULK in self._lanes:
            raise ProtocolError("HELLO.lane: the connection has a bulk lane")
        self._lanes[BULK] = bulk
        if self._completing is not None:
            self._completing.cancel()
        self._link.pump.add(bulk)

    def disconnect(self, why: str) -> None:
        """Closes the connection, if there is one."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        self._link.express = None
        self._link.pump.clear()
        if self._completing is not None:
            self._completing.cancel()
        for lane in lanes:
            lane.close(why)
        for part in (self._exports, self._mirrors, self.channels):
            part.disconnected()

    def end(self, why: str) -> None:
        """Ends the session: exports close, and mirrors end as if their processes had died."""
        self.disconnect(why)
        if self.ending is not None:
            self.ending.cancel()
        self._exports.close()
        self._mirrors.close()
        self._queue_mirrors.close()
        self._services.close()
        self.channels.close(why)
        self._budget.close()
        self._budget.descriptors.give_back(_OF_CONNECTION)

    @contextmanager
    def whole_or_cut(self) -> Iterator[None]:
        """Cuts the connection if a shortage interrupts the messages sent inside the context.

        On the next connection everything is sent again.
        """
        try:
            yield
        except SHORTAGES as error:
            require_shortage(error)
            why = str(error) or "no memory is left"
            self.disconnect(why)
            self._on_cut(self, why)

    # Called by the bridge.
    def domain_changed(self, added: list[PublisherEntry], removed: list[str]) -> None:
        """Publishers of this machine were added or removed; names of queues may be free again."""
        if added or removed:
            self._exports.publishers_changed(added, removed)
        self._queue_mirrors.look()

    def queues_changed(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Queues of this machine were added or removed."""
        self._queue_lists.changed(added, removed)

    def look_at_demand(self, numbers: Iterable[int]) -> None:
        """The publishers with these numbers have gained or lost subscribers."""
        self._mirrors.look_at_demand(numbers)

    def status(self) -> dict[str, Any]:
        """Returns the part of `tensorbus bridge status` for this peer."""
        offset = self._link.clock.offset
        return {
            "machine": self.machine,
            "bridge": self.peer,
            "address": self.address,
            "connected": self.connected,
            "clock_offset_ns": offset.offset_ns,
            "clock_uncertainty_ns": offset.uncertainty_ns,
            "mirrors": len(self._mirrors),
            "receiving": self._mirrors.status(),
            "sending": self._exports.status(),
            "queues": self._queue_mirrors.status(),
            "services": self._services.status(),
        }

    # Called by the lanes.
    def on_frame(self, lane: Lane, frame: Frame, stream: int) -> None:
        if self._lanes.get(lane.name) is not lane:
            return
        if isinstance(frame, Begin):
            if stream > NUMBER:
                self.channels.on_begin(lane.name, frame, stream)
            else:
                self._mirrors.on_begin(lane.name, frame, stream)
        elif lane.name != EXPRESS:
            raise ProtocolError(f"{type(frame).__name__} on the lane {lane.name}")
        elif isinstance(frame, Credit):
            if stream > NUMBER:
                self.channels.on_credit(frame, stream)
            else:
                self._exports.on_credit(frame, stream)
        elif isinstance(frame, Want):
            self._exports.on_want(frame, stream)
        elif isinstance(frame, Unwant):
            self._exports.on_unwant(stream)
        elif isinstance(frame, Publishers):
            self._mirrors.on_publishers(frame)
            if frame.whole:
                self._exports.drop_unwanted()
                self.channels.drop_unopened()
        elif isinstance(frame, Queues):
            self._queue_lists.on_queues(frame)
        elif isinstance(frame, Ended):
            self._mirrors.on_ended(frame, stream)
        elif isinstance(frame, Open):
            self.channels.on_open(frame, stream)
        elif isinstance(frame, Closed):
            self.channels.on_closed(frame, stream)
        else:
            raise ProtocolError(f"{type(frame).__name__} in a session")

    def chunk_target(self, lane: Lane, stream: int, length: int) -> memoryview:
        target = None
        if self._lanes.get(lane.name) is lane:
            streams = self.channels if stream > NUMBER else self._mirrors
            target = streams.chunk_target(lane.name, stream, length)
        return frames.discarded(length) if target is None else target

    def on_chunk(self, lane: Lane, stream: int, length: int) -> None:
        if self._lanes.get(lane.name) is lane:
            streams = self.channels if stream > NUMBER else self._mirrors
            streams.on_chunk(lane.name, stream, length)

    def on_writable(self, lane: Lane) -> None:
        self._link.pump.write(lane)

    def on_lost(self, lane: Lane, why: str) -> None:
        if self._lanes.get(lane.name) is not lane:
            return
        lasted = asyncio.get_running_loop().time() - self._connected_at
        self.refused = self.refused + 1 if lane.refused and lasted < SILENCE else 0
        self.disconnect(why)
        self._on_cut(self, why)

    def _on_protocol_error(self, error: ProtocolError) -> None:
        if self._link.express is not None:
            self._link.express.refuse(error)
