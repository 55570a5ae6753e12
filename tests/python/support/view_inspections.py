"""Inspections made by hand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import tensorbus as tb
from tensorbus._base.stats import PublisherStats, SubscriberStats
from tensorbus._inspection.report import (
    Inspection,
    LentReport,
    LinkReport,
    MemoryReport,
    ParticipantReport,
    PeerName,
    PublisherReport,
    SubscriberReport,
)


def made(cls: type[Any], **values: Any) -> Any:
    """A report with these values; the others are 0, "", False, () or None, as their types are."""
    empty = {"int": 0, "str": "", "bool": False, "float": 0.0}
    given = {field.name: empty.get(str(field.type), ()) for field in fields(cls)}
    return cls(**(given | values))


def publisher(topic: str, number: int = 0, sent: int = 0, **values: Any) -> PublisherReport:
    stats = made(PublisherStats, sent=sent)
    found = {"type": "", "origin": "", "stats": stats} | values
    return made(PublisherReport, topic=topic, number=number, **found)


def link(process: ParticipantReport | str, **values: Any) -> LinkReport:
    """What a publisher says of a subscriber in another process."""
    name = process if isinstance(process, str) else process.participant
    pid = 0 if isinstance(process, str) else process.pid
    return made(LinkReport, subscriber=PeerName(name, pid, "name"), **values)


def subscriber(topic: str, **values: Any) -> SubscriberReport:
    return made(SubscriberReport, topic=topic, stats=made(SubscriberStats), **values)


def lent(peer: str, pid: int, **values: Any) -> LentReport:
    return made(LentReport, peer=PeerName(peer, pid, "name"), **values)


def process(name: str, pid: int, **values: Any) -> ParticipantReport:
    """A participant whose id is its name."""
    found: dict[str, Any] = {"memory": made(MemoryReport), "version": tb.__version__} | values
    return made(ParticipantReport, participant=name, pid=pid, process=name, **found)


def inspection(*processes: ParticipantReport, seconds: float = 0.0) -> Inspection:
    """Taken when all of them were so old."""
    age = int(seconds * 1e9)
    return Inspection("by hand", age, tuple(replace(each, age_ns=age) for each in processes))
