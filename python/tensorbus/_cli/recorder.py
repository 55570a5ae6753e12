"""``tensorbus recorder``: controls a running `tensorbus record`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from tensorbus._cli.asking import ask
from tensorbus._cli.options import Domain, Json, Timeout, group
from tensorbus._cli.output import print_pairs
from tensorbus._cli.records import known, print_record
from tensorbus._inspection.units import bytes_text

NAME = "recorder"  # of the service, by default
REQUESTS = ("status", "snapshot")

app = group("Show the status of a running `tensorbus record`, or make it write a snapshot.")

_ANSWER = 60.0  # seconds: the reply is sent when the snapshot is written

Name = Annotated[str, typer.Option(help="The --name of the recorder.", metavar="NAME")]

_ask = partial(ask, "tensorbus record", "messages")


@app.command("snapshot", epilog="Example: tensorbus recorder snapshot")
def snapshot(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Write the messages that `tensorbus record --snapshot` keeps in memory to a new file."""
    reply = _ask({"do": "snapshot"}, name, domain, timeout)
    if as_json:
        return print_record("recorder", known("recorder", reply))
    print(reply.get("file"))


@app.command("status", epilog="Example: tensorbus recorder status --json")
def status(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Show how many messages and bytes were written, and how many messages were lost."""
    reply = _ask({"do": "status"}, name, domain, timeout)
    if as_json:
        return print_record("recorder", known("recorder", reply))
    print_pairs(
        [
            ("messages", f"{reply['messages']} in {reply['files']} files, {reply['lost']} lost"),
            ("bytes", f"{bytes_text(reply['bytes'])}, {bytes_text(reply['buffered_bytes'])} held"),
            ("topics", reply["topics"]),
        ]
    )
