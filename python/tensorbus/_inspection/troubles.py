"""Troubles: processes and queues that slow others down. Tables show them in red."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorbus._inspection.report import (
    Inspection,
    LinkReport,
    ParticipantReport,
    PeerName,
    PublisherReport,
    QueueReport,
)
from tensorbus._inspection.units import bytes_text, part_text, shown, time_text

# A shorter wait is no trouble: the publisher only follows the pace of its subscribers.
_LONG_NS = 500_000_000
# Used share of the budget from which loans begin to wait for memory that readers hold.
_SCARCE = 0.9


@dataclass(frozen=True)
class Trouble:
    """A process or queue that slows other processes down; `str` returns the sentence."""

    subject: str
    """The process or queue."""
    words: str
    """The sentence without its subject."""
    process: str = ""
    """The participant's id; "": the subject is a queue."""
    topic: str = ""
    """The topic; "": none."""
    machine: str = ""
    """The machine of the topic's publishers."""
    queue: tuple[str, int] | None = None
    """Participant and number of a queue."""
    for_ns: int = 0
    """Its duration; 0: unknown."""

    def __str__(self) -> str:
        return f"{self.subject} {self.words}"


def find_troubles(inspection: Inspection) -> list[Trouble]:
    """All troubles: first processes that did not reply, then the others, the longest first."""
    named = {
        participant.participant: process_name(participant)
        for participant in inspection.participants
    }
    unanswered = [silent(it) for it in inspection.participants if it.error]
    others = [trouble for it in inspection.participants for trouble in _troubles_of(it, named)]
    return [*unanswered, *sorted(others, key=lambda trouble: -trouble.for_ns)]


def process_name(participant: ParticipantReport) -> str:
    """The name of a process in tables: its nodes, else its program, with the pid."""
    return _with_pid(", ".join(participant.nodes) or participant.process, participant.pid)


def peer_name(peer: PeerName, named: dict[str, str], node: str = "") -> str:
    """The name in tables of a process at the other end of a connection.

    Args:
        peer: the process, which need not be a known participant.
        named: the names of known participants.
        node: the name of its node, if known.
    """
    if node:
        return _with_pid(node, peer.pid)
    return named.get(peer.participant) or _with_pid(peer.process, peer.pid)


def _with_pid(name: str, pid: int) -> str:
    name = shown(name) or "a process"
    return f"{name} (pid {pid})" if pid else name


def silent(participant: ParticipantReport) -> Trouble:
    """The trouble of a participant that did not reply."""
    words = f"cannot be inspected: {shown(participant.error)}"
    return Trouble(process_name(participant), words, participant.participant)


def _troubles_of(participant: ParticipantReport, named: dict[str, str]) -> Iterator[Trouble]:
    for publisher in participant.publishers:
        for link in publisher.links:
            words = trouble_of(link, publisher, participant)
            if words:
                subject = peer_name(link.subscriber, named, link.node)
                yield Trouble(
                    subject,
                    words,
                    link.subscriber.participant,
                    publisher.topic,
                    publisher.machine,
                    for_ns=link.blocked_ns,
                )
    for queue in participant.queues:
        if any(client.waiting_puts for client in queue.clients):
            yield _full(queue, participant)
    yield from _held_budget(participant, named)


def trouble_of(link: LinkReport, publisher: PublisherReport, owner: ParticipantReport) -> str:
    """Why a subscriber slows its publisher down; "": it does not."""
    topic = shown(publisher.topic)
    if link.cut_off:
        return f"was cut off from {topic} and still holds {_samples(link.held + link.waiting)}"
    if is_blocked(link):
        waits = shown(publisher.node or owner.process) or "its publisher"
        return f"has had no room on {topic} for {time_text(link.blocked_ns)}: {waits} waits"
    if 0 < link.max_held <= link.held:
        return f"holds {link.held} of {_samples(link.max_held)} of {topic}"
    return ""


def is_blocked(link: LinkReport) -> bool:
    """True if the publisher has waited long enough for the subscriber: tables show it in red."""
    return link.blocked_ns >= _LONG_NS


def _samples(count: int) -> str:
    return f"{count} sample" if count == 1 else f"{count} samples"


def _full(queue: QueueReport, owner: ParticipantReport) -> Trouble:
    waiting = sum(client.waiting_puts for client in queue.clients)
    puts = "1 put waits" if waiting == 1 else f"{waiting} puts wait"
    items = part_text(queue.stats.items, queue.maxsize)
    return Trouble(
        f"queue {queue_name(queue)}",
        f"is full: {items} items, {puts}",
        queue=(owner.participant, queue.number),
    )


def queue_name(queue: QueueReport) -> str:
    """The queue's name, or the name of its service, or its number."""
    return shown(queue.name or queue.service) or f"#{queue.number}"


def _held_budget(owner: ParticipantReport, named: dict[str, str]) -> Iterator[Trouble]:
    """The trouble of a process that holds at least half of a budget that is nearly used up."""
    memory = owner.memory
    if memory is None or not memory.lent or not memory.budget_bytes:
        return
    lent = max(memory.lent, key=lambda lent: lent.bytes)
    scarce = memory.used_bytes >= _SCARCE * memory.budget_bytes
    if scarce and lent.bytes >= memory.budget_bytes / 2:
        amount = f"{bytes_text(lent.bytes)} of the {bytes_text(memory.budget_bytes)}"
        words = f"holds {amount} that {process_name(owner)} may use"
        yield Trouble(
            peer_name(lent.peer, named), words, lent.peer.participant, for_ns=lent.oldest_ns
        )
