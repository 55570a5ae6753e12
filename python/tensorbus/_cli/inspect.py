"""``tensorbus inspect``: the processes of a domain, with all their figures as JSON."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tensorbus._cli.options import ASK, Domain, Json, Timeout
from tensorbus._cli.output import inspected, print_json, print_table, process_of
from tensorbus._inspection.units import bytes_text, time_text

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog="Example: tensorbus inspect --json | jq '.participants[].pid'")
def inspect(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """Show the processes of the domain; with --json, all that tensorbus.inspect() returns."""
    found = inspected(domain, timeout)
    if as_json:
        return print_json(asdict(found))
    print_table(
        (
            "PROCESS",
            "VERSION",
            ">AGE",
            ">PUBLISHERS",
            ">SUBSCRIBERS",
            ">QUEUES",
            ">SHARES",
            ">MEMORY",
            "NODES",
        ),
        (
            (
                process_of(each),
                each.version or "no answer",
                time_text(each.age_ns),
                len(each.publishers),
                len(each.subscribers),
                len(each.queues),
                len(each.shares),
                bytes_text(each.memory.used_bytes if each.memory else None),
                ", ".join(each.nodes),
            )
            for each in found.participants
        ),
    )
