"""``tensorbus inspect``: the processes of a domain, with all their figures as JSON."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tensorbus._cli.options import ASK, Domain, Json, Timeout
from tensorbus._cli.output import inspected, print_table
from tensorbus._cli.records import print_record
from tensorbus._inspection.report import PROCESS_COLUMNS, process_row

app = typer.Typer(rich_markup_mode=None, add_completion=False)


_EXAMPLES = """\b
Examples:
  tensorbus inspect
  tensorbus inspect --json | jq 'select(.kind == "process").pid'"""


@app.command(epilog=_EXAMPLES)
def inspect(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """Show the processes of the domain; with --json, all that tensorbus.inspect() returns."""
    found = inspected(domain, timeout)
    if as_json:
        print_record("domain", {"domain": found.domain, "time_ns": found.time_ns})
        for process in found.participants:
            print_record("process", asdict(process))
        return
    columns = [name.upper() for name in PROCESS_COLUMNS]
    print_table(columns, map(process_row, found.participants))
