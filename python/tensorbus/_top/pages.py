"""The pages of the whole domain, and of one topic, process, queue or machine."""

from __future__ import annotations

from collections.abc import Callable

from tensorbus._inspection.report import MemoryReport, ParticipantReport
from tensorbus._inspection.troubles import queue_name
from tensorbus._inspection.units import bytes_text, shown, time_text
from tensorbus._top.columns import Page, Subject
from tensorbus._top.detail_tables import (
    borrowed_table,
    clients_table,
    lent_table,
    links_table,
    publishers_table,
    subscribers_table,
)
from tensorbus._top.domain_tables import (
    machine_name,
    machines_table,
    processes_table,
    queues_table,
    topics_table,
    type_names,
)
from tensorbus._top.pipelines import pipelines_table
from tensorbus._top.snapshot import Snapshot


def page_of(snapshot: Snapshot, subject: Subject) -> Page | None:
    """The page of a subject; None if the subject does not exist."""
    return _PAGES[subject.kind](snapshot, subject)


def domain_page(snapshot: Snapshot) -> Page:
    """The first page."""
    return Page(
        f"domain {shown(snapshot.after.inspection.domain)}",
        "",
        (
            topics_table(snapshot),
            processes_table(snapshot),
            queues_table(snapshot),
            machines_table(snapshot),
            pipelines_table(snapshot.after.pipelines, snapshot.participants),
        ),
    )


def _topic_page(snapshot: Snapshot, subject: Subject) -> Page | None:
    publishers = [
        (owner, publisher)
        for owner in snapshot.participants
        for publisher in owner.publishers
        if publisher.topic == subject.name
    ]
    subscribers = [
        (owner, subscriber)
        for owner in snapshot.participants
        for subscriber in owner.subscribers
        if subscriber.topic == subject.name
    ]
    silent = [
        snapshot.why_silent[owner.participant]
        for owner in snapshot.participants
        if owner.error and subject.name in owner.topics
    ]
    if not publishers and not subscribers and not silent:
        return None
    types = type_names(publisher.type for _, publisher in publishers)
    return Page(
        f"topic {shown(subject.name)}",
        "; ".join([f"of {types or 'any type'}", *silent]),
        (
            links_table(snapshot, publishers),
            publishers_table(snapshot, publishers, "process"),
            subscribers_table(snapshot, subscribers, "process"),
        ),
    )


def _process_page(snapshot: Snapshot, subject: Subject) -> Page | None:
    it = _participant(snapshot, subject.name)
    if it is None:
        return None
    return Page(
        snapshot.names[it.participant],
        shown(it.error) or _about(it),
        (
            publishers_table(snapshot, [(it, each) for each in it.publishers], "topic"),
            subscribers_table(snapshot, [(it, each) for each in it.subscribers], "topic"),
            lent_table(snapshot, it),
            borrowed_table(snapshot, it),
            queues_table(snapshot, server=it.participant),
        ),
    )


def _queue_page(snapshot: Snapshot, subject: Subject) -> Page | None:
    owner = _participant(snapshot, subject.name)
    for queue in owner.queues if owner else ():
        if queue.number == subject.number:
            stats = queue.stats
            about = (
                f"of {snapshot.names[subject.name]}; {stats.items} items, "
                f"{bytes_text(stats.bytes)}; {stats.unfinished} not done, {stats.lost} lost"
            )
            return Page(f"queue {queue_name(queue)}", about, (clients_table(snapshot, queue),))
    return None


def _machine_page(snapshot: Snapshot, subject: Subject) -> Page | None:
    tables = topics_table(snapshot, subject.name), queues_table(snapshot, subject.name)
    return Page(f"machine {machine_name(subject.name)}", "", tables)


_PAGES: dict[str, Callable[[Snapshot, Subject], Page | None]] = {
    "topic": _topic_page,
    "process": _process_page,
    "queue": _queue_page,
    "machine": _machine_page,
}


def _participant(snapshot: Snapshot, name: str) -> ParticipantReport | None:
    return next((it for it in snapshot.participants if it.participant == name), None)


def _about(it: ParticipantReport) -> str:
    """A process's program, version, age and memory."""
    parts = [f"{shown(it.process)} with Tensorbus {shown(it.version)} for {time_text(it.age_ns)}"]
    parts += _kinds(it.memory) if it.memory else []
    if it.shares:
        parts.append(f"{bytes_text(sum(share.bytes for share in it.shares))} of shares")
    return "; ".join(parts)


def _kinds(memory: MemoryReport) -> list[str]:
    """The amounts of each kind of memory that are not 0."""
    budget = f" of {bytes_text(memory.budget_bytes)}" if memory.budget_bytes else ""
    kinds = {
        f"reserved{budget}": memory.reserved_bytes,
        "used": memory.used_bytes,
        "kept for children": memory.inherited_bytes,
        "written to": memory.private_bytes,
        "of files": memory.file_bytes,
    }
    kinds |= {f"on {shown(device.device)}": device.used_bytes for device in memory.devices}
    return [f"{bytes_text(count)} {kind}" for kind, count in kinds.items() if count]
