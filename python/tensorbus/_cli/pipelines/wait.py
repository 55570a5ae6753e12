"""``tensorbus wait``: until topics, queues and services are there."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tensorbus._cli.options import AwaitedNames, Domain, finite
from tensorbus._cli.output import fail
from tensorbus._up.domain import wait_for

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = """\b
Examples:
  tensorbus wait camera/image
  tensorbus wait --timeout 10 queue:jobs service:mean && python model.py"""


@app.command(epilog=_EXAMPLES)
def wait(
    names: AwaitedNames,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=finite,
            help="Seconds to wait; by default there is no limit.",
            metavar="S",
        ),
    ] = None,
    domain: Domain = None,
) -> None:
    """Wait until all of these names are there. The exit status is 1 after the timeout."""
    missing = asyncio.run(wait_for(names, domain, timeout))
    if missing:
        fail(f"not there after {timeout:g} s: {', '.join(missing)}")
