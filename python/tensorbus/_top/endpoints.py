"""The tables of publishers, of their links and of subscribers, on the pages of one thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tensorbus._inspection.report import (
    LinkReport,
    ParticipantReport,
    PublisherReport,
    SubscriberReport,
)
from tensorbus._inspection.units import (
    bandwidth_text,
    bytes_text,
    rate_text,
    short,
    shown,
    time_text,
)
from tensorbus._top.columns import Columns, Row, Subject, Table, number, ratio, reason, words
from tensorbus._top.snapshot import Snapshot, Total
from tensorbus._top.topics import machine_name, type_names
from tensorbus._top.troubles import trouble_of

Published = tuple[ParticipantReport, PublisherReport]
Subscribed = tuple[ParticipantReport, SubscriberReport]
Opens = Literal["topic", "process"]
"""What enter shows: of the page that the row is on, it is the other one."""


@dataclass(frozen=True)
class PublisherRow(Row):
    """A publisher of one process."""

    process: str
    publisher: PublisherReport
    total: Total


_PUBLISHERS: Columns[PublisherRow] = (
    words("process", lambda row: row.process, width=26),
    words("topic", lambda row: short(shown(row.publisher.topic))),
    words("node", lambda row: shown(row.publisher.node), width=12),
    words("machine", lambda row: machine_name(row.publisher.machine), width=12),
    words("mode", lambda row: mode_of(row.publisher), width=10),
    number("depth", lambda row: row.publisher.depth, width=5),
    number("Hz", lambda row: row.total.hz, rate_text, width=7),
    number("bandwidth", lambda row: row.total.bytes_per_second, bandwidth_text, width=12),
    number("drops/s", lambda row: row.total.dropped_per_second, rate_text, width=7),
    number("sent", lambda row: row.publisher.stats.sent),
    number("in flight", lambda row: row.publisher.stats.bytes_in_flight, bytes_text),
    number("waits", lambda row: row.publisher.stats.waiting, width=5),
    number("subs", lambda row: len(row.publisher.links), width=5),
)


@dataclass(frozen=True)
class LinkRow(Row):
    """A subscriber, as its publisher knows it."""

    publisher: str
    subscriber: str
    link: LinkReport


_LINKS: Columns[LinkRow] = (
    words("subscriber", lambda row: row.subscriber, width=26),
    words("publisher", lambda row: row.publisher, width=26),
    words("mode", lambda row: "reliable" if row.link.reliable else "newest", width=8),
    ratio("lag", lambda row: (row.link.waiting, row.link.depth), width=7),
    ratio("held", lambda row: (row.link.held, row.link.max_held), width=9),
    number("bytes", lambda row: row.link.held_bytes, bytes_text),
    number("oldest", lambda row: row.link.oldest_held_ns, time_text),
    number("delivered", lambda row: row.link.delivered),
    number("old", lambda row: row.link.dropped_depth, width=7),
    number("held all", lambda row: row.link.dropped_held, width=8),
    number("unsent", lambda row: row.link.dropped_unsent, width=7),
    number("no room", lambda row: row.link.blocked_ns, time_text, width=8),
    reason(),
)


@dataclass(frozen=True)
class SubscriberRow(Row):
    """A subscriber, as its own process knows it."""

    process: str
    subscriber: SubscriberReport


_SUBSCRIBERS: Columns[SubscriberRow] = (
    words("process", lambda row: row.process, width=26),
    words("topic", lambda row: short(shown(row.subscriber.topic))),
    words("node", lambda row: shown(row.subscriber.node), width=12),
    words("type", lambda row: type_names([row.subscriber.type]), width=18),
    words("access", lambda row: shown(row.subscriber.access), width=8),
    number("depth", lambda row: row.subscriber.depth, width=5),
    number("publishers", lambda row: row.subscriber.stats.publishers),
    number("received", lambda row: row.subscriber.stats.received),
    number("missed", lambda row: row.subscriber.stats.missed, width=8),
    number("held", lambda row: row.subscriber.stats.held, width=6),
    number("refused", lambda row: row.subscriber.stats.refused, width=7),
    words("last refusal", lambda row: shown(row.subscriber.stats.last_refusal), width=70),
)


def mode_of(publisher: PublisherReport) -> str:
    """What a publisher does about slow subscribers, and whose memory it uses."""
    if publisher.isolated:
        return "isolated"
    if publisher.shared:
        return "shared"
    return "reliable" if publisher.reliable else "newest"


def publishers_table(
    snapshot: Snapshot, found: Sequence[Published], opens: Opens
) -> Table[PublisherRow]:
    def row(owner: ParticipantReport, publisher: PublisherReport) -> PublisherRow:
        topic = Subject("topic", publisher.topic)
        return PublisherRow(
            key=f"{owner.participant}.{publisher.number}",
            why="",
            opens=topic if opens == "topic" else Subject("process", owner.participant),
            process=snapshot.names[owner.participant],
            publisher=publisher,
            total=snapshot.total([(owner.participant, publisher.number)]),
        )

    return Table("Publishers", _PUBLISHERS, lambda: [row(*each) for each in found])


def links_table(snapshot: Snapshot, found: Sequence[Published]) -> Table[LinkRow]:
    def rows(owner: ParticipantReport, publisher: PublisherReport) -> Iterator[LinkRow]:
        for place, link in enumerate(publisher.links):
            yield LinkRow(
                key=f"{owner.participant}.{publisher.number}.{place}",
                why=trouble_of(link, publisher, owner),
                opens=Subject("process", link.subscriber.participant),
                publisher=snapshot.names[owner.participant],
                subscriber=snapshot.peer(link.subscriber, link.node),
                link=link,
            )

    return Table("Links", _LINKS, lambda: [row for each in found for row in rows(*each)])


def subscribers_table(
    snapshot: Snapshot, found: Sequence[Subscribed], opens: Opens
) -> Table[SubscriberRow]:
    def row(place: int, owner: ParticipantReport, subscriber: SubscriberReport) -> SubscriberRow:
        topic = Subject("topic", subscriber.topic)
        return SubscriberRow(
            key=f"{place}.{owner.participant}",
            why="",
            opens=topic if opens == "topic" else Subject("process", owner.participant),
            process=snapshot.names[owner.participant],
            subscriber=subscriber,
        )

    return Table(
        "Subscribers", _SUBSCRIBERS, lambda: [row(n, *each) for n, each in enumerate(found)]
    )
