"""The tables of memory by peer, and of the processes that use a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorbus._inspection.report import (
    BorrowedReport,
    LentReport,
    ParticipantReport,
    PeerName,
    QueueReport,
)
from tensorbus._inspection.units import bytes_text, time_text
from tensorbus._top.columns import Column, Columns, Row, Subject, Table, number, words
from tensorbus._top.snapshot import Snapshot


@dataclass(frozen=True)
class MemoryRow(Row):
    """Memory of one process that another one has."""

    process: str
    leases: int
    bytes: int
    segments: int
    oldest_ns: int


_PROCESS: Column[Any] = words("process", lambda row: row.process, width=34)
_LENT: Columns[MemoryRow] = (
    _PROCESS,
    number("leases", lambda row: row.leases),
    number("bytes", lambda row: row.bytes, bytes_text),
    number("oldest", lambda row: row.oldest_ns, time_text),
)
_BORROWED: Columns[MemoryRow] = (
    _PROCESS,
    number("leases", lambda row: row.leases),
    number("mapped", lambda row: row.bytes, bytes_text),
    number("segments", lambda row: row.segments),
)


@dataclass(frozen=True)
class ClientRow(Row):
    """A process that uses a queue."""

    process: str
    in_hand: int
    puts: int
    gets: int


_CLIENTS: Columns[ClientRow] = (
    _PROCESS,
    number("in hand", lambda row: row.in_hand),
    number("puts wait", lambda row: row.puts),
    number("gets wait", lambda row: row.gets),
)


def lent_table(snapshot: Snapshot, owner: ParticipantReport) -> Table[MemoryRow]:
    """The memory of a process that others have."""
    lent = owner.memory.lent if owner.memory else ()
    return Table("Lent to", _LENT, lambda: _rows(snapshot, lent))


def borrowed_table(snapshot: Snapshot, borrower: ParticipantReport) -> Table[MemoryRow]:
    """The memory of others that is mapped in a process."""
    borrowed = borrower.memory.borrowed if borrower.memory else ()
    return Table("Has of", _BORROWED, lambda: _rows(snapshot, borrowed))


def clients_table(snapshot: Snapshot, queue: QueueReport) -> Table[ClientRow]:
    """The processes that put into a queue or get from it."""
    return Table(
        "Clients",
        _CLIENTS,
        lambda: [
            ClientRow(
                key=_key(place, it.client),
                why=snapshot.why_process.get(it.client.participant, ""),
                opens=Subject("process", it.client.participant),
                process=snapshot.peer(it.client),
                in_hand=it.in_hand,
                puts=it.waiting_puts,
                gets=it.waiting_gets,
            )
            for place, it in enumerate(queue.clients)
        ],
    )


def _rows(snapshot: Snapshot, found: Sequence[LentReport | BorrowedReport]) -> list[MemoryRow]:
    return [
        MemoryRow(
            key=_key(place, it.peer),
            why=snapshot.why_process.get(it.peer.participant, ""),
            opens=Subject("process", it.peer.participant),
            process=snapshot.peer(it.peer),
            leases=it.leases,
            bytes=it.bytes,
            segments=it.segments if isinstance(it, BorrowedReport) else 0,
            oldest_ns=it.oldest_ns if isinstance(it, LentReport) else 0,
        )
        for place, it in enumerate(found)
    ]


def _key(place: int, peer: PeerName) -> str:
    return peer.participant or f"{place}, which is not known"
