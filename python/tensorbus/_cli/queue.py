"""``tensorbus queue keep``: the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensorbus._base.arguments import topic_name
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.participant import participant
from tensorbus._cli.options import Domain, Json, QueueNames, group
from tensorbus._queues.queue import Queue

_EXAMPLES = """\b
Examples:
  tensorbus queue keep jobs --redeliver
  tensorbus queue keep batches results --maxsize 8"""

app = group("Queues that outlive the programs that use them.")


@app.command("keep", epilog=_EXAMPLES)
def keep(
    queues: QueueNames,
    maxsize: Annotated[
        int, typer.Option(min=0, help="How many items may wait; 0: no limit.", metavar="N")
    ] = 0,
    max_bytes: Annotated[
        int,
        typer.Option(
            min=0, help="How many bytes of tensors and pickles may wait; 0: no limit.", metavar="N"
        ),
    ] = 0,
    redeliver: Annotated[
        bool,
        typer.Option("--redeliver", help="Items of a consumer that dies return to their queue."),
    ] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help="All processes see writes to tensors of items.")
    ] = False,
    domain: Domain = None,
    as_json: Json = False,
) -> None:
    """Make queues and keep them, so that they outlive the programs that use them.

    Prints a line for each queue when it is there. When a program has shut a queue down and its
    items are taken, the queue is made anew. SIGINT or SIGTERM closes the queues; the items that are
    left in them are dropped, and counted.
    """
    import asyncio

    from tensorbus._cli import keeper

    participant(domain)  # a wrong domain or name is a wrong command line
    for each in queues:
        topic_name(each)

    def make(name: str) -> Queue[Any]:
        try:
            return Queue(
                maxsize,
                name=name,
                redeliver=redeliver,
                shared=shared,
                max_bytes=max_bytes,
                domain=domain,
            )
        except InvalidArgument as error:  # the arguments are valid
            raise keeper.NameTaken(str(error)) from None

    status = asyncio.run(keeper.keep(list(dict.fromkeys(queues)), make, as_json))
    if status:
        raise typer.Exit(status)
