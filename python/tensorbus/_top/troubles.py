"""Who holds others up, and how: what tables show in red."""

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

# A publisher that waits for less long is only kept in step with its subscribers.
_LONG_NS = 500_000_000
# Of the budget: then loans begin to wait for what readers hold.
_SCARCE = 0.9


@dataclass(frozen=True)
class Trouble:
    """Something that holds others up; `str` is the sentence."""

    subject: str
    """Which process or queue, in words."""
    words: str
    """What it does, without the subject."""
    process: str = ""
    """The participant; "" for a queue."""
    topic: str = ""
    """"": it concerns no topic."""
    machine: str = ""
    """Of the topic's publishers."""
    queue: tuple[str, int] | None = None
    """Participant and number."""
    for_ns: int = 0
    """For how long, as far as is known."""

    def __str__(self) -> str:
        return f"{self.subject} {self.words}"


def find_troubles(inspection: Inspection) -> list[Trouble]:
    """First the processes that do not answer, then what has lasted longest."""
    named = {
        participant.participant: process_name(participant)
        for participant in inspection.participants
    }
    unheard = [silent(it) for it in inspection.participants if it.error]
    others = [trouble for it in inspection.participants for trouble in _troubles_of(it, named)]
    return [*unheard, *sorted(others, key=lambda trouble: -trouble.for_ns)]


def process_name(participant: ParticipantReport) -> str:
    """As people call it, with its pid: by its nodes, else by its program."""
    return _with_pid(", ".join(participant.nodes) or participant.process, participant.pid)


def peer_name(peer: PeerName, named: dict[str, str], node: str = "") -> str:
    """A process at the other end of a connection, which may say nothing of itself.

    Args:
        named: the names of the participants that are known.
    """
    if node:
        return _with_pid(node, peer.pid)
    return named.get(peer.participant) or _with_pid(peer.process, peer.pid)


def _with_pid(name: str, pid: int) -> str:
    name = shown(name) or "a process"
    return f"{name} (pid {pid})" if pid else name


def silent(participant: ParticipantReport) -> Trouble:
    """Of a participant that did not answer."""
    words = f"cannot be asked: {shown(participant.error)}"
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
    yield from _most_of_memory(participant, named)


def trouble_of(link: LinkReport, publisher: PublisherReport, owner: ParticipantReport) -> str:
    """What a subscriber does to its publisher; "" if nothing."""
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
    """Has the publisher waited so long for the subscriber that it is shown in red?"""
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
    """Its name, or that of the service whose requests it carries, or its number."""
    return shown(queue.name or queue.service) or f"#{queue.number}"


def _most_of_memory(owner: ParticipantReport, named: dict[str, str]) -> Iterator[Trouble]:
    """The process that holds most of a budget which is nearly used up."""
    memory = owner.memory
    if memory is None or not memory.lent or not memory.budget_bytes:
        return
    most = max(memory.lent, key=lambda lent: lent.bytes)
    scarce = memory.used_bytes >= _SCARCE * memory.budget_bytes
    if scarce and most.bytes >= memory.budget_bytes / 2:
        amount = f"{bytes_text(most.bytes)} of the {bytes_text(memory.budget_bytes)}"
        words = f"holds {amount} that {process_name(owner)} may use"
        yield Trouble(
            peer_name(most.peer, named), words, most.peer.participant, for_ns=most.oldest_ns
        )
