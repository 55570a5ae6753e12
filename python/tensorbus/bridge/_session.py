"""What two bridges have in common: streams in both directions, over connections that may break."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tensorbus import _core
from tensorbus._base.errors import Error, ProtocolError
from tensorbus.bridge import _frames
from tensorbus.bridge._clock import Clock
from tensorbus.bridge._export import Export
from tensorbus.bridge._frames import (
    Begin,
    Credit,
    Ended,
    Frame,
    PublisherEntry,
    Publishers,
    Unwant,
    Want,
)
from tensorbus.bridge._lane import BULK, EXPRESS, SILENCE, Lane
from tensorbus.bridge._mirror import Mirror
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._streams import Limits

logger = logging.getLogger("tensorbus.bridge")

_UNWANTED_AFTER = 1.0  # seconds without a local subscriber
_IN_A_ROW = 8  # frames that are written before others have a turn
_MOST_PUBLISHERS = 65_536  # of one peer


class Session:
    """One peer. It outlives connections; the bridge ends it when none comes for too long.

    In the event loop of its bridge. A ProtocolError out of a frame closes the connection that it
    came on.

    Args:
        peer: the id of the other bridge.
        machine: the other machine's name.
        rules: what may cross.
        participant: this machine's bridge.
        publishers: of this machine, as they are now, by key.
        on_cut: called when the connection is gone.
    """

    def __init__(
        self,
        peer: str,
        machine: str,
        rules: Rules,
        participant: _core.Participant,
        publishers: Callable[[], Mapping[str, PublisherEntry]],
        on_cut: Callable[[Session, str], None],
    ) -> None:
        self.peer = peer
        self.machine = machine
        self.clock = Clock()
        self.initiator = ""  # of the connection
        self.connection = ""
        self.ending: asyncio.TimerHandle | None = None
        self._completing: asyncio.TimerHandle | None = None
        self.address = ""
        self._rules = rules
        self._participant = participant
        self._publishers = publishers
        self._on_cut = on_cut
        self._lanes: dict[str, Lane] = {}
        self._exports: dict[int, Export] = {}
        self._wanted_again: set[int] = set()  # on this connection
        self._turns: dict[str, deque[Export]] = {EXPRESS: deque(), BULK: deque()}
        self._mirrors: dict[str, Mirror] = {}
        self._by_number: dict[int, Mirror] = {}  # of the publisher
        self._by_stream: dict[int, Mirror] = {}
        self._told: set[str] = set()  # publishers, by the peer on this connection
        self._newest = 0  # stream
        self._unwanting: dict[str, asyncio.TimerHandle] = {}

    @property
    def connected(self) -> bool:
        return EXPRESS in self._lanes

    # Connections.
    def connect(self, express: Lane, connection: str, initiator: str) -> None:
        """Goes on over a new connection, of which this is the express lane."""
        self.disconnect("there is a new connection")
        if self.ending is not None:
            self.ending.cancel()
            self.ending = None
        self._lanes[EXPRESS] = express
        loop = asyncio.get_running_loop()
        self._completing = loop.call_later(SILENCE, express.close, "no bulk lane came")
        self.connection, self.initiator = connection, initiator
        self.address = express.peer.address
        express.clock = self.clock
        self._wanted_again.clear()
        self._told.clear()
        for stream, mirror in self._by_stream.items():
            express.send(mirror.want(stream), stream)
        self._tell_publishers(list(self._publishers().values()), [], whole=True)

    def add_bulk(self, bulk: Lane) -> None:
        """
        Raises:
            ProtocolError: the connection has a bulk lane.
        """
        if BULK in self._lanes:
            raise ProtocolError("HELLO.lane: there is a bulk lane")
        self._lanes[BULK] = bulk
        if self._completing is not None:
            self._completing.cancel()
        self._pump(bulk)

    def disconnect(self, why: str) -> None:
        """Closes the connection, if there is one."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        if self._completing is not None:
            self._completing.cancel()
        for lane in lanes:
            lane.close(why)
        for export in self._exports.values():
            export.lose_connection()
        for turns in self._turns.values():
            turns.clear()
        for mirror in self._by_stream.values():
            mirror.lose_lanes()

    def end(self, why: str) -> None:
        """Ends the session: its exports close, its mirrors end as if their processes had died."""
        self.disconnect(why)
        if self.ending is not None:
            self.ending.cancel()
        for timer in self._unwanting.values():
            timer.cancel()
        for export in self._exports.values():
            export.close()
        for mirror in self._mirrors.values():
            mirror.close(complete=False)
        self._exports.clear()
        self._mirrors.clear()
        self._by_number.clear()
        self._by_stream.clear()

    # What the bridge says.
    def publishers_changed(self, added: list[PublisherEntry], removed: list[str]) -> None:
        """Publishers of this machine have come and gone."""
        for export in self._exports.values():
            if export.publisher.key in removed:
                export.publisher_is_gone()
        if self.connected:
            self._tell_publishers(added, removed, whole=False)

    def look_at_demand(self, numbers: Iterable[int]) -> None:
        """Publishers of these numbers have gained or lost subscribers."""
        for number in numbers:
            mirror = self._by_number.get(number)
            if mirror is None:
                continue
            if mirror.subscribers:
                self._want(mirror)
            elif mirror.stream and mirror.publisher.key not in self._unwanting:
                self._unwanting[mirror.publisher.key] = asyncio.get_running_loop().call_later(
                    _UNWANTED_AFTER, self._unwant, mirror
                )

    def status(self) -> dict[str, Any]:
        """For `tensorbus bridge status`."""
        offset = self.clock.offset
        return {
            "machine": self.machine,
            "bridge": self.peer,
            "address": self.address,
            "connected": self.connected,
            "clock_offset_ns": offset.offset_ns,
            "clock_uncertainty_ns": offset.uncertainty_ns,
            "mirrors": len(self._mirrors),
            "receiving": [
                {
                    "topic": mirror.publisher.topic,
                    "publisher": mirror.publisher.key,
                    "samples": mirror.received,
                    "bytes": mirror.received_bytes,
                    "discarded": mirror.discarded,
                    "bad": mirror.bad,
                }
                for mirror in self._by_stream.values()
            ],
            "sending": [
                {
                    "topic": export.publisher.topic,
                    "publisher": export.publisher.key,
                    "samples": export.sent,
                    "bytes": export.sent_bytes,
                    "missed": export.missed,
                }
                for export in self._exports.values()
            ],
        }

    # Called by the lanes.
    def on_frame(self, lane: Lane, frame: Frame, stream: int) -> None:
        if self._lanes.get(lane.name) is not lane:
            return
        if isinstance(frame, Begin):
            self._on_begin(lane, frame, stream)
        elif lane.name != EXPRESS:
            raise ProtocolError(f"{type(frame).__name__} on the lane {lane.name}")
        elif isinstance(frame, Credit):
            self._on_credit(frame, stream)
        elif isinstance(frame, Want):
            self._on_want(frame, stream)
        elif isinstance(frame, Unwant):
            self._on_unwant(stream)
        elif isinstance(frame, Publishers):
            self._on_publishers(frame)
        elif isinstance(frame, Ended):
            self._on_ended(frame, stream)
        else:
            raise ProtocolError(f"{type(frame).__name__} in a session")

    def chunk_target(self, lane: Lane, stream: int, length: int) -> memoryview:
        mirror = self._by_stream.get(stream)
        if mirror is None or self._lanes.get(lane.name) is not lane:
            self._require_wanted_once(stream, "CHUNK")
            return memoryview(bytearray(length))
        return mirror.chunk_target(lane.name, length)

    def on_chunk(self, lane: Lane, stream: int, length: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is not None and self._lanes.get(lane.name) is lane:
            mirror.on_chunk(lane.name, length)
            self._end_if_over(mirror)

    def on_writable(self, lane: Lane) -> None:
        self._pump(lane)

    def on_lost(self, lane: Lane, why: str) -> None:
        if self._lanes.get(lane.name) is not lane:
            return
        self.disconnect(why)
        self._on_cut(self, why)

    # Sending.
    def _on_want(self, want: Want, stream: int) -> None:
        limits = Limits(want.next, want.published, want.samples, want.cost)
        if stream in self._wanted_again:
            raise ProtocolError(f"WANT: {stream} is wanted")
        self._wanted_again.add(stream)
        known = self._exports.get(stream)
        if known is not None and known.publisher.key == want.publisher:
            return known.resume(limits)
        try:
            self._export(stream, want.publisher, limits)
        except (Error, LookupError) as error:
            self._send(Ended(False, 0, str(error)), stream)

    def _export(self, stream: int, key: str, limits: Limits) -> None:
        publisher = self._publishers().get(key)
        if publisher is None or not self._rules.exports.lets(publisher.topic, self.machine):
            raise LookupError("there is no such publisher here, or it may not leave this machine")
        self._exports[stream] = Export(
            stream,
            publisher,
            limits,
            self._rules.rule_of(publisher.topic),
            self._participant,
            self._take_turn,
            self._on_export_end,
        )

    def _on_credit(self, credit: Credit, stream: int) -> None:
        export = self._exports.get(stream)
        if export is not None:  # else it has ended, and the peer does not know yet
            export.credit(Limits(credit.next, credit.published, credit.samples, credit.cost))

    def _on_unwant(self, stream: int) -> None:
        export = self._exports.pop(stream, None)
        self._wanted_again.discard(stream)
        if export is not None:
            export.close()
        self._send(Ended(False, 0, ""), stream)

    # The export stays until the peer has all of it, and says UNWANT.
    def _on_export_end(self, export: Export) -> None:
        if export.ended is not None:
            self._send(export.ended, export.stream)

    def _take_turn(self, export: Export) -> None:
        turns = self._turns[export.lane]
        if export in turns:
            return
        self._enter(turns, export)
        lane = self._lanes.get(export.lane)
        if lane is not None:
            self._pump(lane)

    # After those of the same priority.
    @staticmethod
    def _enter(turns: deque[Export], export: Export) -> None:
        at = len(turns)
        while at > 0 and turns[at - 1].priority < export.priority:
            at -= 1
        turns.insert(at, export)

    def _pump(self, lane: Lane) -> None:
        """Writes while the kernel takes it; exports of one priority take turns."""
        turns = self._turns[lane.name]
        for _ in range(_IN_A_ROW):
            if not turns or not lane.writable or self._lanes.get(lane.name) is not lane:
                return
            export = turns.popleft()
            if export.write_to(lane):
                self._enter(turns, export)
        if turns:
            asyncio.get_running_loop().call_soon(self._pump, lane)

    # Receiving.
    def _on_publishers(self, told: Publishers) -> None:
        for publisher in told.added:
            self._told.add(publisher.key)
            self._mirror(publisher)
        gone = set(told.removed)
        if told.whole:
            gone.update(set(self._mirrors) - self._told)
            for stream in set(self._exports) - self._wanted_again:
                self._exports.pop(stream).close()
        self._told -= gone
        for key in gone:
            mirror = self._mirrors.get(key)
            if mirror is not None and not mirror.stream:
                self._drop(mirror)

    def _mirror(self, publisher: PublisherEntry) -> None:
        if publisher.key in self._mirrors:
            return
        if not self._rules.imports.lets(publisher.topic, self.machine):
            return
        if len(self._mirrors) >= _MOST_PUBLISHERS:
            raise ProtocolError(f"PUBLISHERS: more than {_MOST_PUBLISHERS}")
        try:
            mirror = Mirror(
                self.machine,
                publisher,
                self._participant,
                self._tell_credit,
                lambda: self.clock.offset.offset_ns,
            )
        except (Error, TypeError) as error:
            logger.warning("%s of %s: %s", publisher.topic, self.machine, error)
            return
        self._mirrors[publisher.key] = self._by_number[mirror.number] = mirror

    def _want(self, mirror: Mirror) -> None:
        timer = self._unwanting.pop(mirror.publisher.key, None)
        if timer is not None:
            timer.cancel()
        if mirror.stream:
            return
        self._newest = stream = self._newest + 1
        self._by_stream[stream] = mirror
        self._send(mirror.want(stream), stream)

    def _unwant(self, mirror: Mirror) -> None:
        del self._unwanting[mirror.publisher.key]
        stream = mirror.stream
        if not stream or not mirror.unwant():
            return
        del self._by_stream[stream]
        self._send(Unwant(), stream)
        if self.connected and mirror.publisher.key not in self._told:
            self._drop(mirror)  # the publisher has gone meanwhile

    def _on_begin(self, lane: Lane, begin: Begin, stream: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is None:
            return self._require_wanted_once(stream, "BEGIN")
        mirror.begin(lane.name, begin)
        self._end_if_over(mirror)

    def _on_ended(self, ended: Ended, stream: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is None:
            return self._require_wanted_once(stream, "ENDED")
        if ended.text:
            logger.warning("%s of %s: %s", mirror.publisher.topic, self.machine, ended.text)
        mirror.end(ended)
        self._end_if_over(mirror)

    def _end_if_over(self, mirror: Mirror) -> None:
        if mirror.over and self._by_stream.pop(mirror.stream, None) is not None:
            self._send(Unwant(), mirror.stream)
            self._drop(mirror)

    def _drop(self, mirror: Mirror) -> None:
        timer = self._unwanting.pop(mirror.publisher.key, None)
        if timer is not None:
            timer.cancel()
        self._mirrors.pop(mirror.publisher.key, None)
        self._by_number.pop(mirror.number, None)
        mirror.close()

    def _tell_credit(self, mirror: Mirror) -> None:
        if mirror.stream:
            self._send(mirror.credit(), mirror.stream)
            self._end_if_over(mirror)

    # The lanes have no common order: of a stream that is over, frames may still come on the other.
    def _require_wanted_once(self, stream: int, what: str) -> None:
        if not 0 < stream <= self._newest:
            raise ProtocolError(f"{what}: nobody wanted the stream {stream}")

    # Both.
    def _tell_publishers(
        self, added: list[PublisherEntry], removed: list[str], *, whole: bool
    ) -> None:
        exports = self._rules.exports
        seen = [one for one in added if exports.lets(one.topic, self.machine)]
        for part in _parts(seen):
            self._send(Publishers(part, [], False))
        if removed or whole:
            self._send(Publishers([], removed, whole))

    def _send(self, frame: Frame, stream: int = 0) -> None:
        lane = self._lanes.get(EXPRESS)
        if lane is not None:
            lane.send(frame, stream)


def _parts(publishers: list[PublisherEntry]) -> Iterator[list[PublisherEntry]]:
    """As many at a time as fit into a frame."""
    part: list[PublisherEntry] = []
    size = 0
    for one in publishers:
        part.append(one)
        size += 4 * (len(one.topic) + len(one.node) + len(one.type)) + 100
        if size > _frames.MOST_BYTES // 4:
            yield part
            part, size = [], 0
    if part:
        yield part
