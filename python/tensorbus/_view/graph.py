"""The graph of a domain: processes and topics as boxes, and the flows between them."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Any

from tensorbus._inspection.report import Inspection, ParticipantReport
from tensorbus._view.layout import Edge, Layout, layout
from tensorbus._view.traffic import End, Flow, Traffic

_MERGE_FROM = 40
"""From this number of topics on, topics with the same publishers and subscribers share a box."""
_CHARACTER = 7.2  # pixels of the page's font, 12 px
_MAX_LABEL = 30  # characters of a label
_HEIGHT = {"process": 40.0, "topic": 28.0}


def graph(inspection: Inspection, flows: Traffic) -> dict[str, Any]:
    """Boxes with their positions, and edges with their flows, for the page."""
    groups = _groups(flows)
    boxes = {f"t {name}": _topic(name, topics) for name, topics in groups.items()}
    group_of = {topic: name for name, topics in groups.items() for topic in topics}
    known = {participant.participant: participant for participant in inspection.participants}
    merged: dict[Edge, list[Flow]] = defaultdict(list)
    for (end, topic), flow in flows.sent.items():
        merged[_box_of(end, boxes, known), f"t {group_of[topic]}"].append(flow)
    for (topic, end), flow in flows.received.items():
        merged[f"t {group_of[topic]}", _box_of(end, boxes, known)].append(flow)
    sizes = tuple((name, _width(box), _HEIGHT[box["kind"]]) for name, box in boxes.items())
    placed = _layout(tuple(sorted(sizes)), tuple(sorted(merged)))
    return {
        "width": placed.width,
        "height": placed.height,
        "boxes": [
            box | {"id": name, **vars(placed.boxes[name])} for name, box in sorted(boxes.items())
        ],
        "edges": [
            _flow(found) | {"from": edge[0], "to": edge[1], "points": placed.edges[edge]}
            for edge, found in sorted(merged.items())
        ],
    }


def _groups(flows: Traffic) -> dict[str, list[str]]:
    """The topics of each box, by the name of its first topic."""
    ends: dict[str, set[tuple[str, End]]] = defaultdict(set)
    for end, topic in flows.sent:
        ends[topic].add(("sent", end))
    for topic, end in flows.received:
        ends[topic].add(("received", end))
    if len(ends) < _MERGE_FROM:
        return {topic: [topic] for topic in ends}
    alike: dict[frozenset[tuple[str, End]], list[str]] = defaultdict(list)
    for topic in sorted(ends):
        alike[frozenset(ends[topic])].append(topic)
    return {topics[0]: topics for topics in alike.values()}


def _topic(name: str, topics: list[str]) -> dict[str, Any]:
    label = name
    if len(topics) > 1:
        label = f"{_common(topics)}… ({len(topics)} topics)"
    return {"kind": "topic", "label": _short(label), "title": "\n".join(topics), "topics": topics}


def _common(names: list[str]) -> str:
    """The common prefix of sorted names: the common prefix of the first and the last name."""
    pairs = enumerate(zip(names[0], names[-1], strict=False))
    return names[0][: next((at for at, (one, other) in pairs if one != other), None)]


def _box_of(end: End, boxes: dict[str, Any], known: dict[str, ParticipantReport]) -> str:
    """The id of the box of a process or node; the box is made on first use."""
    participant, node = end
    name = f"p {participant} {node}"
    if name not in boxes:
        report = known.get(participant)
        process = report.process if report else "not known"
        pid = f"pid {report.pid}" if report else participant[:12]
        boxes[name] = {
            "kind": "process",
            "label": _short(node or process or "process"),
            "below": pid,
            "title": f"{process}, {pid}" + (f"\n{report.error}" if report else ""),
            "error": bool(report and report.error),
        }
    return name


def _flow(flows: list[Flow]) -> dict[str, Any]:
    known = [flow.hz for flow in flows if flow.hz is not None]
    return {
        "hz": sum(known) if known else None,
        "bytes": sum(flow.bytes_per_second for flow in flows),
        "dropped": sum(flow.dropped_per_second for flow in flows),
        "blocked": any(flow.blocked for flow in flows),
    }


def _width(box: dict[str, Any]) -> float:
    return 28 + _CHARACTER * max(len(box["label"]), len(box.get("below", "")))


def _short(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 1]}…"


@lru_cache(maxsize=4)  # the layout stays the same while only rates change
def _layout(sizes: tuple[tuple[str, float, float], ...], edges: tuple[Edge, ...]) -> Layout:
    return layout({name: (width, height) for name, width, height in sizes}, edges)
