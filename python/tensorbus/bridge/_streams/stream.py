"""Both ends of a stream, without sockets and clocks (docs/internals/bridge_protocol.md, section 4).

Indices count the samples of a stream; costs are bytes of tensors and fields and a constant. Limits
are totals since the stream began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tensorbus._base.errors import ProtocolError

Payload = TypeVar("Payload")

_OVERHEAD = 256  # bytes that a sample without any content costs
MOST_SAMPLES_UNDER_WAY = 64


def cost_of(tensor_bytes: int, field_bytes: int) -> int:
    """What a sample takes of the credit."""
    return tensor_bytes + field_bytes + _OVERHEAD


@dataclass(frozen=True, slots=True)
class Limits:
    """What a receiver says: how far it has come, and how much it can take."""

    next: int  # every sequence number below it is settled
    published: int  # samples, in all
    samples: int  # that may come, in all
    cost: int  # that may come, in all


@dataclass(slots=True)
class Outgoing(Generic[Payload]):
    """A sample that the sender holds until it is settled."""

    index: int
    sequence: int
    cost_until: int  # of all samples up to and with this one
    payload: Payload


@dataclass
class SendingStream(Generic[Payload]):
    """The sender's end. It holds each sample until the receiver has settled it."""

    limits: Limits
    _held: deque[Outgoing[Payload]] = field(default_factory=deque)
    _sent: int = 0  # of those held, on this connection
    _taken: int = 0  # in all
    _cost: int = 0  # of all that were taken
    _last_cost: int = 0
    _connected: bool = True

    @property
    def unsettled(self) -> int:
        return len(self._held)

    def held(self) -> Iterator[Payload]:
        """What is not settled."""
        return (item.payload for item in self._held)

    @property
    def all_sent(self) -> bool:
        """Nothing that was taken waits to be sent on this connection."""
        return self._connected and self._sent == len(self._held)

    @property
    def taken(self) -> int:
        """Samples, in all."""
        return self._taken

    def may_take(self) -> bool:
        """Whether a sample like the last one could be sent at once: take none otherwise."""
        if not self._connected or self._sent < len(self._held):
            return False
        return self._is_allowed(self._taken, self._cost + self._last_cost)

    def take(self, sequence: int, cost: int, payload: Payload) -> None:
        """Takes a sample out of the export, to be sent when the limits allow it."""
        self._cost += cost
        self._last_cost = cost
        self._held.append(Outgoing(self._taken, sequence, self._cost, payload))
        self._taken += 1

    def next_to_send(self) -> Outgoing[Payload] | None:
        """The sample that may be sent now; it counts as sent when `mark_sent` is called."""
        if not self._connected or self._sent >= len(self._held):
            return None
        item = self._held[self._sent]
        return item if self._is_allowed(item.index, item.cost_until) else None

    def mark_sent(self) -> None:
        self._sent += 1

    # One sample may be larger than all credit: when the receiver has no other.
    def _is_allowed(self, index: int, cost_until: int) -> bool:
        if index >= self.limits.samples:
            return False
        return index <= self.limits.published or cost_until <= self.limits.cost

    def credit(self, limits: Limits) -> list[Outgoing[Payload]]:
        """Takes what the receiver says. Returns the samples that are settled by it.

        Raises:
            ProtocolError: it settles what was not sent, or takes back a limit.
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
        """The stream is over: nothing is held any more."""
        self._held.clear()
        self._sent = 0

    def lose_connection(self) -> None:
        """Nothing more is sent until the receiver has said where to go on."""
        self._connected = False

    def resume(self, limits: Limits) -> list[Outgoing[Payload]]:
        """WANT on a new connection: what is not settled by it is to be sent again."""
        self._sent = len(self._held)  # all may have arrived
        settled = self.credit(limits)
        self._sent = 0
        self._connected = True
        return settled


@dataclass(slots=True)
class Incoming(Generic[Payload]):
    """A sample that is under way, or waits for an earlier one."""

    index: int
    sequence: int
    cost: int
    missing: int  # bytes
    payload: Payload


@dataclass
class ReceivingStream(Generic[Payload]):
    """The receiver's end: puts the samples of both lanes in order, and says how much may come.

    Args:
        next: the sequence number to begin with.
        window: the cost that may be under way or wait to be published.
    """

    next: int = 0
    window: int = 1 << 20
    _under_way: dict[str, Incoming[Payload]] = field(default_factory=dict)  # by lane
    _early: dict[int, Incoming[Payload]] = field(default_factory=dict)  # whole, by index
    _index: int = 0  # of the next sample in order
    _cost: int = 0  # of all before it
    _received: deque[int] = field(default_factory=deque)  # costs of those not yet published
    _published: int = 0
    _published_cost: int = 0
    _said: Limits = field(default_factory=lambda: Limits(0, 0, 0, 0))

    def limits(self) -> Limits:
        """What is to be told to the sender now."""
        samples = self._published + MOST_SAMPLES_UNDER_WAY
        cost = self._published_cost + self.window
        self._said = Limits(
            self.next,
            self._published,
            max(samples, self._said.samples),
            max(cost, self._said.cost),
        )
        return self._said

    def begin(self, lane: str, sample: Incoming[Payload]) -> None:
        """A BEGIN on a lane.

        Raises:
            ProtocolError: no sample can begin here, or not this one.
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
        """The sample that a CHUNK on this lane is of.

        Raises:
            ProtocolError: there is none.
        """
        try:
            return self._under_way[lane]
        except KeyError:
            raise ProtocolError("CHUNK: no sample has begun") from None

    def add(self, lane: str, count: int) -> list[Incoming[Payload]]:
        """So many bytes more of the sample on this lane. Returns what is in order and whole now.

        Raises:
            ProtocolError: it comes in another order than its sequence number says.
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
        """The oldest sample that add() returned was published, or was given up."""
        self._published += 1
        self._published_cost += self._received.popleft()

    def lose_lanes(self) -> list[Incoming[Payload]]:
        """The connection is gone: returns what it takes along. The sender sends it again."""
        lost = list(self._all())
        self._under_way.clear()
        self._early.clear()
        return lost

    @property
    def index(self) -> int:
        """How many samples have come, whole and in order."""
        return self._index

    def worth_telling(self) -> bool:
        """Whether the sender may soon have to wait for what limits() says."""
        samples = self._published + MOST_SAMPLES_UNDER_WAY - self._said.samples
        cost = self._published_cost + self.window - self._said.cost
        return samples >= MOST_SAMPLES_UNDER_WAY // 4 or cost >= self.window // 4

    def _all(self) -> Iterator[Incoming[Any]]:
        yield from self._under_way.values()
        yield from self._early.values()
