"""What a session receives: the peer's publishers, on this machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from tensorbus._base.errors import Error, OutOfMemory, ProtocolError
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._topics.mirror import Mirror
from tensorbus.bridge._wire.frames import Begin, Ended, PublisherEntry, Publishers, Unwant

logger = logging.getLogger("tensorbus.bridge")

_UNWANTED_AFTER = 1.0  # seconds without a local subscriber
_AGAIN_AFTER = 1.0  # seconds, when a mirror could not be made, or its stream has failed
_MOST_PUBLISHERS = 65_536  # of one peer


class Mirrors:
    """The mirrors of a session. It wants what local subscribers want.

    Args:
        link: to the peer.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._mirrors: dict[str, Mirror] = {}
        self._by_number: dict[int, Mirror] = {}  # of the publisher
        self._by_stream: dict[int, Mirror] = {}
        self._told: set[str] = set()  # publishers, by the peer on this connection
        self._newest = 0  # stream
        self._unwanting: dict[str, asyncio.TimerHandle] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}  # publishers that are tried again
        self._warned: dict[str, str] = {}  # of publishers, by key: the last warning

    def connected(self) -> None:
        """Tells the peer, on a new connection, where each stream goes on."""
        self._told.clear()
        for stream, mirror in self._by_stream.items():
            self._link.send(mirror.want(stream), stream)

    def disconnected(self) -> None:
        for mirror in self._by_stream.values():
            mirror.lose_lanes()

    def close(self) -> None:
        """They end as if their processes had died."""
        for timer in (*self._unwanting.values(), *self._again.values()):
            timer.cancel()
        for mirror in self._mirrors.values():
            mirror.close(complete=False)
        self._mirrors.clear()
        self._by_number.clear()
        self._by_stream.clear()

    def look_at_demand(self, numbers: Iterable[int]) -> None:
        """Publishers of these numbers have gained or lost subscribers."""
        for number in numbers:
            mirror = self._by_number.get(number)
            if mirror is None:
                continue
            if mirror.subscribers and mirror.publisher.key not in self._again:
                self._want(mirror)
            elif mirror.stream and mirror.publisher.key not in self._unwanting:
                self._unwanting[mirror.publisher.key] = asyncio.get_running_loop().call_later(
                    _UNWANTED_AFTER, self._unwant, mirror
                )

    def on_publishers(self, told: Publishers) -> None:
        for publisher in told.added:
            self._told.add(publisher.key)
            self._mirror(publisher)
        gone = set(told.removed)
        if told.whole:
            gone.update(set(self._mirrors) - self._told)
        self._told -= gone
        for key in gone:
            self._warned.pop(key, None)
            mirror = self._mirrors.get(key)
            if mirror is not None and not mirror.stream:
                self._drop(mirror)

    def on_begin(self, lane: str, begin: Begin, stream: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is None:
            return self._require_wanted_once(stream, "BEGIN")
        mirror.begin(lane, begin)
        self._end_if_over(mirror)

    def chunk_target(self, lane: str, stream: int, length: int) -> memoryview | None:
        """None: the stream is over."""
        mirror = self._by_stream.get(stream)
        if mirror is None:
            self._require_wanted_once(stream, "CHUNK")
            return None
        return mirror.chunk_target(lane, length)

    def on_chunk(self, lane: str, stream: int, length: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is not None:
            mirror.on_chunk(lane, length)
            self._end_if_over(mirror)

    def on_ended(self, ended: Ended, stream: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is None:
            return self._require_wanted_once(stream, "ENDED")
        if ended.text:
            self._warn(mirror.publisher, ended.text)
        mirror.end(ended)
        self._end_if_over(mirror)

    def __len__(self) -> int:
        return len(self._mirrors)

    def status(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": mirror.publisher.topic,
                "publisher": mirror.publisher.key,
                "samples": mirror.received,
                "bytes": mirror.received_bytes,
                "discarded": mirror.discarded,
                "bad": mirror.bad,
            }
            for mirror in self._by_stream.values()
        ]

    def _mirror(self, publisher: PublisherEntry) -> None:
        link = self._link
        if publisher.key in self._mirrors:
            return
        if not link.rules.imports.lets(publisher.topic, link.machine):
            return
        if len(self._mirrors) >= _MOST_PUBLISHERS:
            raise ProtocolError(f"PUBLISHERS: more than {_MOST_PUBLISHERS}")
        try:
            mirror = Mirror(
                link.machine,
                publisher,
                link.participant,
                self._tell_credit,
                lambda: link.clock.offset.offset_ns,
            )
        except (Error, TypeError) as error:
            self._warn(publisher, str(error))
            if isinstance(error, OutOfMemory):
                self._try_again(publisher)
            return
        self._mirrors[publisher.key] = self._by_number[mirror.number] = mirror

    def _want(self, mirror: Mirror) -> None:
        self._stop_unwanting(mirror)
        if mirror.stream:
            return
        self._newest = stream = self._newest + 1
        self._by_stream[stream] = mirror
        self._link.send(mirror.want(stream), stream)

    def _unwant(self, mirror: Mirror) -> None:
        del self._unwanting[mirror.publisher.key]
        stream = mirror.stream
        if not stream or not mirror.unwant():
            return
        del self._by_stream[stream]
        self._link.send(Unwant(), stream)
        if self._link.connected and mirror.publisher.key not in self._told:
            self._drop(mirror)  # the publisher has gone meanwhile

    def _end_if_over(self, mirror: Mirror) -> None:
        if mirror.over and self._by_stream.pop(mirror.stream, None) is not None:
            self._link.send(Unwant(), mirror.stream)
            if mirror.failed and mirror.publisher.key in self._told:
                mirror.rest()
                self._try_again(mirror.publisher)
            else:
                self._drop(mirror)

    # Of a publisher that is tried again and again, once.
    def _warn(self, publisher: PublisherEntry, why: str) -> None:
        if self._warned.get(publisher.key) != why:
            self._warned[publisher.key] = why
            logger.warning("%s of %s: %s", publisher.topic, self._link.machine, why)

    def _try_again(self, publisher: PublisherEntry) -> None:
        loop = asyncio.get_running_loop()
        if publisher.key not in self._again:
            again = loop.call_later(_AGAIN_AFTER, self._go_on, publisher)
            self._again[publisher.key] = again

    def _go_on(self, publisher: PublisherEntry) -> None:
        del self._again[publisher.key]
        mirror = self._mirrors.get(publisher.key)
        if mirror is None:
            if publisher.key in self._told:
                self._mirror(publisher)
        elif mirror.subscribers:
            self._want(mirror)
        elif not mirror.stream:
            mirror.unwant()  # for the next subscriber it begins anew

    def _drop(self, mirror: Mirror) -> None:
        self._stop_unwanting(mirror)
        self._mirrors.pop(mirror.publisher.key, None)
        self._by_number.pop(mirror.number, None)
        mirror.close()

    def _stop_unwanting(self, mirror: Mirror) -> None:
        timer = self._unwanting.pop(mirror.publisher.key, None)
        if timer is not None:
            timer.cancel()

    def _tell_credit(self, mirror: Mirror) -> None:
        self._link.send(mirror.credit(), mirror.stream)
        self._end_if_over(mirror)

    # The lanes have no common order: of a stream that is over, frames may still come on the other.
    def _require_wanted_once(self, stream: int, what: str) -> None:
        if not 0 < stream <= self._newest:
            raise ProtocolError(f"{what}: nobody wanted the stream {stream}")
