"""The lines that `--json` prints: each is an object of a kind that is declared here.

`docs/site/command_line.py` writes the table of the kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any, NamedTuple

from tensorbus._base.text import json_text
from tensorbus._cli.values import json_of
from tensorbus._inspection.report import (
    LentReport,
    MemoryReport,
    ParticipantReport,
    PublisherReport,
    QueueReport,
    SubscriberReport,
)
from tensorbus._recording.player import PlayerStats
from tensorbus._recording.recorder import RecorderStats
from tensorbus._recording.recording import RecordedTopic
from tensorbus._topics.listing import PublisherInfo
from tensorbus._up.events import ExpectationChange, LogLine, Notice, StateChange
from tensorbus._up.status import ProcessStatus


class Kind(NamedTuple):
    """A kind of lines."""

    commands: tuple[str, ...]
    """The commands that print it."""
    fields: tuple[str, ...]
    about: str


def _names(report: Any, *without: str) -> tuple[str, ...]:
    """The names of the fields of a dataclass."""
    return tuple(field.name for field in fields_of(report) if field.name not in without)


_PROCESS = ("process", "pid")
_QUEUE = _names(QueueReport, "name", "service")
_PLAYER = ("player status", "player pause", "player resume", "player step", "player rate")
_COPIES = ("recording cut", "recording merge")
_MADE = ("recording convert", "recording export", "recording import")

KINDS: dict[str, Kind] = {
    "topic": Kind(
        ("topic list", "topic info"),
        ("topic", "types", "publishers", "subscribers", "machines"),
        "a topic, and the numbers of its publishers and subscribers",
    ),
    "publisher": Kind(
        ("topic info",),
        (*_PROCESS, *_names(PublisherReport)),
        "a publisher: `PublisherReport`",
    ),
    "silent_publisher": Kind(
        ("topic info",),
        _names(PublisherInfo),
        "a publisher of a process that did not reply: `PublisherInfo`",
    ),
    "subscriber": Kind(
        ("topic info",),
        (*_PROCESS, *_names(SubscriberReport)),
        "a subscriber: `SubscriberReport`",
    ),
    "sample": Kind(
        ("topic echo",),
        ("topic", "sequence", "timestamp_ns", "publisher", "machine", "data"),
        "a sample; a tensor in `data` is an object with dtype, shape, device and figures",
    ),
    "rate": Kind(
        ("topic hz", "topic bw"),
        (
            "topic",
            "time_ns",
            "hz",
            "bytes_per_second",
            "dropped_per_second",
            "publishers",
            "machines",
        ),
        "the rates of a topic in a window that ended at `time_ns`",
    ),
    "delay": Kind(
        ("topic delay",),
        (
            "topic",
            "time_ns",
            "machine",
            "samples",
            "min_ns",
            "mean_ns",
            "max_ns",
            "std_ns",
            "clock_uncertainty_ns",
        ),
        "the delays of the samples of one machine in a window that ended at `time_ns`",
    ),
    "published": Kind(
        ("topic pub",),
        ("topic", "sent", "delivered"),
        "how many samples were published, and how many were put into queues of subscribers",
    ),
    "node": Kind(
        ("node list", "node info"),
        ("node", *_PROCESS, "machine", "publishes", "subscribes"),
        "a node and its topics",
    ),
    "parameter": Kind(
        ("param list", "param get", "param set"),
        ("node", "parameter", "value", "default", "help", "source", "settable"),
        "a parameter of a node",
    ),
    "queue": Kind(
        ("queue list", "queue info"),
        ("queue", *_PROCESS, *_QUEUE),
        "a queue: `QueueReport`; `queue` is its name",
    ),
    "kept": Kind(
        ("queue keep",),
        ("queue", "event", "items"),
        'a kept queue: the event is "kept", "renewed" or "closed", with the items left in it',
    ),
    "service": Kind(
        ("service list",),
        ("service", *_PROCESS, *_QUEUE),
        "a service: the `QueueReport` of the queue of its requests",
    ),
    "reply": Kind(
        ("service call",), ("service", "data"), "the reply of a service; `data` is as in a sample"
    ),
    "memory": Kind(
        ("memory",),
        (*_PROCESS, *_names(MemoryReport, "lent")),
        "the memory of a process: `MemoryReport`",
    ),
    "lent": Kind(
        ("memory",),
        (*_PROCESS, *_names(LentReport)),
        "memory of a process that `peer` holds: `LentReport`",
    ),
    "domain": Kind(("inspect",), ("domain", "time_ns"), "the domain, before its processes"),
    "process": Kind(
        ("inspect",), _names(ParticipantReport), "all of a process: `ParticipantReport`"
    ),
    "recorder": Kind(
        ("record", "recorder status", "recorder snapshot"),
        ("file", *_names(RecorderStats)),
        "a recorder, or its new snapshot: `RecorderStats`",
    ),
    "player": Kind(("play", *_PLAYER), ("file", *_names(PlayerStats)), "a player: `PlayerStats`"),
    "recording": Kind(
        ("recording info",),
        (
            "file",
            "bytes",
            "start_ns",
            "end_ns",
            "messages",
            "lost",
            "recovered",
            "damage",
            "about",
        ),
        "a recording: the properties of `Recording`",
    ),
    "recorded_topic": Kind(
        ("recording info",),
        ("file", "topic", *_names(RecordedTopic, "name")),
        "a topic of a recording: `RecordedTopic`",
    ),
    "written": Kind(
        (*_COPIES, *_MADE),
        ("file", "messages", "files", "bytes"),
        "a new file, or a folder of files; `bytes` of the messages, null if they were converted",
    ),
    "hop": Kind(
        ("trace",),
        ("hop", "process", "samples", "p50_ns", "p99_ns"),
        "the times between two events of the samples of a topic, in one process",
    ),
    "path": Kind(
        ("trace",),
        ("path", "process", "samples", "p50_ns", "p99_ns"),
        "the times from the first topic of a chain of samples to the last",
    ),
    "log": Kind(
        ("up", "pipeline logs"), _names(LogLine), "a line that a process of a pipeline has printed"
    ),
    "process_state": Kind(("up",), _names(StateChange), "a process has another state"),
    "expectation": Kind(
        ("up",), _names(ExpectationChange), "an expectation is not met any more, or is met again"
    ),
    "notice": Kind(("up",), _names(Notice), "a message of `tensorbus up` itself"),
    "declared_process": Kind(
        ("up",),
        ("process", "command", "after", "provides", "expectations"),
        "a process in the file of a pipeline, printed by `--check`",
    ),
    "process_status": Kind(
        ("pipeline status", "pipeline restart", "pipeline stop"),
        _names(ProcessStatus),
        "a process of a pipeline: `ProcessStatus`",
    ),
    "bridge": Kind(
        ("bridge",),
        ("machine", "bridge", "publishers", "peers", "gone"),
        "the bridge of this machine, and the machines to which it is connected",
    ),
    "doctor": Kind(
        ("doctor",), ("versions", "host", "cuda"), "what this machine can do: `doctor.Report`"
    ),
}


def print_record(kind: str, values: Mapping[str, Any]) -> None:
    """Prints one line of JSON, and flushes: the reader may be a program that waits.

    Args:
        kind: one of `KINDS`.
        values: the kind's fields; others are left out.

    Raises:
        KeyError: a field is missing.
    """
    record = {"kind": kind, **{name: values[name] for name in KINDS[kind].fields}}
    print(json_text(record), flush=True)


def known(kind: str, reply: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a kind in a reply of another process, which may have another version."""
    return {name: json_of(reply.get(name)) for name in KINDS[kind].fields}
