"""The lines that `--json` of the commands in Python prints: each is of a kind declared here.

`docs/site/command_line.py` writes the table of the kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any, NamedTuple

from tensorbus._base.text import json_text
from tensorbus._up.events import ExpectationChange, LogLine, Notice, StateChange
from tensorbus._up.status import ProcessStatus


class Kind(NamedTuple):
    """A kind of lines."""

    commands: tuple[str, ...]
    """The commands that print it."""
    fields: tuple[str, ...]
    about: str


def names_of(report: Any, *without: str) -> tuple[str, ...]:
    """The names of the fields of a dataclass."""
    return tuple(field.name for field in fields_of(report) if field.name not in without)


_COPIES = ("recording cut", "recording merge")
_MADE = ("recording convert", "recording export", "recording import")

KINDS: dict[str, Kind] = {
    "published": Kind(
        ("topic pub",),
        ("topic", "sent", "delivered"),
        "how many samples were published, and how many were put into queues of subscribers",
    ),
    "kept": Kind(
        ("queue keep",),
        ("queue", "event", "items"),
        'a kept queue: the event is "kept", "renewed" or "closed", with the items left in it',
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
        ("up", "pipeline logs"),
        names_of(LogLine),
        "a line that a process of a pipeline has printed",
    ),
    "process_state": Kind(("up",), names_of(StateChange), "a process has another state"),
    "expectation": Kind(
        ("up",), names_of(ExpectationChange), "an expectation is not met any more, or is met again"
    ),
    "notice": Kind(("up",), names_of(Notice), "a message of `tensorbus up` itself"),
    "declared_process": Kind(
        ("up",),
        ("process", "command", "after", "provides", "expectations"),
        "a process in the file of a pipeline, printed by `--check`",
    ),
    "process_status": Kind(
        ("pipeline status", "pipeline restart", "pipeline stop"),
        names_of(ProcessStatus),
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
