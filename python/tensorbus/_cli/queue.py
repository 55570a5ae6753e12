"""``tensorbus queue``: the items that wait in queues, and the processes that use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from tensorbus._base.arguments import topic_name
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.participant import participant
from tensorbus._cli.options import ASK, Domain, Json, QueueName, QueueNames, Timeout, group
from tensorbus._cli.output import fail, inspected, named, print_pairs, print_table, process_of
from tensorbus._cli.records import print_record
from tensorbus._core import list_queues
from tensorbus._inspection.report import Inspection, ParticipantReport, QueueReport
from tensorbus._inspection.units import bytes_text, part_text
from tensorbus._queues.queue import Queue

_EXAMPLES = """\b
Examples:
  tensorbus queue keep jobs --redeliver
  tensorbus queue keep batches results --maxsize 8"""

app = group("Queues: the items that wait in them, and the processes that put and get.")


@app.command("list", epilog="Example: tensorbus queue list")
def list_(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """List the queues, including those without a name."""
    found = [each for each in queues_of(inspected(domain, timeout)) if not each[1].service]
    if as_json:
        return print_records("queue", found)
    print_table(
        ("QUEUE", ">ITEMS", ">BYTES", ">IN HAND", ">LOST", ">REDELIVERED", "PROCESS", "MACHINE"),
        (
            (
                queue.name or "-",
                part_text(queue.stats.items, queue.maxsize),
                bytes_text(queue.stats.bytes),
                queue.in_hand,
                queue.stats.lost,
                queue.redelivered,
                process_of(process),
                queue.machine,
            )
            for process, queue in found
        ),
    )


@app.command("info", epilog="Example: tensorbus queue info jobs")
def info(
    queue: QueueName, domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False
) -> None:
    """Show a queue and the processes that use it."""
    found = [each for each in queues_of(inspected(domain, timeout)) if each[1].name == queue]
    if not found:
        silent = [each for each in list_queues(participant(domain)) if each.name == queue]
        if silent:
            fail(f"queue {queue!r}: its process {silent[0].pid} did not reply")
        fail(f"there is no queue {queue!r}")
    if as_json:
        return print_records("queue", found)
    for process, each in found:
        _print(process, each)


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


def queues_of(inspection: Inspection) -> Iterator[tuple[ParticipantReport, QueueReport]]:
    """All queues, sorted by name, each with the process of its server."""
    found = [(process, queue) for process in inspection.participants for queue in process.queues]
    return iter(sorted(found, key=lambda each: (each[1].name, each[0].pid, each[1].number)))


def print_records(kind: str, found: Iterable[tuple[ParticipantReport, QueueReport]]) -> None:
    """Prints queues as lines of JSON, of the kind "queue" or "service"."""
    for process, queue in found:
        print_record(kind, {**named(process, queue), "queue": queue.name})


def _print(process: ParticipantReport, queue: QueueReport) -> None:
    stats = queue.stats
    place = f", machine {queue.machine}" if queue.machine else ""
    flags = [name for name in ("redeliver", "shut_down") if getattr(queue, name)]
    bound = f"maxsize {queue.maxsize or 'unlimited'}"
    counters = (
        f"items {stats.items} ({bytes_text(stats.bytes)}), in hand {queue.in_hand}, "
        f"unfinished {stats.unfinished}, lost {stats.lost}, redelivered {queue.redelivered}"
    )
    print_pairs(
        [
            ("queue", queue.name),
            ("  process", f"{process_of(process)}{place}"),
            ("  options", ", ".join([bound, *flags])),
            ("  counters", counters),
        ]
    )
    if queue.clients:
        print_table(
            ("  USED BY", ">IN HAND", ">WAITING PUTS", ">WAITING GETS"),
            (
                (f"  {process_of(each.client)}", each.in_hand, each.waiting_puts, each.waiting_gets)
                for each in queue.clients
            ),
        )
