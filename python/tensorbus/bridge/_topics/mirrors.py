"""The mirrors of a session: the peer's publishers, on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorbus._base.errors import Error, ProtocolError
from tensorbus.bridge._shortage import LONGEST_WAIT, WHEN_ROOM, Again, is_shortage, make_all
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._topics.mirror import Mirror
from tensorbus.bridge._wire.frames import Begin, Ended, PublisherEntry, Publishers, Unwant

_UNWANTED_AFTER = 1.0  # seconds without a local subscriber
_AGAIN_AFTER = 1.0  # seconds until the first retry of a failed stream
_MAX_PUBLISHERS = 65_536  # of one peer


@dataclass
class _Rest:
    """The delay before a failed stream is wanted again."""

    why: str
    delay: float  # seconds
    received: int  # samples received when the stream failed
    timer: asyncio.TimerHandle
    over: bool = False  # the delay is over


class Mirrors:
    """The mirrors of a session. A stream is wanted while its mirror has local subscribers.

    Args:
        link: to the peer.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._mirrors: dict[str, Mirror] = {}  # by key
        self._by_number: dict[int, Mirror] = {}  # by the number of the local publisher
        self._by_stream: dict[int, Mirror] = {}
        self._there: dict[str, PublisherEntry] = {}  # publishers of the peer, mirrored or not
        self._told_again: set[str] = set()  # keys of these that were named on this connection
        self._newest = 0  # number of the newest stream
        self._unwanting: dict[str, asyncio.TimerHandle] = {}  # by key
        self._unmade: dict[str, PublisherEntry] = {}  # not mirrored yet
        self._make_all = Again(
            f"topics of {link.machine} wait",
            lambda: make_all(self._unmade, self._make),
            link.budget.log.warning,
        )
        self._resting: dict[str, _Rest] = {}  # by key of the publisher whose stream has failed

    def connected(self) -> None:
        """Sends WANT for each stream on a new connection."""
        self._told_again.clear()
        for stream, mirror in self._by_stream.items():
            self._link.send(mirror.want(stream), stream)

    def disconnected(self) -> None:
        for mirror in self._by_stream.values():
            mirror.lose_lanes()

    def close(self) -> None:
        """Ends all mirrors as if their processes had died."""
        self._make_all.cancel()
        for timer in (*self._unwanting.values(), *(one.timer for one in self._resting.values())):
            timer.cancel()
        for mirror in self._mirrors.values():
            mirror.close(complete=False)
            self._link.budget.endpoints.give_back(1)
        self._mirrors.clear()
        self._by_number.clear()
        self._by_stream.clear()

    def look_at_demand(self, numbers: Iterable[int]) -> None:
        """The publishers with these numbers have gained or lost subscribers."""
        for number in numbers:
            mirror = self._by_number.get(number)
            if mirror is None:
                continue
            if mirror.subscribers and not self._rests(mirror):
                self._want(mirror)
            elif mirror.stream and mirror.publisher.key not in self._unwanting:
                self._unwanting[mirror.publisher.key] = asyncio.get_running_loop().call_later(
                    _UNWANTED_AFTER, self._unwant, mirror
                )

    def on_publishers(self, told: Publishers) -> None:
        link = self._link
        for publisher in told.added:
            if not link.rules.imports.lets(publisher.topic, link.machine):
                continue
            self._told_again.add(publisher.key)
            if publisher.key not in self._there:
                self._add(publisher)
        gone = set(told.removed)
        if told.whole:
            gone.update(set(self._there) - self._told_again)
        self._told_again -= gone
        for key in gone:
            self._remove(key)
        if self._unmade and told.added:
            self._make_all()

    def on_begin(self, lane: str, begin: Begin, stream: int) -> None:
        mirror = self._by_stream.get(stream)
        if mirror is None:
            return self._require_wanted_once(stream, "BEGIN")
        mirror.begin(lane, begin)
        self._end_if_over(mirror)

    def chunk_target(self, lane: str, stream: int, length: int) -> memoryview | None:
        """Returns the buffer for the bytes of a CHUNK; None if the stream is over."""
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

    def try_soon(self) -> None:
        """Makes waiting mirrors soon. Called when the peer has given something back."""
        if self._make_all.due:
            self._make_all.within(WHEN_ROOM)

    def _add(self, publisher: PublisherEntry) -> None:
        if len(self._there) >= _MAX_PUBLISHERS:
            raise ProtocolError(f"PUBLISHERS: more than {_MAX_PUBLISHERS}")
        key = publisher.key
        self._link.budget.remember(*_texts(publisher))
        self._there[key] = publisher
        if key not in self._mirrors:  # otherwise its stream has not ended yet
            self._unmade[key] = publisher

    def _remove(self, key: str) -> None:
        publisher = self._there.pop(key, None)
        self._unmade.pop(key, None)
        mirror = self._mirrors.get(key)
        if mirror is not None and not mirror.stream:
            self._drop(mirror)
        if publisher is not None:
            self._link.budget.forget(*_texts(publisher))

    def _make(self, publisher: PublisherEntry) -> None:
        link = self._link
        link.budget.endpoints.take(1)
        try:
            mirror = Mirror(
                link.machine,
                publisher,
                link.participant,
                self._tell_credit,
                lambda: link.clock.offset.offset_ns,
                link.budget.log.warning,
            )
        except BaseException as error:
            link.budget.endpoints.give_back(1)
            if is_shortage(error) or not isinstance(error, (Error, TypeError)):
                raise
            return self._warn(publisher, str(error))
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
        if mirror.publisher.key not in self._there:
            self._drop(mirror)  # the publisher was removed meanwhile

    def _end_if_over(self, mirror: Mirror) -> None:
        if mirror.over and self._by_stream.pop(mirror.stream, None) is not None:
            self._link.send(Unwant(), mirror.stream)
            why = mirror.error
            if why and mirror.publisher.key in self._there:
                mirror.rest()
                self._try_again(mirror, why)
            else:
                self._drop(mirror)

    def _warn(self, publisher: PublisherEntry, why: str) -> None:
        self._link.budget.log.warning("%s of %s: %s", publisher.topic, self._link.machine, why)

    # Logs one warning per reason, even if a stream fails repeatedly.
    def _try_again(self, mirror: Mirror, why: str) -> None:
        rest = self._resting.get(mirror.publisher.key)
        if rest is not None and mirror.received > rest.received:
            rest = None  # samples have arrived since the last failure
        if rest is None or rest.why != why:
            self._warn(mirror.publisher, why)
        delay = _AGAIN_AFTER if rest is None else min(2 * rest.delay, LONGEST_WAIT)
        timer = asyncio.get_running_loop().call_later(delay, self._go_on, mirror)
        self._resting[mirror.publisher.key] = _Rest(why, delay, mirror.received, timer)

    def _rests(self, mirror: Mirror) -> bool:
        """Returns True if the stream has failed, and the delay before a retry is not over."""
        rest = self._resting.get(mirror.publisher.key)
        return rest is not None and not rest.over

    def _go_on(self, mirror: Mirror) -> None:
        self._resting[mirror.publisher.key].over = True
        if mirror.subscribers:
            self._want(mirror)
        elif not mirror.stream:
            mirror.unwant()  # so that the stream starts anew for the next subscriber

    def _drop(self, mirror: Mirror) -> None:
        key = mirror.publisher.key
        self._stop_unwanting(mirror)
        rest = self._resting.pop(key, None)
        if rest is not None:
            rest.timer.cancel()
        self._by_number.pop(mirror.number, None)
        mirror.close()
        if self._mirrors.pop(key, None) is not None:
            self._link.budget.endpoints.give_back(1)

    def _stop_unwanting(self, mirror: Mirror) -> None:
        timer = self._unwanting.pop(mirror.publisher.key, None)
        if timer is not None:
            timer.cancel()

    def _tell_credit(self, mirror: Mirror) -> None:
        self._link.send(mirror.credit(), mirror.stream)
        self._end_if_over(mirror)

    # Frames of a stream that is over may still arrive, as the lanes have no common order.
    def _require_wanted_once(self, stream: int, what: str) -> None:
        if not 0 < stream <= self._newest:
            raise ProtocolError(f"{what}: nobody wanted the stream {stream}")


def _texts(publisher: PublisherEntry) -> tuple[str, ...]:
    return publisher.key, publisher.topic, publisher.node, publisher.type
