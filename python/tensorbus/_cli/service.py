"""``tensorbus service``: lists and calls services."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensorbus._cli.options import ASK, Domain, Json, ServiceName, Timeout, group
from tensorbus._cli.output import inspected, print_table, process_of
from tensorbus._cli.queue import print_records, queues_of
from tensorbus._cli.records import print_record
from tensorbus._cli.topics.sources import value_of
from tensorbus._cli.values import LIBRARY, json_of, lines_of
from tensorbus._services.client import Client

app = group("Services: list and call them.")

CALL_EXAMPLES = """\b
Examples:
  tensorbus service call mean '[1, 2, 3]'
  tensorbus service call detect '{"threshold": 0.5}' --timeout 10 --json"""


@app.command("list", epilog="Example: tensorbus service list")
def list_(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """List the services, once for each process that offers them."""
    found = [each for each in queues_of(inspected(domain, timeout)) if each[1].service]
    if as_json:
        return print_records("service", found)
    print_table(
        ("SERVICE", ">WAITING", ">CLIENTS", "PROCESS", "MACHINE"),
        (
            (
                queue.service,
                queue.stats.items,
                len(queue.clients),
                process_of(process),
                queue.machine,
            )
            for process, queue in found
        ),
    )


@app.command("call", epilog=CALL_EXAMPLES)
def call(
    service: ServiceName,
    value: Annotated[str, typer.Argument(help="The value, as JSON or a Python literal.")],
    timeout: Timeout = 5.0,
    as_json: Json = False,
    domain: Domain = None,
) -> None:
    """Call a service and print its reply."""
    request = value_of(value)
    with Client[Any, Any](service, timeout=timeout, library=LIBRARY, domain=domain) as client:
        reply = client.call_sync(request)
        if as_json:
            return print_record("reply", {"service": service, "data": json_of(reply)})
        for line in lines_of(reply):
            print(line)
