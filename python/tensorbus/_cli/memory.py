"""``tensorbus memory``: which processes hold which memory, and for how long."""

from __future__ import annotations

import typer

from tensorbus._cli.options import ASK, Domain, Json, Timeout
from tensorbus._cli.output import inspected, named, print_table, process_of
from tensorbus._cli.records import print_record
from tensorbus._inspection.report import Inspection, LentReport, MemoryReport, ParticipantReport
from tensorbus._inspection.units import bytes_text, time_text

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_EXAMPLES = """\b
Examples:
  tensorbus memory
  tensorbus memory --json | jq 'select(.kind == "lent")'"""


@app.command(epilog=_EXAMPLES)
def memory(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """Show which processes hold which memory: by process, then by lender and holder.

    The most bytes come first. USED is memory in loans and in held samples, RESERVED is memory
    allocated from the system, LENT is memory that other processes hold. OLDEST is the time since
    the oldest lease began.
    """
    inspection = inspected(domain, timeout)
    processes, lent = by_process(inspection), by_peer(inspection)
    if as_json:
        for process, held in processes:
            print_record("memory", named(process, held))
        for process, each in lent:
            print_record("lent", named(process, each))
        return
    print_table(
        ("PROCESS", ">USED", ">RESERVED", ">BUDGET", ">LENT", ">PRIVATE", ">FILES", ">OLDEST"),
        (
            (
                process_of(process),
                bytes_text(held.used_bytes),
                bytes_text(held.reserved_bytes),
                bytes_text(held.budget_bytes),
                bytes_text(sum(each.bytes for each in held.lent)),
                bytes_text(held.private_bytes),
                bytes_text(held.file_bytes),
                time_text(max((each.oldest_ns for each in held.lent), default=0)),
            )
            for process, held in processes
        ),
    )
    devices = [
        (process_of(process), device) for process, held in processes for device in held.devices
    ]
    if devices:
        print()
        print_table(
            ("PROCESS", "DEVICE", ">USED", ">RESERVED", ">BUDGET"),
            (
                (
                    name,
                    device.device,
                    bytes_text(device.used_bytes),
                    bytes_text(device.reserved_bytes),
                    bytes_text(device.budget_bytes),
                )
                for name, device in devices
            ),
        )
    if lent:
        print()
        print_table(
            ("HOLDER", ">BYTES", ">LEASES", ">OLDEST", "MEMORY OF"),
            (
                (
                    process_of(each.peer),
                    bytes_text(each.bytes),
                    each.leases,
                    time_text(each.oldest_ns),
                    process_of(process),
                )
                for process, each in lent
            ),
        )


def by_process(inspection: Inspection) -> list[tuple[ParticipantReport, MemoryReport]]:
    """The processes that replied, the most used bytes first."""
    found = [(each, each.memory) for each in inspection.participants if each.memory is not None]
    return sorted(found, key=lambda each: (-each[1].used_bytes, -each[1].reserved_bytes))


def by_peer(inspection: Inspection) -> list[tuple[ParticipantReport, LentReport]]:
    """The memory of each process that each peer holds, the most bytes first."""
    found = [(process, lent) for process, held in by_process(inspection) for lent in held.lent]
    return sorted(found, key=lambda each: (-each[1].bytes, -each[1].oldest_ns))
