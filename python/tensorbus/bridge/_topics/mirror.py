"""The receiving end of a stream: a local publisher that mirrors one of another machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tensorbus import _core
from tensorbus._base.errors import Error, OutOfMemory
from tensorbus._core import Outcome
from tensorbus.bridge._shortage import Log, Watch
from tensorbus.bridge._streams.message import IncomingMessage
from tensorbus.bridge._streams.receiving_end import ReceivingEnd
from tensorbus.bridge._streams.stream import Incoming
from tensorbus.bridge._wire.frames import Begin, Credit, Ended, PublisherEntry, Want

logger = logging.getLogger("tensorbus.bridge")

_LOOK_AGAIN = 0.02  # seconds between tries, for memory and for stopped subscribers
_LATEST = 2**63 - 1  # ns since the Unix epoch


class Mirror:
    """The mirror of a publisher of another machine.

    Args:
        machine: the name of the other machine.
        publisher: the publisher of that machine.
        participant: this machine's bridge.
        tell: sends a CREDIT of this stream.
        offset_of: returns the peer's clock minus this machine's clock, in ns.
        log: writes lines of the log.
    """

    def __init__(
        self,
        machine: str,
        publisher: PublisherEntry,
        participant: _core.Participant,
        tell: Callable[[Mirror], None],
        offset_of: Callable[[], int],
        log: Log = logger.warning,
    ) -> None:
        self.publisher = publisher
        self.stream = 0  # 0: not wanted
        self.received = 0  # samples
        self.received_bytes = 0
        self.discarded = 0  # samples for which there was no memory
        self.bad = 0  # invalid samples
        self._machine = machine
        self._tell = tell
        self._offset_of = offset_of
        self._log = log
        self._ended: Ended | None = None
        self._again: asyncio.TimerHandle | None = None
        # Bytes of memory for everything that this bridge receives. A larger sample is discarded.
        self._budget: int = participant.arena["budget_bytes"]
        self._watch: Watch | None = None
        self._core = _core.Publisher(
            publisher.topic,
            participant,
            depth=publisher.depth,
            history=publisher.history,
            reliable=publisher.reliable,
            lag_timeout=None,
            shared=False,
            isolated=True,
            type=publisher.type,
            node=publisher.node,
            origin=(machine, publisher.key),
        )
        self._receiving = self._begin_receiving(0)

    @property
    def number(self) -> int:
        """The number of this publisher in the bridge."""
        number: int = self._core.number
        return number

    @property
    def subscribers(self) -> int:
        """The number of local subscribers."""
        count: int = self._core.subscribers
        return count

    # Demand.
    def want(self, stream: int) -> Want:
        """Returns the WANT that begins a stream, or continues it on a new connection."""
        self.stream = stream
        limits = self._receiving.limits()
        return Want(self.publisher.key, limits.next, limits.published, limits.samples, limits.cost)

    def unwant(self) -> bool:
        """Ends the stream. Returns False if a subscriber has connected meanwhile."""
        if not self._core.restart(0):
            return False
        self._end_stream(0)
        return True

    def rest(self) -> None:
        """Ends the stream, but not the publisher: a later stream continues after this one."""
        if not self.unwant():
            self._end_stream(self._receiving.limits().next)

    def credit(self) -> Credit:
        """Returns the CREDIT with the current limits."""
        return self._receiving.credit()

    def lose_lanes(self) -> None:
        """Drops samples that are incomplete or not in order: the connection is gone."""
        self._receiving.lose_lanes()

    # Frames of the stream.
    def begin(self, lane: str, begin: Begin) -> None:
        if self._receiving.begin(lane, begin):
            self.publish()

    def chunk_target(self, lane: str, length: int) -> memoryview:
        return self._receiving.chunk_target(lane, length)

    def on_chunk(self, lane: str, length: int) -> None:
        if self._receiving.on_chunk(lane, length):
            self.publish()

    def end(self, ended: Ended) -> None:
        """Takes ENDED, the last frame of the stream."""
        self._ended = ended

    @property
    def error(self) -> str:
        """The sender's error that has ended the stream; otherwise ""."""
        return "" if self._ended is None else self._ended.text

    @property
    def over(self) -> bool:
        """True if the stream has ended, and all its samples were published."""
        if self._ended is None or self._receiving.ready:
            return False
        return self._receiving.count >= self._ended.samples

    def close(self, *, complete: bool | None = None) -> None:
        """Ends the publisher.

        Args:
            complete: close it; otherwise it ends as if its process had died. None: as the original
                publisher ended.
        """
        if complete is None:
            complete = self._ended is not None and self._ended.complete and self.over
        self._stop_looking()
        self._receiving.close()
        if complete:
            self._core.close()
        else:
            self._core.break_off()

    def _end_stream(self, next: int) -> None:
        self.stream = 0
        self._ended = None
        self._receiving.close()
        self._receiving = self._begin_receiving(next)

    def _begin_receiving(self, next: int) -> ReceivingEnd:
        core = self._core
        return ReceivingEnd(
            self._say,
            lambda size: core.loan_bytes(size, 0),  # not `self`: a message keeps this function
            self._budget,
            reliable=self.publisher.reliable,
            next=next,
        )

    def _say(self) -> None:
        if self.stream:
            self._tell(self)

    def publish(self) -> None:
        """Publishes received samples while there is room."""
        ready = self._receiving.ready
        while ready:
            if not self._publish(ready[0]):
                return self._look_again()
            self._receiving.taken()

    # Returns False if there is no room now.
    def _publish(self, sample: Incoming[IncomingMessage]) -> bool:
        message = sample.payload
        begin = message.begin
        if sample.index == 0:
            self._core.begin_at(max(0, sample.sequence - begin.lost))
        if message.has_no_memory:
            if not self.discarded:
                self._warn(f"a sample of {begin.size} bytes does not fit into the budget")
            self.discarded += 1
            return True
        try:
            outgoing = message.outgoing()
            timestamp = begin.timestamp - self._offset_of()
            told = self._core.publish_as(
                outgoing,
                begin.fields,
                begin.fingerprint,
                sample.sequence,
                max(0, min(timestamp, _LATEST)),
                0.0,
            )
        except OutOfMemory:
            return False
        # The peer sent an invalid dtype, a tensor outside its bytes, or a number out of range.
        except (Error, TypeError) as error:
            if not self.bad:
                self._warn(f"a sample is invalid: {error}")
            self.bad += 1
            return True
        if told is Outcome.TIMED_OUT:
            return False
        self.received += 1
        self.received_bytes += begin.size
        return True

    # Called for the first sample with each kind of problem. The status counts all such samples.
    def _warn(self, what: str) -> None:
        self._log("%s of %s: %s", self.publisher.topic, self._machine, what)

    # The descriptor reports room in the rings. Nothing reports free memory, or that a stopped
    # subscriber goes on: for these there is the timer.
    def _look_again(self) -> None:
        if self._again is None:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(_LOOK_AGAIN, self._publish_again)
        if self._watch is None and not self._core.ready():
            self._watch = Watch(self._core.fileno, self._publish_again)

    def _publish_again(self) -> None:
        self._stop_looking()
        self.publish()

    def _stop_looking(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
