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
    """Its pid in the PID namespace of the reporting process; 0: unknown."""
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
    """A reliable publisher waits for it."""
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
    """As in `PublisherStats`, for this subscriber."""
    dropped_held: int
    """As in `PublisherStats`, for this subscriber."""
    dropped_unsent: int
    """As in `PublisherStats`, for this subscriber."""
    blocked_ns: int
    """Nanoseconds for which a waiting publisher has found no room in its queue; 0: it has room."""
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
    """Identifies the publisher in its participant."""
    node: str
    type: str
    """The definition of its message type; "": any data."""
    machine: str
    """For a mirror of a bridge, the machine of the original publisher; "": it is no mirror."""
    origin: str
    """For a mirror of a bridge, the original publisher, `<id>.<n>`; "": it is no mirror."""
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
    """"read" (also for a subscriber with "copy-on-write"), "private" or "shared"."""
    stats: SubscriberStats
    publishers: tuple[str, ...]
    """The publishers to which it is connected, as `<id>.<n>`."""


@public
@dataclass(frozen=True)
class QueueClientReport:
    """A process that uses a queue."""

    client: PeerName
    in_hand: int
    """Items that it has got and not finished; without `redeliver`, its next `get` finishes them."""
    waiting_puts: int
    waiting_gets: int


@public
@dataclass(frozen=True)
class QueueReport:
    """A queue, reported by its server."""

    name: str
    """The name; "": the queue has only an address."""
    service: str
    """The service whose requests it carries; "": none."""
    number: int
    """Identifies the queue in its participant."""
    machine: str
    """For a mirror of a bridge, the machine of the original queue; "": it is no mirror."""
    maxsize: int
    max_bytes: int
    redeliver: bool
    shut_down: bool
    in_hand: int
    """Items that clients have got and not finished, summed over all clients."""
    redelivered: int
    """Items that returned to the queue after the processes that had got them died."""
    stats: QueueStats
    clients: tuple[QueueClientReport, ...]


@public
@dataclass(frozen=True)
class ShareReport:
    """A share, reported by the process that made it."""

    number: int
    """Identifies the share in its participant."""
    bytes: int
    uses_left: int
    """How often it may still be attached; 0: no limit."""
    age_ns: int
    """Nanoseconds since it was made."""


@public
@dataclass(frozen=True)
class LentReport:
    """Memory of this process that one peer holds, summed over topics, queues and shares."""

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
    """Bytes allocated from the system: used, or kept for reuse."""
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
    """Why it did not reply; "": it replied. Without a reply, only `nodes` and `topics` of the
    following fields are set."""
    version: str
    """The version of its Tensorbus."""
    age_ns: int
    """Nanoseconds since the participant was made."""
    nodes: tuple[str, ...]
    """The names of its nodes; also set if it did not reply."""
    topics: tuple[str, ...]
    """The topics that it publishes; also set if it did not reply."""
    publishers: tuple[PublisherReport, ...]
    subscribers: tuple[SubscriberReport, ...]
    queues: tuple[QueueReport, ...]
    shares: tuple[ShareReport, ...]
    memory: MemoryReport | None
    """None: it did not reply."""


@public
@dataclass(frozen=True)
class Inspection:
    """The reports of the participants of a domain."""

    domain: str
    time_ns: int
    """When all replies had arrived, in nanoseconds since 1970."""
    participants: tuple[ParticipantReport, ...]
    """Sorted by pid."""
