"""The result of `inspect`: what each participant has, and which processes hold its memory."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._base.public import public
from tensorbus._base.stats import PublisherStats, QueueStats, SubscriberStats


@public
@dataclass(frozen=True)
class PeerName:
    """A process at the other end of a connection."""

    participant: str
    """Its id on the bus, 32 hex digits; "": unknown."""
    pid: int
    """Its pid in the namespace of the process that was asked; 0: unknown."""
    process: str = ""
    """The name of its program; "": unknown."""


@public
@dataclass(frozen=True)
class LinkReport:
    """One subscriber of a publisher, reported by the publisher."""

    subscriber: PeerName
    node: str
    depth: int
    max_held: int
    reliable: bool
    """The publisher waits for it."""
    delivered: int
    """Samples put into its queue."""
    waiting: int
    """Samples in its queue now."""
    held: int
    """Samples that it has received and not released."""
    held_bytes: int
    """Bytes of the samples that wait or are held. Several processes may hold the same bytes."""
    oldest_held_ns: int
    """Nanoseconds since its oldest held sample was published; 0: it holds none."""
    dropped_depth: int
    dropped_held: int
    dropped_unsent: int
    blocked_ns: int
    """Nanoseconds for which a publisher that waits has found no room here; 0: there is room."""
    cut_off: bool
    """It was cut off after `lag_timeout`, and still holds samples."""

    @property
    def dropped(self) -> int:
        """Samples that were dropped for this subscriber."""
        return self.dropped_depth + self.dropped_held + self.dropped_unsent


@public
@dataclass(frozen=True)
class PublisherReport:
    """A publisher, its counters and its subscribers."""

    topic: str
    number: int
    """Identifies it in its participant."""
    node: str
    type: str
    """The definition of its messages' type; "": any."""
    machine: str
    """The machine of the publisher that a bridge mirrors with it; "": it is no mirror."""
    origin: str
    """The mirrored publisher, `<id>.<n>`; "": it is no mirror."""
    depth: int
    history: int
    reliable: bool
    shared: bool
    isolated: bool
    bytes_sent: int
    """Bytes of the tensors and fields of all published samples."""
    stats: PublisherStats
    links: tuple[LinkReport, ...]


@public
@dataclass(frozen=True)
class SubscriberReport:
    """A subscriber and its counters."""

    topic: str
    node: str
    type: str
    depth: int
    max_held: int
    reliable: bool
    access: str
    """"read", "private" or "shared"."""
    stats: SubscriberStats
    publishers: tuple[str, ...]
    """The publishers to which it is connected, as `<id>.<n>`."""


@public
@dataclass(frozen=True)
class QueueClientReport:
    """A process that uses a queue."""

    client: PeerName
    in_hand: int
    """Items that it has got and not finished; without `redeliver`, until its next `get`."""
    waiting_puts: int
    waiting_gets: int


@public
@dataclass(frozen=True)
class QueueReport:
    """A queue, reported by its server."""

    name: str
    """"": it has only an address."""
    service: str
    """The service whose requests it carries; "": none."""
    number: int
    machine: str
    """The machine of the queue that a bridge mirrors with it; "": it is no mirror."""
    maxsize: int
    max_bytes: int
    redeliver: bool
    shut_down: bool
    in_hand: int
    """Items that clients have got and not finished; the sum over all clients."""
    redelivered: int
    """Items that came back from processes that died."""
    stats: QueueStats
    clients: tuple[QueueClientReport, ...]


@public
@dataclass(frozen=True)
class ShareReport:
    """A share, reported by the process that made it."""

    number: int
    bytes: int
    uses_left: int
    """How often it may still be attached; 0: without limit."""
    age_ns: int


@public
@dataclass(frozen=True)
class LentReport:
    """Memory of this process that one peer holds, through links, queues and shares together."""

    peer: PeerName
    leases: int
    bytes: int
    oldest_ns: int
    """Nanoseconds since the oldest of these leases began; 0: unknown."""


@public
@dataclass(frozen=True)
class BorrowedReport:
    """Memory of one peer that is mapped in this process."""

    peer: PeerName
    segments: int
    bytes: int
    leases: int


@public
@dataclass(frozen=True)
class DeviceReport:
    """Memory of this process on one GPU."""

    device: str
    used_bytes: int
    reserved_bytes: int
    budget_bytes: int


@public
@dataclass(frozen=True)
class MemoryReport:
    """The memory of a participant."""

    segments: int
    blocks: int
    used_bytes: int
    """Bytes in loans and in held samples."""
    reserved_bytes: int
    """Bytes taken from the machine: used, or kept for reuse."""
    budget_bytes: int
    inherited_bytes: int
    """Used bytes that are kept only for forked children."""
    private_bytes: int
    """Bytes copied because this process wrote to received tensors."""
    file_bytes: int
    """Bytes of mapped files."""
    lent: tuple[LentReport, ...]
    borrowed: tuple[BorrowedReport, ...]
    devices: tuple[DeviceReport, ...]


@public
@dataclass(frozen=True)
class ParticipantReport:
    """What one process has on the bus."""

    participant: str
    """Its id, 32 hex digits."""
    pid: int
    """Its pid in the namespace of the calling process; 0: unknown."""
    process: str
    """The name of its program."""
    error: str
    """Why it did not answer; "": it answered. Without an answer only `nodes` and `topics` of the
    following fields are known."""
    version: str
    """The version of its Tensorbus."""
    age_ns: int
    """Nanoseconds since the participant was made."""
    nodes: tuple[str, ...]
    """The names of its nodes; known also if it did not answer."""
    topics: tuple[str, ...]
    """The topics that it publishes; known also if it did not answer."""
    publishers: tuple[PublisherReport, ...]
    subscribers: tuple[SubscriberReport, ...]
    queues: tuple[QueueReport, ...]
    shares: tuple[ShareReport, ...]
    memory: MemoryReport | None
    """None: it did not answer."""


@public
@dataclass(frozen=True)
class Inspection:
    """The reports of the participants of a domain."""

    domain: str
    time_ns: int
    """When all answers had come, in nanoseconds since 1970."""
    participants: tuple[ParticipantReport, ...]
    """Sorted by pid."""
