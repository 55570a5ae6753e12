"""The exports of a session: this machine's publishers that the peer wants."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tensorbus._base.errors import Error, ProtocolError
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._streams.stream import Limits
from tensorbus.bridge._topics.export import Export
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.frames import Credit, Ended, PublisherEntry, Publishers, Want

_OF_EXPORT = 4  # descriptors of an export
_KEYS_IN_FRAME = 256
# Max. streams of one publisher that a peer may begin in 10 s. A mirror begins at most one a second.
_MAX_WANTS, _WANTS_IN = 32, 10.0


class Exports:
    """The exports of a session.

    Args:
        link: to the peer.
        publishers: returns the publishers of this machine, by key.
    """

    def __init__(self, link: Link, publishers: Callable[[], Mapping[str, PublisherEntry]]) -> None:
        self._link = link
        self._publishers = publishers
        self._exports: dict[int, Export] = {}  # by stream
        self._streams: dict[str, int] = {}  # of the exports, by the key of the publisher
        self._wanted_again: set[int] = set()  # streams that were wanted on this connection
        self._wants: Counter[str] = Counter()  # streams begun since _wants_since, by publisher
        self._wants_since = 0.0

    def connected(self) -> None:
        """Sends all publishers to the peer on a new connection."""
        self._wanted_again.clear()
        self._tell(list(self._publishers().values()), [], whole=True)

    def disconnected(self) -> None:
        for export in self._exports.values():
            export.end.lose_connection()

    def close(self) -> None:
        for stream in list(self._exports):
            self._drop(stream)

    def publishers_changed(self, added: list[PublisherEntry], removed: list[str]) -> None:
        """Publishers of this machine were added or removed."""
        for export in self._exports.values():
            if export.publisher.key in removed:
                export.publisher_is_gone()
        if self._link.connected:
            self._tell(added, removed, whole=False)

    def drop_unwanted(self) -> None:
        """Drops exports that were not wanted on this connection.

        Called when the peer has sent WANT for all its streams.
        """
        for stream in set(self._exports) - self._wanted_again:
            self._drop(stream)

    def on_want(self, want: Want, stream: int) -> None:
        """Begins or continues a stream.

        Raises:
            ProtocolError: the stream, or its publisher as another stream, is already wanted; or the
                peer wants the publisher too often.
        """
        limits = Limits(want.next, want.published, want.samples, want.cost)
        if stream in self._wanted_again:
            raise ProtocolError(f"WANT: {stream} is wanted")
        other = self._streams.get(want.publisher, stream)
        if other in self._wanted_again:
            raise ProtocolError(f"WANT: the publisher of {stream} is wanted as {other}")
        known = self._exports.get(stream)
        if known is not None and known.publisher.key == want.publisher:
            self._wanted_again.add(stream)
            return known.resume(limits)
        for old in (stream, other):  # streams of an earlier connection
            self._drop(old)
        self._count_want(want.publisher)
        try:
            self._export(stream, want.publisher, limits)
            self._wanted_again.add(stream)
        except (Error, LookupError) as error:  # also after a shortage: the peer tries again
            self._link.send(Ended(False, 0, str(error)), stream)

    def on_credit(self, credit: Credit, stream: int) -> None:
        export = self._exports.get(stream)
        if export is not None:  # otherwise it has ended, and the peer does not know yet
            export.end.credit(Limits(credit.next, credit.published, credit.samples, credit.cost))

    def on_unwant(self, stream: int) -> None:
        self._drop(stream)
        self._link.send(Ended(False, 0, ""), stream)

    def status(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": export.publisher.topic,
                "publisher": export.publisher.key,
                "samples": export.end.written,
                "bytes": export.end.written_bytes,
                "missed": export.missed,
                "unsent": export.unsent,
            }
            for export in self._exports.values()
        ]

    def _export(self, stream: int, key: str, limits: Limits) -> None:
        link, publisher = self._link, self._publishers().get(key)
        if publisher is None or not link.rules.exports.lets(publisher.topic, link.machine):
            raise LookupError("there is no such publisher here, or it may not leave this machine")
        link.budget.descriptors.take(_OF_EXPORT)
        try:
            self._exports[stream] = Export(
                stream,
                publisher,
                limits,
                link.rules.rule_of(publisher.topic),
                link.participant,
                link.pump.take_turn,
                self._on_end,
                link.budget.log.warning,
            )
        except BaseException:
            link.budget.descriptors.give_back(_OF_EXPORT)
            raise
        self._streams[key] = stream

    def _count_want(self, key: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._wants_since > _WANTS_IN:
            self._wants.clear()
            self._wants_since = now
        self._wants[key if key in self._publishers() else ""] += 1
        if self._wants[key] > _MAX_WANTS:
            raise ProtocolError(f"WANT: {key} more than {_MAX_WANTS} times in {_WANTS_IN:.0f} s")

    def _drop(self, stream: int) -> None:
        self._wanted_again.discard(stream)
        export = self._exports.pop(stream, None)
        if export is not None:
            del self._streams[export.publisher.key]
            export.close()
            self._link.budget.descriptors.give_back(_OF_EXPORT)

    # The export stays until the peer has received all samples and sends UNWANT.
    def _on_end(self, export: Export) -> None:
        if export.ended is not None:
            self._link.send(export.ended, export.end.stream)

    def _tell(self, added: list[PublisherEntry], removed: list[str], *, whole: bool) -> None:
        link = self._link
        seen = [one for one in added if link.rules.exports.lets(one.topic, link.machine)]
        for part in _parts(seen):
            link.send(Publishers(part, [], False))
        for begin in range(0, len(removed), _KEYS_IN_FRAME):
            link.send(Publishers([], removed[begin : begin + _KEYS_IN_FRAME], False))
        if whole:
            link.send(Publishers([], [], True))


def _parts(publishers: list[PublisherEntry]) -> Iterator[list[PublisherEntry]]:
    """Yields lists of publishers that fit into a frame."""
    part: list[PublisherEntry] = []
    size = 0
    for one in publishers:
        part.append(one)
        size += 4 * (len(one.topic) + len(one.node) + len(one.type)) + 100
        if size > frames.MAX_BYTES // 4:
            yield part
            part, size = [], 0
    if part:
        yield part
