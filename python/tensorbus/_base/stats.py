"""What `stats` returns: the counters of one moment, as attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensorbus._base.public import public


class Stats:
    """Counters that can be read as a dict, too: `stats["sent"]`, `dict(stats)`, `stats == {...}`.

    That is how programs read them before they were attributes.
    """

    def keys(self) -> Iterator[str]:
        """The names of the counters."""
        return iter(vars(self))

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __eq__(self, other: object) -> bool:
        return vars(self) == (vars(other) if isinstance(other, Stats) else other)


@public
@dataclass(frozen=True, eq=False)
class PublisherStats(Stats):
    """Counters of a `Publisher` since it was made, and its present state.

    >>> from tensorbus import Publisher
    >>> with Publisher("doc/publisher/stats") as publisher:
    ...     publisher.publish(7)
    ...     publisher.stats.sent, publisher.stats.delivered
    0
    (1, 0)
    """

    sent: int
    """Published samples."""
    delivered: int
    """Samples put into a subscriber's queue, summed over all subscribers."""
    dropped_depth: int
    """Samples dropped from a full queue for a newer one."""
    dropped_held: int
    """Samples not queued because the subscriber holds all that it may (`max_held`)."""
    dropped_unsent: int
    """Samples not queued because there was no descriptor or memory to pass them on."""
    timed_out: int
    """`publish` calls that gave up waiting for room."""
    waited: int
    """`publish` calls that had to wait."""
    waiting: int
    """Threads that wait in `publish` now."""
    bytes_copied: int
    """Bytes of tensors that were not in shared memory."""
    bytes_in_flight: int
    """Bytes that queues, readers and the history hold now."""
    subscribers: int
    """Subscribers that are connected now."""
    bad_returns: int
    """Leases that subscribers returned and never had."""
    cut_off: int
    """Times that a subscriber without room was cut off, after `lag_timeout`."""
    blocked_by: int
    """If a reliable publisher waits, or gave up: the pid of the process whose subscriber has had no
    room for longest. Else 0."""
    blocked_ns: int
    """Nanoseconds for which the subscriber of `blocked_by` has had no room; 0 if there is none."""

    @property
    def dropped(self) -> int:
        """Samples that a subscriber did not get, summed over all subscribers."""
        return self.dropped_depth + self.dropped_held + self.dropped_unsent


@public
@dataclass(frozen=True, eq=False)
class SubscriberStats(Stats):
    """Counters of a `Subscriber` since it was made, and its present state.

    >>> from tensorbus import Subscriber
    >>> with Subscriber("doc/subscriber/stats") as subscriber:
    ...     subscriber.stats.received, subscriber.stats.last_refusal
    (0, '')
    """

    received: int
    """Received samples."""
    missed: int
    """Gaps in the publishers' sequence numbers, in samples."""
    cut_off: int
    """Times that a publisher cut it off, since it had no room for its `lag_timeout`."""
    bad: int
    """Samples whose descriptor made no sense."""
    gone: int
    """Re-published samples whose memory was gone when this process asked for it."""
    staged: int
    """Samples of a GPU that arrived through main memory: see docs/cuda.md."""
    held: int
    """Samples whose memory this process still uses."""
    publishers: int
    """Publishers that are connected now."""
    refused: int
    """Publishers that were not connected."""
    last_refusal: str
    """Why the last of them was not connected; "" if none was refused."""


@public
@dataclass(frozen=True, eq=False)
class QueueStats(Stats):
    """Counters of a `Queue`, as the process that made it has them now.

    >>> from tensorbus import Queue
    >>> with Queue() as queue:
    ...     queue.put(7)
    ...     queue.stats.items, queue.stats.unfinished
    ...     queue.get()
    (1, 1)
    7
    """

    items: int
    """Items that wait."""
    unfinished: int
    """Items that were put, and for which `task_done` was not called yet."""
    lost: int
    """Items lost with the processes that had got them."""
    bytes: int
    """Bytes of the items that wait: of their tensors and of what else is in them."""
