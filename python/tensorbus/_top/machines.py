"""The table of machines: what bridges bring from each."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._inspection.units import bandwidth_text, rate_text, short
from tensorbus._top.columns import Columns, Row, Subject, Table, number, words
from tensorbus._top.snapshot import Snapshot, Total
from tensorbus._top.topics import machine_name


@dataclass(frozen=True)
class MachineRow(Row):
    """A machine: this one, or one of which there are mirrors here."""

    machine: str
    processes: str
    topics: int
    queues: int
    total: Total


COLUMNS: Columns[MachineRow] = (
    words("machine", lambda row: short(row.machine)),
    words("through", lambda row: row.processes, width=26),
    number("topics", lambda row: row.topics, width=7),
    number("queues", lambda row: row.queues, width=7),
    number("Hz", lambda row: row.total.hz, rate_text, width=8),
    number("bandwidth", lambda row: row.total.bytes_per_second, bandwidth_text, width=12),
    number("drops/s", lambda row: row.total.dropped_per_second, rate_text, width=8),
)


def machines_table(snapshot: Snapshot) -> Table[MachineRow]:
    return Table("Machines", COLUMNS, lambda: machine_rows(snapshot))


def machine_rows(snapshot: Snapshot) -> list[MachineRow]:
    """This machine, and those of mirrors."""
    names = {""}
    for participant in snapshot.participants:
        names.update(publisher.machine for publisher in participant.publishers)
        names.update(queue.machine for queue in participant.queues)
    return [_row(snapshot, machine) for machine in sorted(names)]


def _row(snapshot: Snapshot, machine: str) -> MachineRow:
    publishers = [
        (participant, publisher)
        for participant in snapshot.participants
        for publisher in participant.publishers
        if publisher.machine == machine
    ]
    queues = [
        (participant, queue)
        for participant in snapshot.participants
        for queue in participant.queues
        if queue.machine == machine
    ]
    bridges = {snapshot.names[owner.participant] for owner, _ in [*publishers, *queues]}
    return MachineRow(
        key=machine,
        why="",
        opens=Subject("machine", machine),
        machine=machine_name(machine),
        processes=", ".join(sorted(bridges)) if machine else f"{len(snapshot.names)} processes",
        topics=len({publisher.topic for _, publisher in publishers}),
        queues=len(queues),
        total=snapshot.total((owner.participant, each.number) for owner, each in publishers),
    )
