"""``tensorbus queue``: the items that wait in queues, and the processes that use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from tensorbus._base.participant import participant
from tensorbus._cli.options import ASK, Domain, Json, QueueName, Timeout, group
from tensorbus._cli.output import fail, inspected, print_json, print_pairs, print_table, process_of
from tensorbus._core import list_queues
from tensorbus._inspection.report import Inspection, ParticipantReport, QueueReport
from tensorbus._inspection.units import bytes_text, part_text

app = group("Queues: the items that wait in them, and the processes that put and get.")


@app.command("list", epilog="Example: tensorbus queue list")
def list_(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """List the queues, including those without a name."""
    found = [each for each in queues_of(inspected(domain, timeout)) if not each[1].service]
    if as_json:
        return print_json([json_of(*each) for each in found])
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
        return print_json([json_of(*each) for each in found])
    for process, each in found:
        _print(process, each)


def queues_of(inspection: Inspection) -> Iterator[tuple[ParticipantReport, QueueReport]]:
    """All queues, sorted by name, each with the process of its server."""
    found = [(process, queue) for process in inspection.participants for queue in process.queues]
    return iter(sorted(found, key=lambda each: (each[1].name, each[0].pid, each[1].number)))


def json_of(process: ParticipantReport, queue: QueueReport) -> dict[str, object]:
    """A queue, and the process of its server."""
    return {"pid": process.pid, "process": process.process, **asdict(queue)}


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
