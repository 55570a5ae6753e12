"""``tensorbus param``: the parameters of running nodes."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import typer

from tensorbus import _core
from tensorbus._base.errors import Error, ProtocolError
from tensorbus._base.errors import Timeout as TimedOut
from tensorbus._base.participant import participant
from tensorbus._cli.options import Domain, Json, NodeName, OptionalNode, Timeout, group, services
from tensorbus._cli.output import fail, print_table
from tensorbus._cli.records import known, print_record
from tensorbus._inspection.units import shown
from tensorbus._services.calls import queue_name
from tensorbus._services.client import Client
from tensorbus._topics.listing import list_nodes
from tensorbus.nodes._declared import service_name

app = group("Parameters of nodes: reading them, and setting those that can be set.")

_ANSWER = 5.0  # seconds
_KEYS = {"name", "value", "default", "help", "source", "settable"}

Row = dict[str, Any]
Name = Annotated[str, typer.Argument(metavar="PARAMETER", help="The parameter's name.")]


@app.command("list", epilog="Example: tensorbus param list camera")
def list_(
    node: OptionalNode = None,
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """List the parameters of a node, or of all nodes that run."""
    if node is None:
        rows = asyncio.run(_all(domain, timeout))
    else:
        rows = {node: _request_sync(node, {}, domain, timeout)}
    if as_json:
        for name, found in rows.items():
            for row in found:
                _print_record(name, row)
        return
    print_table(
        ("NODE", "PARAMETER", "VALUE", "DEFAULT", "SOURCE", "SET", "HELP"),
        (
            (
                name,
                row["name"],
                repr(row["value"]),
                repr(row["default"]),
                row["source"],
                "yes" if row["settable"] else "no",
                row["help"],
            )
            for name, found in rows.items()
            for row in found
        ),
    )


@app.command("get", epilog="Example: tensorbus param get camera rate")
def get(
    node: NodeName,
    parameter: Name,
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """Print the value of a parameter."""
    _print(node, parameter, _request_sync(node, {}, domain, timeout), as_json)


@app.command("set", epilog="Example: tensorbus param set camera rate 10")
def set_(
    node: NodeName,
    parameter: Name,
    value: Annotated[str, typer.Argument(help="The value, of the type of the default.")],
    domain: Domain = None,
    timeout: Timeout = _ANSWER,
    as_json: Json = False,
) -> None:
    """Set a parameter that was declared with on_set, and print its value."""
    found = _request_sync(node, {"set": {parameter: value}}, domain, timeout)
    _print(node, parameter, found, as_json)


def _print(node: str, parameter: str, rows: list[Row], as_json: bool) -> None:
    for row in rows:
        if row["name"] == parameter:
            return _print_record(node, row) if as_json else print(shown(str(row["value"])))
    fail(f"node {node!r} has declared no parameter {parameter!r}")


def _print_record(node: str, row: Row) -> None:
    print_record("parameter", known("parameter", {**row, "node": node, "parameter": row["name"]}))


def _request_sync(node: str, request: Row, domain: str | None, timeout: float) -> list[Row]:
    return asyncio.run(_request(node, request, domain, timeout))


async def _request(node: str, request: Row, domain: str | None, timeout: float) -> list[Row]:
    """Sends a request to a node's parameter service. Returns the node's parameters."""
    found = _core.Queue.addresses_of(queue_name(service_name(node)), participant(domain))
    if not found:
        fail(f"no running node {node!r} has parameters")
    if len(found) > 1:
        fail(f"{len(found)} nodes have the name {node!r}: give each its own name")
    with Client[Any, Any](service_name(node), timeout=timeout, domain=domain) as client:
        reply = await client.call_async(request)
    if isinstance(reply, dict) and "refused" in reply:
        fail(shown(str(reply["refused"])))
    rows = reply.get("parameters") if isinstance(reply, dict) else None
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise ProtocolError(f"service {service_name(node)!r} did not reply like a node")
    return rows


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and row.keys() >= _KEYS


async def _all(domain: str | None, timeout: float) -> dict[str, list[Row]]:
    """The parameters of all nodes that reply. All requests are sent at the same time."""
    offered = set(services(domain))
    names = {each.name for each in list_nodes(domain)}
    nodes = sorted(each for each in names if service_name(each) in offered)
    found = await asyncio.gather(*(_request_or_none(each, domain, timeout) for each in nodes))
    return {node: rows for node, rows in zip(nodes, found, strict=True) if rows is not None}


async def _request_or_none(node: str, domain: str | None, timeout: float) -> list[Row] | None:
    """The node's parameters; None, and a line on stderr, if the node does not reply."""
    try:
        return await _request(node, {}, domain, timeout)
    except typer.Exit:  # `fail` has printed the reason
        return None
    except Error as error:
        why = f"no answer in {timeout:g} s" if isinstance(error, TimedOut) else error
        print(shown(f"tensorbus: node {node}: {why}"), file=sys.stderr)
        return None
