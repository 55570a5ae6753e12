"""The table of processes: what they use, and what they hold of each other."""

from __future__ import annotations

from dataclasses import dataclass

from tensorbus._inspection.report import LentReport, ParticipantReport
from tensorbus._inspection.units import bytes_text, percent_text, short, shown, time_text
from tensorbus._top.columns import Columns, Row, Subject, Table, number, reason, words
from tensorbus._top.snapshot import Snapshot


@dataclass(frozen=True)
class ProcessRow(Row):
    """A participant."""

    name: str
    """Of its nodes, else of its program."""
    pid: int
    program: str
    cpu: float | None
    """In percent of one processor."""
    rss: int | None
    used: int | None
    """Bytes of its own memory that are in use; None: it does not answer."""
    held: int
    """Bytes of others that it has."""
    lent: int | None
    """Bytes of its own that others have."""
    oldest_ns: int
    """Age of the oldest lease that it has of others."""


COLUMNS: Columns[ProcessRow] = (
    words("process", lambda row: short(row.name, 24)),
    number("pid", lambda row: row.pid, width=7),
    words("program", lambda row: row.program, width=12),
    number("CPU %", lambda row: row.cpu, percent_text, width=6),
    number("RSS", lambda row: row.rss, bytes_text),
    number("used", lambda row: row.used, bytes_text),
    number("lent", lambda row: row.lent, bytes_text),
    number("holds", lambda row: row.held, bytes_text),
    number("oldest", lambda row: row.oldest_ns, time_text),
    reason(),
)


def processes_table(snapshot: Snapshot) -> Table[ProcessRow]:
    return Table("Processes", COLUMNS, lambda: process_rows(snapshot))


def process_rows(snapshot: Snapshot) -> list[ProcessRow]:
    """Every participant, also those that do not answer: others know what these hold."""
    held: dict[str, list[LentReport]] = {}
    for participant in snapshot.participants:
        for lent in participant.memory.lent if participant.memory else ():
            held.setdefault(lent.peer.participant, []).append(lent)
    return [
        _row(snapshot, participant, held.get(participant.participant, []))
        for participant in snapshot.participants
    ]


def _row(snapshot: Snapshot, it: ParticipantReport, held: list[LentReport]) -> ProcessRow:
    usage = snapshot.after.usage.get(it.pid)
    return ProcessRow(
        key=it.participant,
        why=snapshot.why_process.get(it.participant, ""),
        opens=Subject("process", it.participant),
        name=shown(", ".join(it.nodes) or it.process) or "?",
        pid=it.pid,
        program=shown(it.process),
        cpu=snapshot.cpu(it.pid),
        rss=usage.rss_bytes if usage else None,
        used=it.memory.used_bytes if it.memory else None,
        held=sum(lent.bytes for lent in held),
        lent=sum(lent.bytes for lent in it.memory.lent) if it.memory else None,
        oldest_ns=max((lent.oldest_ns for lent in held), default=0),
    )
