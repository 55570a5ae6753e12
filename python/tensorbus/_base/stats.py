"""The counters that `stats` returns, as attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensorbus._base.public import public


class Stats:
    """Counters, as attributes and like a dict: `stats["sent"]`, `dict(stats)`, `stats == {...}`."""

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
    """Counters of a `Publisher` since it was made, and its current state.

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
    """Samples not queued because the subscriber held `max_held` samples."""
    dropped_unsent: int
    """Samples not queued because there was no descriptor or memory to send them."""
    timed_out: int
    """`publish` calls that gave up waiting for room."""
    waited: int
    """`publish` calls that had to wait."""
    waiting: int
    """Threads that wait in `publish` now."""
    bytes_copied: int
    """Bytes of tensors that were copied, as they were not in shared memory."""
    bytes_in_flight: int
    """Bytes that queues, readers and the history hold now."""
    subscribers: int
    """Subscribers that are connected now."""
    bad_returns: int
    """Returned leases that the subscriber did not have."""
    cut_off: int
    """Times that a subscriber without room was cut off after `lag_timeout`."""
    blocked_by: int
    """If a reliable publisher waits or has given up: the pid of the process whose subscriber has
    had no room for longest. Else 0."""
    blocked_ns: int
    """Nanoseconds for which the subscriber of `blocked_by` has had no room; 0 if there is none."""

    @property
    def dropped(self) -> int:
        """All samples that were dropped, summed over all subscribers."""
        return self.dropped_depth + self.dropped_held + self.dropped_unsent


@public
@dataclass(frozen=True, eq=False)
class SubscriberStats(Stats):
    """Counters of a `Subscriber` since it was made, and its current state.

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
    """Times that a publisher cut this subscriber off, after `lag_timeout` without room."""
    bad: int
    """Samples with a malformed descriptor."""
    gone: int
    """Re-published samples whose memory no longer existed when this process requested it."""
    staged: int
    """Samples of a GPU that arrived in main memory: see docs/cuda.md."""
    held: int
    """Samples whose memory this process still uses."""
    publishers: int
    """Publishers that are connected now."""
    refused: int
    """Connections to publishers that were refused."""
    last_refusal: str
    """The reason of the last refusal; "" if there was none."""


@public
@dataclass(frozen=True, eq=False)
class QueueStats(Stats):
    """Current counters of a `Queue`, from its server.

    >>> from tensorbus import Queue
    >>> with Queue() as queue:
    ...     queue.put(7)
    ...     queue.stats.items, queue.stats.unfinished
    ...     queue.get()
    (1, 1)
    7
    """

    items: int
    """Items that wait in the queue."""
    unfinished: int
    """Items put for which `task_done` was not called yet."""
    lost: int
    """Items lost with processes that died after they got them."""
    bytes: int
    """Bytes of the tensors and pickles of the items that wait."""


@public
@dataclass(frozen=True, eq=False)
class PoolStats(Stats):
    """Counters of a `WorkerPool` since it was made, and its current state.

    When no item changes its state, the submitted items are the sum of `waiting`, `running`, `done`,
    `failed`, `timed_out` and `cancelled`. Times are in seconds.

    >>> from tensorbus import WorkerPool
    >>> with WorkerPool(len, workers=1) as pool:
    ...     pool.map(["a", "bc"])
    ...     pool.stats.done, pool.stats.failed, pool.stats.mean_wait > 0
    [1, 2]
    (2, 0, True)
    """

    workers: int
    """Workers that the pool is to have."""
    alive: int
    """Processes of workers now, also those that load or end."""
    ready: int
    """Workers that have run their initializer."""
    restarts: int
    """Workers that have died, and were replaced."""
    waiting: int
    """Items that no worker has."""
    running: int
    """Items that a worker has."""
    done: int
    """Items with a result."""
    failed: int
    """Items with an exception, other than those of `timed_out`."""
    overran: int
    """Items of `failed` whose worker was ended after `run_timeout`."""
    timed_out: int
    """Items that were dropped because no worker had begun them within their `timeout`."""
    cancelled: int
    """Items whose future was cancelled before a worker had begun them."""
    refused: int
    """Items that `submit` has refused because of `max_waiting`. They count in no other."""
    mean_batch: float
    """Items that a worker got at once, on average; 1 without `batch`."""
    mean_wait: float
    """Seconds from `submit` until a worker got the item, on average."""
    max_wait: float
    """Maximum of these seconds."""
    mean_run: float
    """Seconds from when a worker got the item until its result arrived, on average."""
    max_run: float
    """Maximum of these seconds."""
    p50_wait: float
    """Median of the seconds of `mean_wait`, of the last 1,024 items; 0 if there is none."""
    p90_wait: float
    """Seconds of `mean_wait` within which 90 % of the last 1,024 items were."""
    p99_wait: float
    """Seconds of `mean_wait` within which 99 % of the last 1,024 items were."""
    p50_run: float
    """Median of the seconds of `mean_run`, of the last 1,024 items; 0 if there is none."""
    p90_run: float
    """Seconds of `mean_run` within which 90 % of the last 1,024 items were."""
    p99_run: float
    """Seconds of `mean_run` within which 99 % of the last 1,024 items were."""


@public
@dataclass(frozen=True, eq=False)
class TimeSynchronizerStats(Stats):
    """Counters of a `TimeSynchronizer` since it was made, and its current state.

    All but `sets` are tuples with a number for each subscriber, in their order. For each of them
    `received` is the sum of `sets`, `dropped` and `waiting`.

    >>> from tensorbus import Subscriber, TimeSynchronizer
    >>> with TimeSynchronizer([Subscriber("doc/l"), Subscriber("doc/r")], tolerance=0.01) as pairs:
    ...     pairs.stats.sets, pairs.stats.dropped
    (0, (0, 0))
    """

    sets: int
    """Sets that were returned. Each has one sample of every topic."""
    received: tuple[int, ...]
    """Samples taken from the subscriber."""
    unmatched: tuple[int, ...]
    """Samples dropped because no later set can have them: their partners never came."""
    overflowed: tuple[int, ...]
    """Samples dropped for newer ones because `queue_size` samples were waiting."""
    late: tuple[int, ...]
    """Samples dropped because an earlier sample of their topic had a later time."""
    invalid: tuple[int, ...]
    """Samples whose time could not be read."""
    waiting: tuple[int, ...]
    """Samples that wait for partners now."""

    @property
    def dropped(self) -> tuple[int, ...]:
        """All samples that were dropped, for each subscriber."""
        reasons = (self.unmatched, self.overflowed, self.late, self.invalid)
        return tuple(map(sum, zip(*reasons, strict=True)))
