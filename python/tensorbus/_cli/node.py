"""``tensorbus node``: the nodes of the domain and their topics."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tensorbus._cli.options import ASK, Domain, Json, NodeName, Timeout, group
from tensorbus._cli.output import fail, inspected, print_pairs, print_table
from tensorbus._cli.records import print_record
from tensorbus._inspection.report import Inspection
from tensorbus._inspection.units import process_name
from tensorbus._topics.listing import NodeInfo, list_nodes

app = group("Nodes: where they run, and what they publish and subscribe to.")


@dataclass(frozen=True)
class NodeRow:
    """A node of one process."""

    node: str
    pid: int
    process: str
    """The name of its program; "": the process did not reply, or is on another machine."""
    machine: str
    """The machine of the node; "": this machine."""
    publishes: tuple[str, ...]
    subscribes: tuple[str, ...]


@app.command("list", epilog="Example: tensorbus node list")
def list_(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """List the nodes of this machine, and nodes of other machines that publish here."""
    rows = _rows(domain, timeout)
    if as_json:
        return _print_records(rows)
    print_table(
        ("NODE", ">PID", "PROCESS", "MACHINE", ">PUBLISHES", ">SUBSCRIBES"),
        (
            (
                row.node,
                row.pid or "",
                row.process,
                row.machine,
                len(row.publishes),
                len(row.subscribes),
            )
            for row in rows
        ),
    )


@app.command("info", epilog="Example: tensorbus node info camera")
def info(
    node: NodeName, domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False
) -> None:
    """Show the topics of a node, once for each process that has a node of this name."""
    rows = [row for row in _rows(domain, timeout) if row.node == node]
    if not rows:
        fail(f"there is no node {node!r}")
    if as_json:
        return _print_records(rows)
    for row in rows:
        where = f"on {row.machine}" if row.machine else process_name(row.process, row.pid, "?")
        print_pairs([("node", row.node), ("process", where)])
        print_pairs(("publishes", topic) for topic in row.publishes)
        print_pairs(("subscribes", topic) for topic in row.subscribes)


def _print_records(rows: list[NodeRow]) -> None:
    for row in rows:
        print_record("node", asdict(row))


def _rows(domain: str | None, timeout: float) -> list[NodeRow]:
    return rows_of(list_nodes(domain), inspected(domain, timeout))


def rows_of(nodes: list[NodeInfo], inspection: Inspection) -> list[NodeRow]:
    """A row for each node in the domain's directory, even if its process did not reply."""
    found = {each.participant: each for each in inspection.participants}
    rows = []
    for node in nodes:
        process = None if node.machine else found.get(node.participant)
        subscribers = process.subscribers if process else ()
        subscribes = {each.topic for each in subscribers if each.node == node.name}
        name = process.process if process else ""
        rows.append(
            NodeRow(node.name, node.pid, name, node.machine, node.topics, tuple(sorted(subscribes)))
        )
    return rows
