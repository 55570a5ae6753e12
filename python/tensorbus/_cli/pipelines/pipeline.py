"""``tensorbus pipeline``: what a running `tensorbus up` does, from another terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tensorbus._cli.options import (
    ASK,
    Domain,
    Json,
    OptionalProcessName,
    ProcessName,
    Timeout,
    group,
)
from tensorbus._cli.output import fail, print_table
from tensorbus._cli.records import print_record
from tensorbus._inspection.units import shown
from tensorbus._up.client import ask, find, logs
from tensorbus._up.control import Request
from tensorbus._up.status import statuses

app = group("A running `tensorbus up`: the states and lines of its processes.")

_Pipeline = Annotated[
    str | None,
    typer.Option("--pipeline", help="The pipeline's name, if several run.", metavar="NAME"),
]


@app.command(epilog="Example: tensorbus pipeline status")
def status(
    process: OptionalProcessName = "",
    pipeline: _Pipeline = None,
    domain: Domain = None,
    timeout: Timeout = ASK,
    as_json: Json = False,
) -> None:
    """List the processes, their states, and why they are not well."""
    _ask(Request("status", process), pipeline, domain, timeout, as_json)


@app.command("restart", epilog="Example: tensorbus pipeline restart camera")
def restart(
    process: ProcessName,
    pipeline: _Pipeline = None,
    domain: Domain = None,
    timeout: Timeout = ASK,
    as_json: Json = False,
) -> None:
    """End a process and start it again, also one that has ended or failed."""
    _ask(Request("restart", process), pipeline, domain, timeout, as_json)


@app.command("stop", epilog="Example: tensorbus pipeline stop camera")
def stop(
    process: OptionalProcessName = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has ended, however long that takes.")
    ] = False,
    pipeline: _Pipeline = None,
    domain: Domain = None,
    timeout: Timeout = ASK,
    as_json: Json = False,
) -> None:
    """End a process, and start it no more; without a name, end the pipeline.

    The command ends when the stop signal was sent, or with --wait when the process has ended.
    """
    request = Request("stop", process, wait=wait)
    _ask(request, pipeline, domain, None if wait else timeout, as_json)


@app.command("logs", epilog="Example: tensorbus pipeline logs -f camera")
def print_logs(
    process: OptionalProcessName = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option(min=0, help="How many earlier lines.", metavar="N")] = 1000,
    pipeline: _Pipeline = None,
    domain: Domain = None,
    as_json: Json = False,
) -> None:
    """Print lines of processes: the last 1,000 of each are kept, or 1 MiB."""
    request = Request("logs", process, follow=follow, lines=lines)
    for line in logs(find(domain, pipeline), request):
        if as_json:
            print_record("log", line)
        else:
            print(f"{line['process']} | {line['text']}", flush=True)


def _ask(
    request: Request, pipeline: str | None, domain: str | None, timeout: float | None, as_json: bool
) -> None:
    """Sends a request, and prints the processes in its reply."""
    try:
        found = statuses(ask(find(domain, pipeline), request, timeout))
    except TimeoutError:
        fail(f"no reply within {timeout:g} s: the process of `tensorbus up` is stopped, or hangs")
    if as_json:
        for each in found:
            print_record("process_status", asdict(each))
        return
    rows = [
        (each.process, each.state, each.pid or "-", each.restarts, each.reason or "-")
        for each in found
    ]
    print_table(("PROCESS", "STATE", ">PID", ">RESTARTS", "REASON"), rows)
    for each in found:
        for problem in each.unmet:
            print(f"{each.process}: {shown(problem)}")
