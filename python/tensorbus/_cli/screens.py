"""``tensorbus top``, ``view`` and ``trace``: their packages are imported when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorbus._cli.options import Domain, Json, Topics
from tensorbus._cli.output import fail_without
from tensorbus._cli.records import print_record

_TRACE_EXAMPLES = """\b
Examples:
  tensorbus trace --seconds 5
  tensorbus trace camera/image detections -o camera.json"""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("top", epilog="Example: tensorbus top --domain robot")
def top(domain: Domain = None) -> None:
    """Watch topics, processes and queues on the terminal, and what slows them down."""
    from tensorbus._top import run

    try:
        status = run(domain)
    except ImportError as error:
        fail_without(error)
    raise typer.Exit(status)


@app.command("view", epilog="Example: tensorbus view --port 8000 --no-browser")
def view(
    domain: Domain = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0: any free port.")
    ] = 0,
    open_browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    rerun: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help='Send to Rerun instead: an .rrd to write, or "" for its viewer.'
        ),
    ] = None,
    foxglove: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='Send to Foxglove instead: an .mcap to write, or "" to serve its app.',
        ),
    ] = None,
) -> None:
    """Watch nodes, topics and messages on a web page of this machine, in Rerun or in Foxglove."""
    from tensorbus._view import run

    status = run(domain, port, open_browser, rerun=rerun, foxglove=foxglove)
    raise typer.Exit(status)


@app.command("trace", epilog=_TRACE_EXAMPLES)
def trace(
    topics: Topics = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="The file, for https://ui.perfetto.dev.", metavar="FILE"
        ),
    ] = "trace.json",
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to record; by default until Ctrl-C.", metavar="S"),
    ] = None,
    domain: Domain = None,
    as_json: Json = False,
) -> None:
    """Record where samples spend their time, in which process and thread.

    By default it records all topics.
    """
    from tensorbus._trace import run

    raise typer.Exit(run(topics or (), output, seconds, domain, print_record if as_json else None))
