"""The JSON object that the page shows, from two inspections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorbus._inspection.report import Inspection, ParticipantReport
from tensorbus._up.running import PipelineReport, why_unwell
from tensorbus._view.graph import graph
from tensorbus._view.traffic import Traffic, traffic


def summary(
    before: Inspection | None, after: Inspection, pipelines: Iterable[PipelineReport] = ()
) -> dict[str, Any]:
    """The page's content except for its tiles: graph, topics, processes, held memory, pipelines."""
    flows = traffic(before, after)
    return {
        "domain": after.domain,
        "time": after.time_ns / 1e9,
        "graph": graph(after, flows),
        "topics": _topics(after, flows),
        "processes": [_process(participant) for participant in after.participants],
        "held": _held(after),
        "pipelines": [row for pipeline in pipelines for row in _pipeline(pipeline)],
    }


def _topics(inspection: Inspection, flows: Traffic) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for topic in sorted(
        {topic for _, topic in flows.sent} | {topic for topic, _ in flows.received}
    ):
        found[topic] = {
            "name": topic,
            "type": "",
            "publishers": 0,
            "subscribers": 0,
            "hz": None,
            "bytes": 0.0,
            "dropped": 0.0,
            "blocked": False,
        }
    for (_, topic), flow in flows.sent.items():
        row = found[topic]
        if flow.hz is not None:
            row["hz"] = (row["hz"] or 0.0) + flow.hz
        row["bytes"] += flow.bytes_per_second
        row["dropped"] += flow.dropped_per_second
    answered = {each.participant for each in inspection.participants if not each.error}
    for (topic, (name, _)), flow in flows.received.items():
        found[topic]["blocked"] |= flow.blocked
        if name not in answered:  # known only from its publishers
            found[topic]["subscribers"] += 1
    for participant in inspection.participants:
        for publisher in participant.publishers:
            row = found[publisher.topic]
            row["type"] = row["type"] or publisher.type.partition("\n")[0]
            row["publishers"] += 1
        for subscriber in participant.subscribers:
            found[subscriber.topic]["subscribers"] += 1
        if participant.error:
            for topic in participant.topics:
                found[topic]["publishers"] += 1
    return list(found.values())


def _process(participant: ParticipantReport) -> dict[str, Any]:
    memory = participant.memory
    return {
        "id": participant.participant,
        "pid": participant.pid,
        "process": participant.process,
        "nodes": list(participant.nodes),
        "version": participant.version,
        "error": participant.error,
        "age": participant.age_ns / 1e9,
        "used": memory.used_bytes if memory else 0,
        "reserved": memory.reserved_bytes if memory else 0,
        "budget": memory.budget_bytes if memory else 0,
        "lent": sum(lent.bytes for lent in memory.lent) if memory else 0,
        "borrowed": sum(borrowed.bytes for borrowed in memory.borrowed) if memory else 0,
        "devices": {device.device: device.used_bytes for device in memory.devices}
        if memory
        else {},
    }


def _held(inspection: Inspection) -> list[dict[str, Any]]:
    """Owners and holders of memory, the most bytes first."""
    names = {participant.participant: participant for participant in inspection.participants}
    found: list[dict[str, Any]] = []
    for owner in inspection.participants:
        for lent in owner.memory.lent if owner.memory else ():
            peer = names.get(lent.peer.participant)
            process = lent.peer.process or (peer.process if peer else "")
            found.append(
                {
                    "owner": f"{owner.process} {owner.pid}",
                    "holder": f"{process} {lent.peer.pid}",
                    "leases": lent.leases,
                    "bytes": lent.bytes,
                    "oldest": lent.oldest_ns / 1e9,
                }
            )
    return sorted(found, key=lambda row: -row["bytes"])


def _pipeline(pipeline: PipelineReport) -> list[dict[str, Any]]:
    """A row for each process; a row without a state for a pipeline that did not reply."""
    if pipeline.error:
        row = {"process": pipeline.name, "state": "", "pid": 0, "restarts": 0}
        return [{**row, "why": pipeline.error, "unwell": True}]
    return [
        {
            "process": f"{pipeline.name}: {process.process}",
            "state": process.state,
            "pid": process.pid,
            "restarts": process.restarts,
            "why": why_unwell(process) or process.reason,
            "unwell": bool(why_unwell(process)),
        }
        for process in pipeline.processes
    ]
