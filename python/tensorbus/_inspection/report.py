"""The result of `inspect`: what each participant has, and which processes hold its memory."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._base.public import public
from tensorbus._base.stats import PublisherStats, QueueStats, SubscriberStats
from tensorbus._inspection.units import bytes_text, process_name, time_text


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
    """The subscriber's process."""
    node: str
    """The name of the subscriber's node; "": none."""
    depth: int
    """The maximum of samples in its queue."""
    max_held: int
    """How many samples of this publisher it may hold."""
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
    """The name of its topic."""
    number: int
    """Identifies the publisher in its participant."""
    node: str
    """The name of its node; "": none."""
    type: str
    """The definition of its message type; "": any data."""
    machine: str
    """For a mirror of a bridge, the machine of the original publisher; "": it is no mirror."""
    origin: str
    """For a mirror of a bridge, the original publisher, `<id>.<n>`; "": it is no mirror."""
    depth: int
    """The maximum of samples in a subscriber's queue."""
    history: int
    """The maximum of samples that it keeps for later subscribers."""
    reliable: bool
    """It waits for subscribers that have no room."""
    shared: bool
    """Others may write to its samples."""
    isolated: bool
    """Its samples lie in segments of their own."""
    bytes_sent: int
    """Bytes of the tensors and fields of all published samples."""
    stats: PublisherStats
    """Its counters."""
    links: tuple[LinkReport, ...]
    """Its subscribers."""


@public
@dataclass(frozen=True)
class SubscriberReport:
    """A subscriber and its counters."""

    topic: str
    """The name of its topic."""
    node: str
    """The name of its node; "": none."""
    type: str
    """The definition of its message type; "": any data."""
    depth: int
    """The maximum of samples in its queue; 0: the publisher's."""
    max_held: int
    """How many samples of one publisher it may hold."""
    reliable: bool
    """A reliable publisher waits for it."""
    access: str
    """"read" (also for a subscriber with "copy-on-write"), "private" or "shared"."""
    stats: SubscriberStats
    """Its counters."""
    publishers: tuple[str, ...]
    """The publishers to which it is connected, as `<id>.<n>`."""


@public
@dataclass(frozen=True)
class QueueClientReport:
    """A process that uses a queue."""

    client: PeerName
    """The process."""
    in_hand: int
    """Items that it has got and not finished; without `redeliver`, its next `get` finishes them."""
    waiting_puts: int
    """Calls of `put` that wait for room."""
    waiting_gets: int
    """Calls of `get` that wait for an item."""


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
    """How many items may wait; 0: no limit."""
    max_bytes: int
    """How many bytes of tensors and pickles may wait; 0: no limit."""
    redeliver: bool
    """Items of a process that dies return to the queue."""
    shut_down: bool
    """It was shut down: nothing more can be put."""
    in_hand: int
    """Items that clients have got and not finished, summed over all clients."""
    redelivered: int
    """Items that returned to the queue after the processes that had got them died."""
    stats: QueueStats
    """Its counters."""
    clients: tuple[QueueClientReport, ...]
    """The processes that use it."""


@public
@dataclass(frozen=True)
class ShareReport:
    """A share, reported by the process that made it."""

    number: int
    """Identifies the share in its participant."""
    bytes: int
    """Bytes of its tensors."""
    uses_left: int
    """How often it may still be attached; 0: no limit."""
    age_ns: int
    """Nanoseconds since it was made."""


@public
@dataclass(frozen=True)
class LentReport:
    """Memory of this process that one peer holds, summed over topics, queues and shares."""

    peer: PeerName
    """The process that holds it."""
    leases: int
    """How many samples and items it holds."""
    bytes: int
    """Bytes of these."""
    oldest_ns: int
    """Nanoseconds since the oldest of these leases began; 0: unknown."""


@public
@dataclass(frozen=True)
class BorrowedReport:
    """Memory of one peer that is mapped in this process."""

    peer: PeerName
    """The process that owns it."""
    segments: int
    """Mapped segments."""
    bytes: int
    """Bytes of these."""
    leases: int
    """How many samples and items of it this process holds."""


@public
@dataclass(frozen=True)
class DeviceReport:
    """Memory of this process on one GPU."""

    device: str
    """The name of the GPU, as in "cuda:0"."""
    used_bytes: int
    """Bytes in loans and in held samples."""
    reserved_bytes: int
    """Bytes allocated on the GPU: used, or kept for reuse."""
    budget_bytes: int
    """The limit of `reserved_bytes`."""


@public
@dataclass(frozen=True)
class MemoryReport:
    """The memory of a participant."""

    segments: int
    """Segments of its arena."""
    blocks: int
    """Blocks in use in these."""
    used_bytes: int
    """Bytes in loans and in held samples."""
    reserved_bytes: int
    """Bytes allocated from the system: used, or kept for reuse."""
    budget_bytes: int
    """The limit of `reserved_bytes`."""
    inherited_bytes: int
    """Used bytes that are kept only for forked children."""
    private_bytes: int
    """Bytes copied because this process wrote to received tensors."""
    file_bytes: int
    """Bytes of mapped files."""
    lent: tuple[LentReport, ...]
    """Memory that others hold, for each of them."""
    borrowed: tuple[BorrowedReport, ...]
    """Memory of others that is mapped here, for each of them."""
    devices: tuple[DeviceReport, ...]
    """Memory on GPUs, for each of them."""


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
    """Its publishers."""
    subscribers: tuple[SubscriberReport, ...]
    """Its subscribers."""
    queues: tuple[QueueReport, ...]
    """The queues that it has made."""
    shares: tuple[ShareReport, ...]
    """What it shares by handles."""
    memory: MemoryReport | None
    """None: it did not reply."""


@public
@dataclass(frozen=True)
class Inspection:
    """The reports of the participants of a domain."""

    domain: str
    """The path of the domain."""
    time_ns: int
    """When all replies had arrived, in nanoseconds since 1970."""
    participants: tuple[ParticipantReport, ...]
    """Sorted by pid."""

    def _repr_html_(self) -> str:
        """For notebooks: a table of the processes."""
        from tensorbus._base.html import grid

        count = len(self.participants)
        rows = map(process_row, self.participants)
        return grid(f"processes of {self.domain}: {count}", PROCESS_COLUMNS, rows, count)


# The columns of a table of processes. A ">" aligns a column at its right.
PROCESS_COLUMNS = (
    "process",
    "version",
    ">age",
    ">publishers",
    ">subscribers",
    ">queues",
    ">shares",
    ">memory",
    "nodes",
)


def process_row(process: ParticipantReport) -> tuple[object, ...]:
    """The row of a process in a table with `PROCESS_COLUMNS`."""
    return (
        process_name(process.process, process.pid, process.participant),
        process.version or "no answer",
        time_text(process.age_ns),
        len(process.publishers),
        len(process.subscribers),
        len(process.queues),
        len(process.shares),
        bytes_text(process.memory.used_bytes if process.memory else None),
        ", ".join(process.nodes),
    )
