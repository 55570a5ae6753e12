"""The sending end of a stream: one local publisher, for one peer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from tensorbus import _core
from tensorbus._aio.loop_poller import Wait
from tensorbus._base.device import HOST
from tensorbus._base.errors import Error, Unsupported
from tensorbus._core import Outcome
from tensorbus.bridge._rules import TopicRule
from tensorbus.bridge._shortage import Backoff, Log
from tensorbus.bridge._streams.message import OutgoingMessage
from tensorbus.bridge._streams.sending_end import SendingEnd
from tensorbus.bridge._streams.stream import MAX_SAMPLES_UNDER_WAY, Limits
from tensorbus.bridge._wire.frames import Ended, PublisherEntry

logger = logging.getLogger("tensorbus.bridge")


class Export:
    """Reads one publisher for one peer, and sends its samples as the peer's limits allow.

    Args:
        stream: its number.
        publisher: the publisher to read.
        limits: of the peer's WANT.
        rule: for the topic.
        participant: this machine's bridge.
        on_ready: see `SendingEnd`.
        on_end: called when all samples were sent and none will follow. Unsettled samples stay.
        log: writes lines of the log.
    """

    def __init__(
        self,
        stream: int,
        publisher: PublisherEntry,
        limits: Limits,
        rule: TopicRule,
        participant: _core.Participant,
        on_ready: Callable[[SendingEnd], None],
        on_end: Callable[[Export], None],
        log: Log = logger.warning,
    ) -> None:
        self.publisher = publisher
        self.ended: Ended | None = None
        self.unsent = 0  # samples that cannot cross
        self.end = SendingEnd(
            stream, limits, rule.priority, on_ready, self._tell_end, compress=rule.compress
        )
        self._complete = False  # the publisher was closed
        self._told_end = False  # on_end was called on this connection
        self._on_end = on_end
        self._log = log
        self._backoff = Backoff(f"{publisher.topic} is not sent", log)
        self._next = limits.next
        self._first: int | None = None  # first sequence number of the stream
        self._rule = rule
        self._due = -math.inf
        self._left_out = 0
        self._gone = False
        self._wait: Wait | None = None
        self._subscriber = _core.Subscriber(
            publisher.topic,
            participant,
            depth=publisher.depth,
            max_held=2 * MAX_SAMPLES_UNDER_WAY,
            reliable=publisher.reliable,
            end_of_stream=True,
            spin=0,
            access=_core.Access.READ,
            type="",
            device=HOST,
            publisher=publisher.key,
        )
        self._task: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(
            self._take_all()
        )

    def resume(self, limits: Limits) -> None:
        """Continues on a new connection, on which the peer has sent WANT."""
        self._told_end = False
        self.end.resume(limits)

    def publisher_is_gone(self) -> None:
        """The publisher has left the domain: no samples follow those in the ring."""
        self._gone = True
        if self._wait is not None:
            self._wait.wake()

    def close(self) -> None:
        """Ends the export. Samples that are not settled are returned to the publisher."""
        # The task refers to this object: a reference cycle would keep the subscriber's descriptors.
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.end.close()
        self._subscriber.close()

    @property
    def missed(self) -> int:
        """The number of samples that were dropped before they were sent."""
        missed: int = self._subscriber.stats["missed"]
        return missed

    def _tell_end(self) -> None:
        if self.ended is not None and self.end.all_sent and not self._told_end:
            self._told_end = True
            self._on_end(self)

    # Takes a sample out of the ring only when it could be sent at once.
    async def _take_all(self) -> None:
        why = ""
        try:
            while True:
                while not self.end.may_take():
                    self.end.room.clear()
                    await self.end.room.wait()
                if not self._take(await self._receive()):  # no variable: it would keep the lease
                    break
        except (Error, MemoryError) as error:
            why = str(error) or "no memory is left"
        self.ended = Ended(self._complete, self.end.taken, why)
        self.end.tell()

    # Returns False if `core` is None: there will be no more samples.
    def _take(self, core: _core.Sample | None) -> bool:
        if core is None:
            return False
        if self._first is None:
            self._first = max(core.sequence - self.missed, self._next)
        if core.sequence >= self._next and self._is_due(core):
            try:
                message = OutgoingMessage(core.fields, core)
            except Unsupported as error:  # other samples may cross
                if not self.unsent:
                    self._log("%s: not sent: %s", self.publisher.topic, error)
                self.unsent += 1
                return True
            sequence = core.sequence - self._left_out
            if not self.end.taken:
                message.lost = sequence - self._first
            self.end.take(sequence, message)
        return True

    def _is_due(self, core: _core.Sample) -> bool:
        rule = self._rule
        if not rule.max_rate and not rule.max_bytes:
            return True
        now = asyncio.get_running_loop().time()
        if now < self._due:
            self._left_out += 1
            return False
        period = 1 / rule.max_rate if rule.max_rate else 0.0
        if rule.max_bytes:
            period = max(period, core.ranges()[1] / rule.max_bytes)
        self._due = max(self._due + period, now)
        return True

    async def _receive(self) -> _core.Sample | None:
        """Waits for the next sample, and for memory. Returns None if there will be none."""
        while True:
            try:
                found = await self._receive_at_once()
            except MemoryError as error:  # the sample stays in the ring
                await asyncio.sleep(self._backoff.failed(error))
            else:
                self._backoff.succeeded()
                return found

    async def _receive_at_once(self) -> _core.Sample | None:
        found = self._subscriber.try_receive()
        if isinstance(found, _core.Sample):
            return found
        with Wait(self._subscriber.fileno(), None, self) as self._wait:
            try:
                while found is not Outcome.CLOSED and not (self._gone and self._is_alone()):
                    await self._wait.woken()
                    found = self._subscriber.try_receive()
                    if isinstance(found, _core.Sample):
                        return found
            finally:
                self._wait = None  # it refers to this object
        self._complete = found is Outcome.CLOSED
        return None

    # Returns True if the link to the publisher has ended.
    def _is_alone(self) -> bool:
        return not self._subscriber.stats["publishers"]
