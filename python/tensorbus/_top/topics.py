"""The table of topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorbus._inspection.report import ParticipantReport, PublisherReport
from tensorbus._inspection.units import bandwidth_text, rate_text, short, shown
from tensorbus._top.columns import Columns, Row, Subject, Table, number, ratio, reason, words
from tensorbus._top.snapshot import Snapshot, Total

_Publishers = list[tuple[ParticipantReport, PublisherReport]]


@dataclass(frozen=True)
class TopicRow(Row):
    """The publishers of a topic on one machine, together."""

    topic: str
    machine: str
    type: str
    total: Total
    subscribers: int
    lag: tuple[int, int]
    """Of the subscriber that lags most: samples that wait, and its depth."""


COLUMNS: Columns[TopicRow] = (
    words("topic", lambda row: short(row.topic)),
    words("type", lambda row: row.type, width=22),
    words("machine", lambda row: row.machine, width=12),
    number("Hz", lambda row: row.total.hz, rate_text, width=7),
    number("bandwidth", lambda row: row.total.bytes_per_second, bandwidth_text, width=12),
    number("drops/s", lambda row: row.total.dropped_per_second, rate_text, width=7),
    number("subs", lambda row: row.subscribers, width=5),
    ratio("lag", lambda row: row.lag, width=7),
    reason(),
)


def topics_table(snapshot: Snapshot, machine: str | None = None) -> Table[TopicRow]:
    """
    Args:
        machine: only the topics of that machine; "" is this one, None all.
    """
    return Table("Topics", COLUMNS, lambda: topic_rows(snapshot, machine))


def topic_rows(snapshot: Snapshot, machine: str | None = None) -> list[TopicRow]:
    """Topics that have publishers, and those that have subscribers only.

    Of the publishers of a process that does not answer, the names of the topics are known.
    """
    published: dict[tuple[str, str], _Publishers] = {}
    silent: dict[str, str] = {}
    heard: dict[str, list[str]] = {}
    for participant in snapshot.participants:
        for publisher in participant.publishers:
            name = publisher.topic, publisher.machine
            published.setdefault(name, []).append((participant, publisher))
        for topic in participant.topics if participant.error else ():
            silent[topic] = snapshot.why_silent[participant.participant]
        for subscriber in participant.subscribers:
            heard.setdefault(subscriber.topic, []).append(subscriber.type)
    rows = [
        _row(snapshot, *name, found)
        for name, found in published.items()
        if machine in (None, name[1])
    ]
    if machine:
        return rows
    known = {topic for topic, _ in published}
    return rows + [
        _unpublished(topic, heard.get(topic, []), silent.get(topic, ""))
        for topic in sorted(silent.keys() | heard.keys())
        if topic not in known
    ]


def machine_name(machine: str) -> str:
    """As tables name it."""
    return shown(machine) or "here"


def type_names(definitions: Iterable[str]) -> str:
    """The first line of a definition is the name of the type."""
    names = {definition.partition("\n")[0] for definition in definitions} - {""}
    return shown(", ".join(sorted(names)))


def _row(snapshot: Snapshot, topic: str, machine: str, found: _Publishers) -> TopicRow:
    publishers = [publisher for _, publisher in found]
    return TopicRow(
        key=f"{machine}\n{topic}",
        why=snapshot.why_topic.get((topic, machine), ""),
        opens=Subject("topic", topic),
        topic=shown(topic),
        machine=machine_name(machine),
        type=type_names(publisher.type for publisher in publishers),
        total=snapshot.total((owner.participant, each.number) for owner, each in found),
        subscribers=max(len(publisher.links) for publisher in publishers),
        lag=_worst_lag(publishers),
    )


def _worst_lag(publishers: Iterable[PublisherReport]) -> tuple[int, int]:
    lags = [(link.waiting, link.depth) for each in publishers for link in each.links]
    return max(lags, key=lambda lag: lag[0] / max(lag[1], 1), default=(0, 0))


def _unpublished(topic: str, types: list[str], why: str) -> TopicRow:
    return TopicRow(
        key=f"\n{topic}",
        why=why,
        opens=Subject("topic", topic),
        topic=shown(topic),
        machine=machine_name(""),
        type=type_names(types),
        total=Total(),
        subscribers=len(types),
        lag=(0, 0),
    )
