"""The kinds of lines that `--json` of the commands in C++ prints, for the page of the command line.

`tests/python/cli/test_json.py` compares them with what the commands print.
"""

from __future__ import annotations

from tensorbus._cli.records import Kind, names_of
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

_PROCESS = ("process", "pid")
_QUEUE = names_of(QueueReport, "name", "service")
_PLAYER = ("player status", "player pause", "player resume", "player step", "player rate")

NATIVE_KINDS: dict[str, Kind] = {
    "topic": Kind(
        ("topic list", "topic info"),
        ("topic", "types", "publishers", "subscribers", "machines"),
        "a topic, and the numbers of its publishers and subscribers",
    ),
    "publisher": Kind(
        ("topic info",),
        (*_PROCESS, *names_of(PublisherReport)),
        "a publisher: `PublisherReport`",
    ),
    "silent_publisher": Kind(
        ("topic info",),
        names_of(PublisherInfo),
        "a publisher of a process that did not reply: `PublisherInfo`",
    ),
    "subscriber": Kind(
        ("topic info",),
        (*_PROCESS, *names_of(SubscriberReport)),
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
        (*_PROCESS, *names_of(MemoryReport, "lent")),
        "the memory of a process: `MemoryReport`",
    ),
    "lent": Kind(
        ("memory",),
        (*_PROCESS, *names_of(LentReport)),
        "memory of a process that `peer` holds: `LentReport`",
    ),
    "domain": Kind(("inspect",), ("domain", "time_ns"), "the domain, before its processes"),
    "process": Kind(
        ("inspect",), names_of(ParticipantReport), "all of a process: `ParticipantReport`"
    ),
    "recorder": Kind(
        ("record", "recorder status", "recorder snapshot"),
        ("file", *names_of(RecorderStats)),
        "a recorder, or its new snapshot: `RecorderStats`",
    ),
    "player": Kind(("play", *_PLAYER), ("file", *names_of(PlayerStats)), "a player: `PlayerStats`"),
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
        ("file", "topic", *names_of(RecordedTopic, "name")),
        "a topic of a recording: `RecordedTopic`",
    ),
}
