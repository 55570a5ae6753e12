"""The tables of the domain's page: topics, processes, queues and machines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tensorbus._inspection.report import (
    LentReport,
    ParticipantReport,
    PublisherReport,
    QueueReport,
)
from tensorbus._inspection.troubles import queue_name
from tensorbus._inspection.units import (
    bandwidth_text,
    bytes_text,
    percent_text,
    rate_text,
    short,
    shown,
    time_text,
)
from tensorbus._top.columns import Row, Subject, Table, columns, number, ratio, words
from tensorbus._top.snapshot import Snapshot, Total

_Publishers = list[tuple[ParticipantReport, PublisherReport]]

_TOPICS = columns(
    words("topic", short),
    words("type", width=22),
    words("machine", width=12),
    number("Hz", rate_text, width=7),
    number("bandwidth", bandwidth_text, width=12),
    number("drops/s", rate_text, width=7),
    number("subs", width=5),
    ratio("lag", width=7),
    why=True,
)
_PROCESSES = columns(
    words("process", partial(short, width=24)),
    number("pid", width=7),
    words("program", width=12),
    number("CPU %", percent_text, width=6),
    number("RSS", bytes_text),
    number("used", bytes_text),
    number("lent", bytes_text),
    number("holds", bytes_text),
    number("oldest", time_text),
    why=True,
)
_QUEUES = columns(
    words("queue", short),
    words("process", width=22),
    words("machine", width=12),
    ratio("items", width=9),
    number("bytes", bytes_text),
    number("in hand", width=7),
    number("again", width=7),
    number("lost", width=6),
    number("puts", width=5),
    number("gets", width=5),
    why=True,
)
_MACHINES = columns(
    words("machine", short),
    words("through", width=26),
    number("topics", width=7),
    number("queues", width=7),
    number("Hz", rate_text, width=8),
    number("bandwidth", bandwidth_text, width=12),
    number("drops/s", rate_text, width=8),
)


def machine_name(machine: str) -> str:
    """The name of a machine in tables."""
    return shown(machine) or "here"


def type_names(definitions: Iterable[str]) -> str:
    """The names of types: the first lines of their definitions."""
    names = {definition.partition("\n")[0] for definition in definitions} - {""}
    return shown(", ".join(sorted(names)))


def topics_table(snapshot: Snapshot, machine: str | None = None) -> Table:
    """Topics with publishers, a row for each machine, and topics with subscribers only.

    Args:
        machine: only the topics of this machine; "": of the local machine; None: of all machines.
    """
    return Table("Topics", _TOPICS, lambda: _topic_rows(snapshot, machine))


def _topic_rows(snapshot: Snapshot, machine: str | None) -> list[Row]:
    published: dict[tuple[str, str], _Publishers] = {}
    silent: dict[str, str] = {}  # topics of processes that did not reply, and the reason
    subscribed: dict[str, list[str]] = {}
    for participant in snapshot.participants:
        for publisher in participant.publishers:
            name = publisher.topic, publisher.machine
            published.setdefault(name, []).append((participant, publisher))
        for topic in participant.topics if participant.error else ():
            silent[topic] = snapshot.why_silent[participant.participant]
        for subscriber in participant.subscribers:
            subscribed.setdefault(subscriber.topic, []).append(subscriber.type)
    rows = [
        _published_row(snapshot, *name, found)
        for name, found in published.items()
        if machine in (None, name[1])
    ]
    if machine:
        return rows
    known = {topic for topic, _ in published}
    for topic in sorted((silent.keys() | subscribed.keys()) - known):
        types = subscribed.get(topic, [])
        cells = type_names(types), machine_name(""), *Total(), len(types), (0, 0)
        rows.append(_topic_row(topic, "", silent.get(topic, ""), *cells))
    return rows


def _published_row(snapshot: Snapshot, topic: str, machine: str, found: _Publishers) -> Row:
    publishers = [publisher for _, publisher in found]
    lags = [(link.waiting, link.depth) for each in publishers for link in each.links]
    return _topic_row(
        topic,
        machine,
        snapshot.why_topic.get((topic, machine), ""),
        type_names(publisher.type for publisher in publishers),
        machine_name(machine),
        *snapshot.total((owner.participant, each.number) for owner, each in found),
        max(len(publisher.links) for publisher in publishers),
        max(lags, key=lambda lag: lag[0] / max(lag[1], 1), default=(0, 0)),
    )


def _topic_row(topic: str, machine: str, why: str, *cells: object) -> Row:
    return Row(f"{machine}\n{topic}", why, Subject("topic", topic), (shown(topic), *cells))


def processes_table(snapshot: Snapshot) -> Table:
    """All participants. Lenders report the memory that a process without a reply holds."""
    return Table("Processes", _PROCESSES, lambda: _process_rows(snapshot))


def _process_rows(snapshot: Snapshot) -> list[Row]:
    held: dict[str, list[LentReport]] = {}
    for participant in snapshot.participants:
        for lent in participant.memory.lent if participant.memory else ():
            held.setdefault(lent.peer.participant, []).append(lent)
    return [
        _process_row(snapshot, participant, held.get(participant.participant, []))
        for participant in snapshot.participants
    ]


def _process_row(snapshot: Snapshot, process: ParticipantReport, held: list[LentReport]) -> Row:
    usage, memory = snapshot.after.usage.get(process.pid), process.memory
    return Row(
        key=process.participant,
        why=snapshot.why_process.get(process.participant, ""),
        opens=Subject("process", process.participant),
        cells=(
            shown(", ".join(process.nodes) or process.process) or "?",
            process.pid,
            shown(process.process),
            snapshot.cpu(process.pid),
            usage.rss_bytes if usage else None,
            memory.used_bytes if memory else None,
            sum(lent.bytes for lent in memory.lent) if memory else None,
            sum(lent.bytes for lent in held),
            max((lent.oldest_ns for lent in held), default=0),
        ),
    )


def queues_table(
    snapshot: Snapshot, machine: str | None = None, server: str | None = None
) -> Table:
    """Queues, including those of services.

    Args:
        machine: only queues of this machine; "": of the local machine; None: of all machines.
        server: only queues of this participant; None: of all participants.
    """

    def rows() -> list[Row]:
        return [
            _queue_row(snapshot, participant, queue)
            for participant in snapshot.participants
            for queue in participant.queues
            if machine in (None, queue.machine) and server in (None, participant.participant)
        ]

    return Table("Queues", _QUEUES, rows)


def _queue_row(snapshot: Snapshot, server: ParticipantReport, queue: QueueReport) -> Row:
    return Row(
        key=f"{server.participant}.{queue.number}",
        why=snapshot.why_queue.get((server.participant, queue.number), ""),
        opens=Subject("queue", server.participant, number=queue.number),
        cells=(
            queue_name(queue),
            snapshot.names[server.participant],
            machine_name(queue.machine),
            (queue.stats.items, queue.maxsize),
            queue.stats.bytes,
            queue.in_hand,
            queue.redelivered,
            queue.stats.lost,
            sum(client.waiting_puts for client in queue.clients),
            sum(client.waiting_gets for client in queue.clients),
        ),
    )


def machines_table(snapshot: Snapshot) -> Table:
    """The local machine, and the machines of mirrors."""

    def rows() -> list[Row]:
        machines = {""}
        for participant in snapshot.participants:
            machines.update(publisher.machine for publisher in participant.publishers)
            machines.update(queue.machine for queue in participant.queues)
        return [_machine_row(snapshot, machine) for machine in sorted(machines)]

    return Table("Machines", _MACHINES, rows)


def _machine_row(snapshot: Snapshot, machine: str) -> Row:
    publishers = [
        (participant.participant, publisher)
        for participant in snapshot.participants
        for publisher in participant.publishers
        if publisher.machine == machine
    ]
    servers = [
        participant.participant
        for participant in snapshot.participants
        for queue in participant.queues
        if queue.machine == machine
    ]
    bridges = {snapshot.names[owner] for owner in (*(owner for owner, _ in publishers), *servers)}
    return Row(
        key=machine,
        why="",
        opens=Subject("machine", machine),
        cells=(
            machine_name(machine),
            ", ".join(sorted(bridges)) if machine else f"{len(snapshot.names)} processes",
            len({publisher.topic for _, publisher in publishers}),
            len(servers),
            *snapshot.total((owner, publisher.number) for owner, publisher in publishers),
        ),
    )
