"""Why an expectation is not met, from an inspection and the states of the pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tensorbus._inspection.report import Inspection, LinkReport, ParticipantReport
from tensorbus._inspection.troubles import Trouble, find_troubles, peer_name, process_name, silent
from tensorbus._inspection.units import bytes_text, shown, time_text
from tensorbus._up.expectation import Expectation
from tensorbus._up.measures import publishers_of


def with_names(inspection: Inspection, names: Mapping[int, str]) -> Inspection:
    """The inspection, in which the processes of a pipeline have their names as nodes.

    Args:
        names: by the pid of the process, which leads a session.
    """
    return replace(
        inspection,
        participants=tuple(
            replace(each, nodes=(name,)) if (name := names.get(_session(each.pid))) else each
            for each in inspection.participants
        ),
    )


def cause_of(
    expected: Expectation, inspection: Inspection, provider: str, value: float | None
) -> str:
    """The most likely reason, as a sentence.

    Args:
        expected: what is not met.
        inspection: the last one, `with_names`.
        provider: what the process that provides the subject does, or what is wrong with another
            one for which the expecting process waits, as a sentence; "": neither.
        value: of the measure; None: the subject is not there.
    """
    for find in (_silent, _lagging, _holding, _queue, _troubles):
        if found := find(expected, inspection):
            return found
    if provider:
        return provider
    if value is None:
        return f"no process has {shown(expected.subject)}"
    return f"it is {value_text(expected, value)}, and no process is stopped or waits"


def value_text(expected: Expectation, value: float) -> str:
    """A value of the measure with its unit."""
    if expected.measure == "rate":
        return f"{value:.1f} Hz"
    if expected.measure == "age":
        return time_text(max(1, round(value * 1e9)))
    return f"{value:.0f}"


def _silent(expected: Expectation, inspection: Inspection) -> str:
    found = silent_source(expected, inspection)
    return str(silent(found)) if found else ""


def silent_source(expected: Expectation, inspection: Inspection) -> ParticipantReport | None:
    """A process that is stopped or hangs: it has the subject, or one that it is made from."""
    topic, seen = expected.subject, {expected.subject}
    topics = [topic] if expected.measure in ("rate", "age") else []
    while topics:
        topic = topics.pop()
        for each in inspection.participants:
            if each.error and topic in each.topics:
                return each
            if any(publisher.topic == topic for publisher in each.publishers):
                sources = {subscriber.topic for subscriber in each.subscribers} - seen
                seen |= sources
                topics += sorted(sources)
    return None


def _lagging(expected: Expectation, inspection: Inspection) -> str:
    if expected.measure != "lag":
        return ""
    return _worst(expected, inspection, lambda link: link.waiting, _lag_text)


def _holding(expected: Expectation, inspection: Inspection) -> str:
    if expected.measure != "held":
        return ""
    return _worst(expected, inspection, lambda link: link.held, _held_text)


def _worst(
    expected: Expectation,
    inspection: Inspection,
    count: Callable[[LinkReport], int],
    text: Callable[[LinkReport], str],
) -> str:
    """The subscriber with the largest count, and whether its process is stopped."""
    links = [link for each in publishers_of(inspection, expected.subject) for link in each.links]
    worst = max(links, key=count, default=None)
    if worst is None:
        return ""
    known = {each.participant: each for each in inspection.participants}
    found = known.get(worst.subscriber.participant)
    if found is not None and found.error:
        return f"{silent(found)}; {text(worst)}"
    return f"{_name(worst, known)} {text(worst)}"


def _lag_text(link: LinkReport) -> str:
    return f"is slow: {link.waiting} samples wait for it"


def _held_text(link: LinkReport) -> str:
    oldest = f", the oldest for {time_text(link.oldest_held_ns)}" if link.oldest_held_ns else ""
    return f"holds {link.held} samples ({bytes_text(link.held_bytes)}){oldest}"


def _queue(expected: Expectation, inspection: Inspection) -> str:
    """Who has a queue's items, or that nobody takes them."""
    if expected.measure not in ("items", "requests"):
        return ""
    known = {each.participant: each for each in inspection.participants}
    for queue in (queue for each in inspection.participants for queue in each.queues):
        if expected.subject not in (f"queue:{queue.name}", f"service:{queue.service}"):
            continue
        takers = [each for each in queue.clients if each.in_hand or each.waiting_gets]
        stopped = [
            silent(found)
            for each in queue.clients
            if (found := known.get(each.client.participant)) and found.error
        ]
        items = f"{queue.stats.items} items wait"
        if stopped:
            return f"{stopped[0]}; {items}"
        if not takers:
            return f"{items}, and no process gets them"
        busiest = max(takers, key=lambda each: each.in_hand)
        name = peer_name(busiest.client, _names(known))
        return f"{items}; {name} is slow: it has {busiest.in_hand} items in hand"
    return ""


def _troubles(expected: Expectation, inspection: Inspection) -> str:
    """A process that slows the publishers of the topic, or of those that it is made from, down."""
    mine = [each for each in find_troubles(inspection) if _concerns(each, expected, inspection)]
    return str(mine[0]) if mine else ""


def _concerns(trouble: Trouble, expected: Expectation, inspection: Inspection) -> bool:
    if trouble.topic:
        return trouble.topic in {expected.subject, *_sources(expected.subject, inspection)}
    return trouble.queue is not None or bool(trouble.for_ns)


def _sources(topic: str, inspection: Inspection) -> Iterator[str]:
    """The topics to which the publishers of a topic subscribe."""
    for each in inspection.participants:
        if any(publisher.topic == topic for publisher in each.publishers):
            yield from (subscriber.topic for subscriber in each.subscribers)


def _name(link: LinkReport, known: Mapping[str, ParticipantReport]) -> str:
    return peer_name(link.subscriber, _names(known), link.node)


def _names(known: Mapping[str, ParticipantReport]) -> dict[str, str]:
    return {id: process_name(each) for id, each in known.items()}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid) if pid else 0
    except OSError:  # it has ended, or is in another PID namespace
        return 0
