"""Inspections that are made by hand, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensorbus._base.stats import PublisherStats, QueueStats, SubscriberStats
from tensorbus._inspection.report import (
    Inspection,
    LentReport,
    LinkReport,
    MemoryReport,
    ParticipantReport,
    PeerName,
    PublisherReport,
    QueueReport,
    SubscriberReport,
)

SECOND = 1_000_000_000


def inspection(*participants: ParticipantReport, seconds: float = 0) -> Inspection:
    """What they said, so many seconds after the first."""
    return Inspection("/domain", int(seconds * SECOND), participants)


def process(pid: int, name: str = "camera", **fields: Any) -> ParticipantReport:
    """One that answered, and has nothing but what is given."""
    empty = ParticipantReport(
        participant=f"{pid:032x}",
        pid=pid,
        process=name,
        error="",
        version="0.1.0",
        age_ns=SECOND,
        nodes=(),
        topics=(),
        publishers=(),
        subscribers=(),
        queues=(),
        shares=(),
        memory=None,
    )
    return replace(empty, **fields)


def silent(pid: int, name: str = "camera") -> ParticipantReport:
    """One that did not answer."""
    return process(pid, name, error="no answer in 1 s", version="")


def publisher(topic: str, sent: int = 0, number: int = 1, **fields: Any) -> PublisherReport:
    """One of samples of 100 bytes."""
    stats = PublisherStats(**{**dict.fromkeys(PublisherStats.__dataclass_fields__, 0)})
    empty = PublisherReport(
        topic=topic,
        number=number,
        node="",
        type="",
        machine="",
        origin="",
        depth=8,
        history=0,
        reliable=False,
        shared=False,
        isolated=False,
        bytes_sent=100 * sent,
        stats=replace(stats, sent=sent, delivered=sent),
        links=(),
    )
    return replace(empty, **fields)


def link(pid: int, name: str = "viewer", **fields: Any) -> LinkReport:
    """A subscriber that has nothing."""
    empty = LinkReport(
        subscriber=PeerName(f"{pid:032x}", pid, name),
        node="",
        depth=8,
        max_held=256,
        reliable=False,
        delivered=0,
        waiting=0,
        held=0,
        held_bytes=0,
        oldest_held_ns=0,
        dropped_depth=0,
        dropped_held=0,
        dropped_unsent=0,
        blocked_ns=0,
        cut_off=False,
    )
    return replace(empty, **fields)


def subscriber(topic: str, received: int = 0, missed: int = 0) -> SubscriberReport:
    """One that is connected with nobody."""
    counters = {name: 0 for name in SubscriberStats.__dataclass_fields__}
    stats = SubscriberStats(**{**counters, "last_refusal": ""})  # type: ignore[arg-type]
    return SubscriberReport(
        topic=topic,
        node="",
        type="",
        depth=8,
        max_held=256,
        reliable=False,
        access="copy-on-write",
        stats=replace(stats, received=received, missed=missed),
        publishers=(),
    )


def queue(name: str, items: int = 0, **fields: Any) -> QueueReport:
    """One that nobody uses."""
    empty = QueueReport(
        name=name,
        service="",
        number=1,
        machine="",
        maxsize=0,
        max_bytes=0,
        redeliver=False,
        shut_down=False,
        in_hand=0,
        redelivered=0,
        stats=QueueStats(items=items, unfinished=items, lost=0, bytes=10 * items),
        clients=(),
    )
    return replace(empty, **fields)


def memory(used: int = 0, *lent: LentReport) -> MemoryReport:
    """Of a process without GPUs."""
    return MemoryReport(
        segments=1,
        blocks=1,
        used_bytes=used,
        reserved_bytes=2 * used,
        budget_bytes=1000 * used,
        inherited_bytes=0,
        private_bytes=0,
        file_bytes=0,
        lent=lent,
        borrowed=(),
        devices=(),
    )
