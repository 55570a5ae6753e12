"""``tensorbus top``, ``view`` and ``trace``: their packages are imported when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorbus._cli.options import Domain

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("top", epilog="Example: tensorbus top --domain robot")
def top(domain: Domain = None) -> None:
    """Watch topics, processes and queues on the terminal, and who holds others up."""
    from tensorbus._top import run

    raise typer.Exit(run(domain))


@app.command("view", epilog="Example: tensorbus view --port 8000 --no-browser")
def view(
    domain: Domain = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of 127.0.0.1; 0: any.")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page.")
    ] = True,
) -> None:
    """Watch nodes, topics and messages on a web page of this machine."""
    from tensorbus._view import run

    raise typer.Exit(run(domain=domain, port=port, open_browser=open_browser))


@app.command(
    "trace", epilog="Example: tensorbus trace camera/image detections -o trace.json --seconds 5"
)
def trace(
    topics: Annotated[list[str] | None, typer.Argument(help="All, if none is named.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The file, for https://ui.perfetto.dev.")
    ] = "trace.json",
    seconds: Annotated[
        float | None, typer.Option(min=0, help="How long; without it, until Ctrl-C.")
    ] = None,
    domain: Domain = None,
) -> None:
    """See where samples spend their time: a file for Perfetto, and a table of hops and paths."""
    from tensorbus._trace import run

    raise typer.Exit(run(topics or (), output, seconds, domain))
