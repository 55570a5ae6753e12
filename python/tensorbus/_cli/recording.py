"""``tensorbus recording``."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tensorbus._cli.options import Json, group
from tensorbus._cli.output import print_json, print_pairs, print_table
from tensorbus._inspection.units import bytes_text, rate_text, shown
from tensorbus._recording.recording import RecordedTopic, Recording

app = group("Look at recordings.")

File = Annotated[str, typer.Argument(help="A file that `tensorbus record` has written.")]


@app.callback()
def recording() -> None:
    """Look at recordings."""


@app.command("info", epilog="Example: tensorbus recording info run.mcap")
def info(file: File, json: Json = False) -> None:
    """Show the topics of a recording, their types and rates, and what was lost."""
    found = Recording(file)
    if json:
        print_json(_as_json(found))
        return
    print_pairs(_pairs(found))
    print_table(
        ("topic", "type", ">messages", ">rate Hz", ">lost", ">publishers"),
        (_row(topic) for topic in found.topics.values()),
    )
    for trouble in (found.recovered, found.damage):
        if trouble:
            print(f"tensorbus: {shown(trouble)}", file=sys.stderr)


def _pairs(found: Recording) -> list[tuple[str, object]]:
    start = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.start_ns / 1e9))
    return [
        ("file", f"{found.path}, {bytes_text(found.file_bytes)}"),
        ("start", f"{start}, for {found.duration:.3f} s" if len(found) else "-"),
        ("messages", f"{len(found)}, {found.lost} lost"),
        ("recorder", f"tensorbus {found.about.get('version', '?')} on {_host(found)}"),
    ]


def _host(found: Recording) -> str:
    return found.about.get("host") or "?"


def _row(topic: RecordedTopic) -> tuple[object, ...]:
    types = ", ".join(definition.partition("\n")[0] for definition in topic.types)
    rate = rate_text(topic.rate if topic.messages > 1 else None)
    return topic.name, types or "-", topic.messages, rate, topic.lost, topic.publishers


def _as_json(found: Recording) -> dict[str, Any]:
    return {
        "file": found.path,
        "bytes": found.file_bytes,
        "start_ns": found.start_ns,
        "end_ns": found.end_ns,
        "messages": len(found),
        "lost": found.lost,
        "recovered": found.recovered,
        "damage": found.damage,
        "about": found.about,
        "topics": [asdict(topic) for topic in found.topics.values()],
    }
