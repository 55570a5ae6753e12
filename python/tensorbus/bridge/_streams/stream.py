"""Both ends of a stream, without sockets and clocks (docs/internals/bridge_protocol.md, section 4).

Indices count the samples of a stream. The cost of a sample is the number of bytes of its tensors
and fields, plus a constant. Limits are totals since the stream began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tensorbus._base.errors import ProtocolError

Payload = TypeVar("Payload")

_OVERHEAD = 256  # cost of an empty sample, in bytes
MAX_SAMPLES_UNDER_WAY = 64


def cost_of(tensor_bytes: int, field_bytes: int) -> int:
    """Returns the cost of a sample."""
    return tensor_bytes + field_bytes + _OVERHEAD


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a receiver: what it has received, and how much it accepts."""

    next: int  # every sequence number below it is settled
    published: int  # total of samples published
    samples: int  # total of samples accepted
    cost: int  # total cost accepted


@dataclass(slots=True)
class Outgoing(Generic[Payload]):
    """A sample that the sender holds until it is settled."""

    index: int
    sequence: int
    cost_until: int  # total of all samples up to and including this one
    payload: Payload


@dataclass
class SendingStream(Generic[Payload]):
    """The sender's end. It holds each sample until the receiver has settled it."""

    limits: Limits
    _held: deque[Outgoing[Payload]] = field(default_factory=deque)
    _sent: int = 0  # number of held samples that were sent on this connection
    _taken: int = 0  # total of samples
    _cost: int = 0  # of all taken samples
    _last_cost: int = 0
    _connected: bool = True

    @property
    def unsettled(self) -> int:
        return len(self._held)

    def held(self) -> Iterator[Payload]:
        """Returns the samples that are not settled."""
        return (item.payload for item in self._held)

    @property
    def all_sent(self) -> bool:
        """True if all taken samples were sent on this connection."""
        return self._connected and self._sent == len(self._held)

    @property
    def taken(self) -> int:
        """The total of samples taken."""
        return self._taken

    def may_take(self) -> bool:
        """Returns True if a sample with the cost of the last one could be sent at once.

        If it returns False, the caller must not take a sample.
        """
        if not self._connected or self._sent < len(self._held):
            return False
        return self._is_allowed(self._taken, self._cost + self._last_cost)

    def take(self, sequence: int, cost: int, payload: Payload) -> None:
        """Takes a sample, which is sent when the limits allow it."""
        self._cost += cost
        self._last_cost = cost
        self._held.append(Outgoing(self._taken, sequence, self._cost, payload))
        self._taken += 1

    def next_to_send(self) -> Outgoing[Payload] | None:
        """Returns the sample that may be sent now, or None. Call mark_sent() after sending it."""
        if not self._connected or self._sent >= len(self._held):
            return None
        item = self._held[self._sent]
        return item if self._is_allowed(item.index, item.cost_until) else None

    def mark_sent(self) -> None:
        self._sent += 1

    # If the receiver has published all earlier samples, the next one may exceed the cost limit.
    def _is_allowed(self, index: int, cost_until: int) -> bool:
        if index >= self.limits.samples:
            return False
        return index <= self.limits.published or cost_until <= self.limits.cost

    def credit(self, limits: Limits) -> list[Outgoing[Payload]]:
        """Takes new limits of the receiver. Returns the samples that they settle.

        Raises:
            ProtocolError: they settle samples that were not sent, or reduce a limit.
        """
        if limits.samples < self.limits.samples or limits.cost < self.limits.cost:
            raise ProtocolError("CREDIT: less than before")
        self.limits = limits
        settled = []
        while self._held and self._held[0].sequence < limits.next:
            if self._sent == 0:
                raise ProtocolError(f"CREDIT.next: {limits.next} was not sent")
            settled.append(self._held.popleft())
            self._sent -= 1
        return settled

    def clear(self) -> None:
        """Drops all samples: the stream is over."""
        self._held.clear()
        self._sent = 0

    def lose_connection(self) -> None:
        """Stops sending until resume()."""
        self._connected = False

    def resume(self, limits: Limits) -> list[Outgoing[Payload]]:
        """Continues on a new connection; samples not settled by the limits are sent again.

        Returns the samples that the limits settle.
        """
        self._sent = len(self._held)  # all may have arrived
        settled = self.credit(limits)
        self._sent = 0
        self._connected = True
        return settled


@dataclass(slots=True)
class Incoming(Generic[Payload]):
    """A sample that is incomplete, or waits for an earlier one."""

    index: int
    sequence: int
    cost: int
    missing: int  # bytes
    payload: Payload


@dataclass
class ReceivingStream(Generic[Payload]):
    """The receiver's end: puts the samples of both lanes in order, and limits the sender.

    Args:
        next: the sequence number to begin with.
        window: the cost that may be under way or wait to be published, in bytes.
    """

    next: int = 0
    window: int = 1 << 20
    _under_way: dict[str, Incoming[Payload]] = field(default_factory=dict)  # by lane
    _early: dict[int, Incoming[Payload]] = field(default_factory=dict)  # complete, by index
    _index: int = 0  # of the next sample in order
    _cost: int = 0  # total of all samples before it
    _received: deque[int] = field(default_factory=deque)  # costs of those not yet published
    _published: int = 0
    _published_cost: int = 0
    _said: Limits = field(default_factory=lambda: Limits(0, 0, 0, 0))

    def limits(self) -> Limits:
        """Returns the current limits for the sender. The caller must send them."""
        samples = self._published + MAX_SAMPLES_UNDER_WAY
        cost = self._published_cost + self.window
        self._said = Limits(
            self.next,
            self._published,
            max(samples, self._said.samples),
            max(cost, self._said.cost),
        )
        return self._said

    def begin(self, lane: str, sample: Incoming[Payload]) -> None:
        """Takes a BEGIN on a lane.

        Raises:
            ProtocolError: the sample may not begin now.
        """
        if lane in self._under_way:
            raise ProtocolError("BEGIN: another sample of this stream is not complete")
        known = any(other.index == sample.index for other in self._all())
        if known or sample.index < self._index or sample.index >= self._said.samples:
            raise ProtocolError(f"BEGIN.index: {sample.index}, where {self._index} is next")
        if sample.sequence < self.next:
            raise ProtocolError(f"BEGIN.sequence: {sample.sequence} is settled")
        cost = self._cost + sum(other.cost for other in self._all()) + sample.cost
        if sample.index > self._said.published and cost > self._said.cost:
            raise ProtocolError(f"BEGIN.size: {cost} of {self._said.cost} may come")
        self._under_way[lane] = sample

    def under_way(self, lane: str) -> Incoming[Payload]:
        """Returns the sample to which a CHUNK on this lane belongs.

        Raises:
            ProtocolError: no sample has begun.
        """
        try:
            return self._under_way[lane]
        except KeyError:
            raise ProtocolError("CHUNK: no sample has begun") from None

    def add(self, lane: str, count: int) -> list[Incoming[Payload]]:
        """Adds `count` received bytes. Returns the samples that are now complete and in order.

        Raises:
            ProtocolError: the sequence numbers are not in the order of the indices.
        """
        sample = self.under_way(lane)
        sample.missing -= count
        if sample.missing > 0:
            return []
        del self._under_way[lane]
        self._early[sample.index] = sample
        ready = []
        while (found := self._early.pop(self._index, None)) is not None:
            if found.sequence < self.next:
                raise ProtocolError(f"BEGIN.sequence: {found.sequence} is settled")
            self._index += 1
            self._cost += found.cost
            self.next = found.sequence + 1
            self._received.append(found.cost)
            ready.append(found)
        return ready

    def mark_published(self) -> None:
        """Counts the oldest sample that add() returned as published or discarded."""
        self._published += 1
        self._published_cost += self._received.popleft()

    def lose_lanes(self) -> list[Incoming[Payload]]:
        """Drops and returns the samples lost with the connection. The sender sends them again."""
        lost = list(self._all())
        self._under_way.clear()
        self._early.clear()
        return lost

    @property
    def index(self) -> int:
        """The number of samples received, complete and in order."""
        return self._index

    def worth_telling(self) -> bool:
        """Returns True if the sender may have to wait soon unless it gets the new limits()."""
        samples = self._published + MAX_SAMPLES_UNDER_WAY - self._said.samples
        cost = self._published_cost + self.window - self._said.cost
        return samples >= MAX_SAMPLES_UNDER_WAY // 4 or cost >= self.window // 4

    def _all(self) -> Iterator[Incoming[Any]]:
        yield from self._under_way.values()
        yield from self._early.values()
