"""The table of queues."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._inspection.report import ParticipantReport, QueueReport
from tensorbus._inspection.units import bytes_text, short
from tensorbus._top.columns import Columns, Row, Subject, Table, number, ratio, reason, words
from tensorbus._top.snapshot import Snapshot
from tensorbus._top.topics import machine_name
from tensorbus._top.troubles import queue_name


@dataclass(frozen=True)
class QueueRow(Row):
    """A queue, as the process that made it knows it."""

    name: str
    process: str
    machine: str
    queue: QueueReport


COLUMNS: Columns[QueueRow] = (
    words("queue", lambda row: short(row.name)),
    words("process", lambda row: row.process, width=22),
    words("machine", lambda row: row.machine, width=12),
    ratio("items", lambda row: (row.queue.stats.items, row.queue.maxsize), width=9),
    number("bytes", lambda row: row.queue.stats.bytes, bytes_text),
    number("in hand", lambda row: row.queue.in_hand, width=7),
    number("again", lambda row: row.queue.redelivered, width=7),
    number("lost", lambda row: row.queue.stats.lost, width=6),
    number("puts", lambda row: sum(it.waiting_puts for it in row.queue.clients), width=5),
    number("gets", lambda row: sum(it.waiting_gets for it in row.queue.clients), width=5),
    reason(),
)


def queues_table(
    snapshot: Snapshot, machine: str | None = None, owner: str | None = None
) -> Table[QueueRow]:
    """Queues, also those of services.

    Args:
        machine: only those of that machine; "" is this one, None all.
        owner: only those of that participant.
    """
    return Table("Queues", COLUMNS, lambda: queue_rows(snapshot, machine, owner))


def queue_rows(
    snapshot: Snapshot, machine: str | None = None, owner: str | None = None
) -> list[QueueRow]:
    return [
        _row(snapshot, participant, queue)
        for participant in snapshot.participants
        for queue in participant.queues
        if machine in (None, queue.machine) and owner in (None, participant.participant)
    ]


def _row(snapshot: Snapshot, owner: ParticipantReport, queue: QueueReport) -> QueueRow:
    return QueueRow(
        key=f"{owner.participant}.{queue.number}",
        why=snapshot.why_queue.get((owner.participant, queue.number), ""),
        opens=Subject("queue", owner.participant, number=queue.number),
        name=queue_name(queue),
        process=snapshot.names[owner.participant],
        machine=machine_name(queue.machine),
        queue=queue,
    )
