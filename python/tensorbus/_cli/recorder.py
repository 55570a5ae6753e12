"""``tensorbus recorder``: telling a running `tensorbus record` to write a snapshot."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensorbus._cli.asking import asked
from tensorbus._cli.options import Domain, Json, Timeout, group
from tensorbus._cli.output import fail, print_json, print_pairs
from tensorbus._inspection.units import bytes_text

NAME = "recorder"  # of the service, by default
ASKED = ("status", "snapshot")

app = group("Ask a running `tensorbus record`, and have it write a snapshot.")

_ANSWER = 60.0  # seconds: a snapshot is written first

Name = Annotated[str, typer.Option(help="As its --name says.", metavar="NAME")]


@app.command("snapshot", epilog="Example: tensorbus recorder snapshot")
def snapshot(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Write what `tensorbus record --snapshot` has kept to a file of its own."""
    reply = _asked({"do": "snapshot"}, name, domain, timeout)
    if as_json:
        return print_json(reply)
    print(reply.get("file"))


@app.command("status", epilog="Example: tensorbus recorder status --json")
def status(
    name: Name = NAME, domain: Domain = None, timeout: Timeout = _ANSWER, as_json: Json = False
) -> None:
    """Show what it has written and lost."""
    reply = _asked({"do": "status"}, name, domain, timeout)
    if as_json:
        return print_json(reply)
    print_pairs(
        [
            ("messages", f"{reply['messages']} in {reply['files']} files, {reply['lost']} lost"),
            ("bytes", f"{bytes_text(reply['bytes'])}, {bytes_text(reply['buffered_bytes'])} held"),
            ("topics", reply["topics"]),
        ]
    )


def _asked(request: dict[str, Any], name: str, domain: str | None, timeout: float) -> Any:
    reply = asked(name, request, domain, timeout, "tensorbus record")
    if "messages" not in reply:
        fail(f"service {name!r} answers other than a recorder does")
    return reply
