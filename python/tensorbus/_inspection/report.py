"""What `inspect` returns: what each participant of a domain has, and who holds its memory."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._base.public import public
from tensorbus._base.stats import PublisherStats, QueueStats, SubscriberStats


@public
@dataclass(frozen=True)
class PeerName:
    """A process at the other end of a connection."""

    participant: str
    """Its id on the bus, 32 hex digits; "" if it is not known."""
    pid: int
    """As the process that was asked sees it; 0: it does not."""
    process: str = ""
    """The name of its program; "" if it is not known."""


@public
@dataclass(frozen=True)
class LinkReport:
    """One subscriber of a publisher, as the publisher knows it."""

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
    """Samples that it has received and not let go of."""
    held_bytes: int
    """Bytes of the samples that wait or are held. Several processes may hold the same bytes."""
    oldest_held_ns: int
    """Nanoseconds since the oldest sample that it still has was published; 0: it has none."""
    dropped_depth: int
    dropped_held: int
    dropped_unsent: int
    blocked_ns: int
    """Nanoseconds for which a publisher that waits has found no room here; 0: it has room."""
    cut_off: bool
    """It was cut off, after `lag_timeout`, and still holds samples."""

    @property
    def dropped(self) -> int:
        """Samples that it did not get."""
        return self.dropped_depth + self.dropped_held + self.dropped_unsent


@public
@dataclass(frozen=True)
class PublisherReport:
    """A publisher, its counters and its subscribers."""

    topic: str
    number: int
    """Names it in its participant."""
    node: str
    type: str
    """The definition of its messages' type; "": any."""
    machine: str
    """Whose publisher it stands for, if a bridge made it; "": of this machine."""
    origin: str
    """Of a mirror: the publisher that it stands for, `<id>.<n>`; else ""."""
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
    """The publishers that it is connected with, as `<id>.<n>`."""


@public
@dataclass(frozen=True)
class QueueClientReport:
    """A process that uses a queue."""

    client: PeerName
    in_hand: int
    """Items that it has got and is not done with; without `redeliver`, up to its next `get`."""
    waiting_puts: int
    waiting_gets: int


@public
@dataclass(frozen=True)
class QueueReport:
    """A queue, as the process that made it knows it."""

    name: str
    """"": it has only an address."""
    service: str
    """The service whose requests it carries; "" if none."""
    number: int
    machine: str
    """Whose queue it stands for, if a bridge made it; "": of this machine."""
    maxsize: int
    max_bytes: int
    redeliver: bool
    shut_down: bool
    in_hand: int
    """The same of all clients."""
    redelivered: int
    """Items that came back from processes that died."""
    stats: QueueStats
    clients: tuple[QueueClientReport, ...]


@public
@dataclass(frozen=True)
class ShareReport:
    """A share, as the process that made it knows it."""

    number: int
    bytes: int
    uses_left: int
    """How often it may still be attached; 0: any number of times."""
    age_ns: int


@public
@dataclass(frozen=True)
class LentReport:
    """Memory that one peer has from this process: through links, queues and shares together."""

    peer: PeerName
    leases: int
    bytes: int
    oldest_ns: int
    """Nanoseconds since the oldest of these leases began, as far as is known; else 0."""


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
    """In loans, and in samples that somebody holds."""
    reserved_bytes: int
    """Taken from the machine: used, or kept for reuse."""
    budget_bytes: int
    inherited_bytes: int
    """Of the used bytes: kept only for forked children."""
    private_bytes: int
    """Copied because this process wrote to received tensors."""
    file_bytes: int
    """Of mapped files."""
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
    """As this process sees it; 0: it does not."""
    process: str
    """The name of its program."""
    error: str
    """Why it said nothing, and then what follows is empty but for `nodes` and `topics`; "": it
    answered."""
    version: str
    """Of its Tensorbus."""
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
    """What the participants of a domain said, and when they were asked."""

    domain: str
    time_ns: int
    """When the answers had come: nanoseconds since 1970."""
    participants: tuple[ParticipantReport, ...]
    """By pid."""
