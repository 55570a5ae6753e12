"""A subscriber of the bus that behaves like Cortex's."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import Error, OutOfMemory, TypeMismatch
from tensorbus._topics.sample import Sample
from tensorbus._topics.subscriber import Subscriber
from tensorbus.cortex.messages.base import MessageFingerprintError, MessageHeader
from tensorbus.messages import Message

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._topics.options import SubscriberOptions

# With queue_size=1: the maximum of samples that wait for a callback, and the age of a sample from
# which the callback counts as behind.
_DEPTH_OF_ONE = 64
_FRESH_NS = 50_000_000

_MAX_HELD = 256


@dataclass
class SubscriberStats:
    """Counters of a subscriber."""

    received: int = 0
    dropped_estimated: int = 0  # gaps in the publishers' sequence numbers
    last_recv_perf_ns: int | None = None
    last_sequence_by_publisher: dict[Any, int] = field(default_factory=dict)

    def count(self, header: MessageHeader) -> None:
        """Counts a message, and the messages that were lost before it."""
        self.received += 1
        self.last_recv_perf_ns = time.perf_counter_ns()
        last = self.last_sequence_by_publisher.get(header.publisher)
        self.last_sequence_by_publisher[header.publisher] = header.sequence
        if last is not None and header.sequence > last + 1:
            self.dropped_estimated += header.sequence - last - 1


class Inbox(Subscriber[Any]):
    """A `tensorbus.Subscriber` that counts, and whose samples a program may keep without limit.

    When a program holds many samples of a publisher, further samples are copies, which hold none of
    the publisher's memory. With `queue_size=1`, a callback that is fast enough gets all samples; a
    slower callback gets the newest sample each time.
    """

    def __init__(
        self,
        topic: str,
        message_type: type[Message],
        queue_size: int,
        stats: SubscriberStats,
        **options: Unpack[SubscriberOptions],
    ) -> None:
        self._limit = options.setdefault("max_held", _MAX_HELD)
        depth = _DEPTH_OF_ONE if queue_size == 1 else queue_size
        super().__init__(topic, message_type, depth=depth, **options)
        self._stats = stats
        self._newest_wins = queue_size == 1
        self._is_behind = False
        # Samples between two checks of how many are held: a check costs more than a receive.
        self._interval = max(self._limit // 8, 1)
        self._until_look = self._interval
        self._copies = False

    def receive(self, timeout: float | None = None) -> Sample[Any]:
        try:
            return self._counted(super().receive(timeout))
        except TypeMismatch as error:
            raise MessageFingerprintError(str(error)) from None

    def try_receive(self) -> Sample[Any] | None:
        try:
            sample = super().try_receive()
        except TypeMismatch as error:
            raise MessageFingerprintError(str(error)) from None
        return None if sample is None else self._counted(sample)

    def _counted(self, sample: Sample[Any]) -> Sample[Any]:
        if self._newest_wins:
            sample = self._newest(sample)
        core = sample._core
        header = MessageHeader(
            core.fingerprint,
            core.timestamp_ns,
            core.sequence,
            core.topic,
            f"{core.publisher}.{core.publisher_number}",
        )
        self._stats.count(header)
        if self._shall_copy():
            with suppress(OutOfMemory):  # the sample is held instead, while the limit allows it
                sample = sample.copy()
        sample._header = header  # type: ignore[assignment]  # it has all fields of tensorbus.Header
        return sample

    def _newest(self, sample: Sample[Any]) -> Sample[Any]:
        """The sample; or the newest sample if the callback is behind.

        A callback that stalls for a moment is not behind, and gets every sample. A callback that is
        behind remains behind until there is no newer sample.
        """
        if not self._is_behind and time.time_ns() - sample._core.timestamp_ns < _FRESH_NS:
            return sample
        self._is_behind = False
        with suppress(Error):  # the next call raises it again
            while (newer := super().try_receive()) is not None:
                self._is_behind = True
                sample = newer
        return sample

    def _shall_copy(self) -> bool:
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = self._interval
            self._copies = self._core.stats["held"] > self._limit - 2 * self._interval
        return self._copies
