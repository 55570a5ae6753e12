"""The tables of the pages of one topic, process or queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tensorbus._inspection.report import (
    ParticipantReport,
    PeerName,
    PublisherReport,
    QueueReport,
    SubscriberReport,
)
from tensorbus._inspection.troubles import trouble_of
from tensorbus._inspection.units import (
    bandwidth_text,
    bytes_text,
    rate_text,
    short,
    shown,
    time_text,
)
from tensorbus._top.columns import Row, Subject, Table, columns, number, ratio, words
from tensorbus._top.domain_tables import machine_name, type_names
from tensorbus._top.snapshot import Snapshot

Published = tuple[ParticipantReport, PublisherReport]
Subscribed = tuple[ParticipantReport, SubscriberReport]
Opens = Literal["topic", "process"]
"""The kind of page that a row opens."""


def _short_name(name: str) -> str:
    return short(shown(name))


_PUBLISHERS = columns(
    words("process", width=26),
    words("topic", _short_name),
    words("node", shown, width=12),
    words("machine", machine_name, width=12),
    words("mode", width=10),
    number("depth", width=5),
    number("Hz", rate_text, width=7),
    number("bandwidth", bandwidth_text, width=12),
    number("drops/s", rate_text, width=7),
    number("sent"),
    number("in flight", bytes_text),
    number("waits", width=5),
    number("subs", width=5),
)
_LINKS = columns(
    words("subscriber", width=26),
    words("publisher", width=26),
    words("mode", width=8),
    ratio("lag", width=7),
    ratio("held", width=9),
    number("bytes", bytes_text),
    number("oldest", time_text),
    number("delivered"),
    number("old", width=7),
    number("held all", width=8),
    number("unsent", width=7),
    number("no room", time_text, width=8),
    why=True,
)
_SUBSCRIBERS = columns(
    words("process", width=26),
    words("topic", _short_name),
    words("node", shown, width=12),
    words("type", width=18),
    words("access", shown, width=8),
    number("depth", width=5),
    number("publishers"),
    number("received"),
    number("missed", width=8),
    number("held", width=6),
    number("refused", width=7),
    words("last refusal", shown, width=70),
)
_PROCESS = words("process", width=34)
_LENT = columns(
    _PROCESS, number("leases"), number("bytes", bytes_text), number("oldest", time_text)
)
_BORROWED = columns(_PROCESS, number("leases"), number("mapped", bytes_text), number("segments"))
_CLIENTS = columns(_PROCESS, number("in hand"), number("puts wait"), number("gets wait"))


def publishers_table(snapshot: Snapshot, found: Sequence[Published], opens: Opens) -> Table:
    def row(owner: ParticipantReport, publisher: PublisherReport) -> Row:
        stats = publisher.stats
        return Row(
            key=f"{owner.participant}.{publisher.number}",
            why="",
            opens=_opened(opens, publisher.topic, owner),
            cells=(
                snapshot.names[owner.participant],
                publisher.topic,
                publisher.node,
                publisher.machine,
                _mode_of(publisher),
                publisher.depth,
                *snapshot.total([(owner.participant, publisher.number)]),
                stats.sent,
                stats.bytes_in_flight,
                stats.waiting,
                len(publisher.links),
            ),
        )

    return Table("Publishers", _PUBLISHERS, lambda: [row(*each) for each in found])


def links_table(snapshot: Snapshot, found: Sequence[Published]) -> Table:
    def rows() -> list[Row]:
        return [
            Row(
                key=f"{owner.participant}.{publisher.number}.{place}",
                why=trouble_of(link, publisher, owner),
                opens=Subject("process", link.subscriber.participant),
                cells=(
                    snapshot.peer(link.subscriber, link.node),
                    snapshot.names[owner.participant],
                    "reliable" if link.reliable else "newest",
                    (link.waiting, link.depth),
                    (link.held, link.max_held),
                    link.held_bytes,
                    link.oldest_held_ns,
                    link.delivered,
                    link.dropped_depth,
                    link.dropped_held,
                    link.dropped_unsent,
                    link.blocked_ns,
                ),
            )
            for owner, publisher in found
            for place, link in enumerate(publisher.links)
        ]

    return Table("Links", _LINKS, rows)


def subscribers_table(snapshot: Snapshot, found: Sequence[Subscribed], opens: Opens) -> Table:
    def row(place: int, owner: ParticipantReport, subscriber: SubscriberReport) -> Row:
        stats = subscriber.stats
        return Row(
            key=f"{place}.{owner.participant}",
            why="",
            opens=_opened(opens, subscriber.topic, owner),
            cells=(
                snapshot.names[owner.participant],
                subscriber.topic,
                subscriber.node,
                type_names([subscriber.type]),
                subscriber.access,
                subscriber.depth,
                stats.publishers,
                stats.received,
                stats.missed,
                stats.held,
                stats.refused,
                stats.last_refusal,
            ),
        )

    return Table(
        "Subscribers", _SUBSCRIBERS, lambda: [row(n, *each) for n, each in enumerate(found)]
    )


def lent_table(snapshot: Snapshot, owner: ParticipantReport) -> Table:
    """Memory of a process that other processes hold."""
    lent = owner.memory.lent if owner.memory else ()
    found = [(each.peer, each.leases, each.bytes, each.oldest_ns) for each in lent]
    return Table("Lent to", _LENT, lambda: _peer_rows(snapshot, found))


def borrowed_table(snapshot: Snapshot, borrower: ParticipantReport) -> Table:
    """Memory of other processes that is mapped in a process."""
    borrowed = borrower.memory.borrowed if borrower.memory else ()
    found = [(each.peer, each.leases, each.bytes, each.segments) for each in borrowed]
    return Table("Has of", _BORROWED, lambda: _peer_rows(snapshot, found))


def clients_table(snapshot: Snapshot, queue: QueueReport) -> Table:
    """The processes that put into a queue or get from it."""
    found = [
        (each.client, each.in_hand, each.waiting_puts, each.waiting_gets) for each in queue.clients
    ]
    return Table("Clients", _CLIENTS, lambda: _peer_rows(snapshot, found))


def _peer_rows(snapshot: Snapshot, found: Sequence[tuple[PeerName, int, int, int]]) -> list[Row]:
    return [
        Row(
            key=peer.participant or f"unknown {place}",
            why=snapshot.why_process.get(peer.participant, ""),
            opens=Subject("process", peer.participant),
            cells=(snapshot.peer(peer), *cells),
        )
        for place, (peer, *cells) in enumerate(found)
    ]


def _mode_of(publisher: PublisherReport) -> str:
    """How a publisher treats slow subscribers, or which memory it uses."""
    if publisher.isolated:
        return "isolated"
    if publisher.shared:
        return "shared"
    return "reliable" if publisher.reliable else "newest"


def _opened(opens: Opens, topic: str, owner: ParticipantReport) -> Subject:
    return Subject(opens, topic if opens == "topic" else owner.participant)
