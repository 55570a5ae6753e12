"""`tensorbus node`, `param`, `service`, `queue`, `memory`, `inspect`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.screens.commands import Tensorbus


@contextmanager
def camera() -> Iterator[tb.Node]:
    """A node that runs, with one of each."""
    node = tb.Node("camera")
    node.create_publisher("image")
    node.create_subscriber("speed", callback=lambda speed, header: None, mode="sync")
    node.create_service("sum", callback=sum, mode="sync")
    node.declare_parameter("rate", 30.0, "frames a second", on_set=lambda rate: None)
    thread = threading.Thread(target=node.spin)
    thread.start()
    try:
        eventually(lambda: node.is_running)
        yield node
    finally:
        node.stop()
        thread.join()
        node.close_sync()


def test_nodes(tensorbus: Tensorbus) -> None:
    with camera():
        row = tensorbus("node", "list", "--json").row
        table = tensorbus("node", "list").lines
        text = tensorbus("node", "info", "camera").out
    assert row["node"] == "camera"
    assert (row["pid"], row["publishes"], row["subscribes"]) == (os.getpid(), ["image"], ["speed"])
    assert table[1][:2] == ["camera", str(os.getpid())]
    assert "publishes: image\nsubscribes: speed\n" in text


def test_parameters(tensorbus: Tensorbus) -> None:
    with camera() as node:
        assert tensorbus("param", "get", "camera", "rate").out == "30.0\n"
        assert tensorbus("param", "set", "camera", "rate", "10").out == "10.0\n"
        assert node.parameters["rate"].value == 10.0
        refused = tensorbus("param", "set", "camera", "rate", "fast")
        assert (refused.status, refused.out) == (1, "")
        assert refused.err == "tensorbus: rate=fast: expected float\n"
        assert tensorbus("param", "get", "camera", "gain").status == 1
        listed = tensorbus("param", "list").lines
        assert listed[1][:6] == ["camera", "rate", "10.0", "30.0", "service", "yes"]
        row = tensorbus("param", "list", "--json").row
        assert (row["node"], row["parameter"], row["value"]) == ("camera", "rate", 10.0)


def test_all_nodes_are_asked_for_their_parameters_at_once(
    elsewhere: Elsewhere, tensorbus: Tensorbus
) -> None:
    def run(name: str) -> None:
        node = tb.Node(name)
        node.declare_parameter("rate", 1.0)
        thread = threading.Thread(target=node.spin, daemon=True)
        thread.start()
        eventually(lambda: node.is_running)
        tell(None)
        hear()

    limit = 1.0
    stopped = [elsewhere.start(run, f"node{at}") for at in range(3)]
    for each in stopped:
        each.hear()
        each.stop()
    with camera():
        begin = time.monotonic()
        done = tensorbus("param", "list", "--json", "--timeout", str(limit))
        took = time.monotonic() - begin
    assert [row["node"] for row in done.rows] == ["camera"]
    assert done.err.count("no answer in 1 s") == 3
    assert took < len(stopped) * limit
    for each in stopped:
        each.kill()


def test_a_service_that_is_not_of_a_node_is_not_taken_for_parameters(tensorbus: Tensorbus) -> None:
    asked: list[object] = []
    with camera() as node:
        node.create_service("own/parameters", callback=asked.append, mode="sync")
        with tb.Node("other") as other:
            other.create_service("other/parameters", callback=lambda request: [7], mode="sync")
            thread = threading.Thread(target=other.spin)
            thread.start()
            done = tensorbus("param", "list", "--json", "--timeout", str(PATIENCE))
            one = tensorbus("param", "get", "other", "rate", "--timeout", str(PATIENCE))
            other.stop()
            thread.join()
    assert asked == []
    assert [row["node"] for row in done.rows] == ["camera"]
    why = "service 'other/parameters' did not reply like a node"
    assert done.err == f"tensorbus: node other: {why}\n"
    assert (one.status, one.err) == (1, f"tensorbus: {why}\n")


def test_parameters_of_two_nodes_of_one_name_are_not_guessed(tensorbus: Tensorbus) -> None:
    with camera(), camera():
        done = tensorbus("param", "set", "camera", "rate", "1")
    assert (done.status, done.out) == (1, "")
    assert "2 nodes have the name 'camera'" in done.err


def test_services(tensorbus: Tensorbus) -> None:
    with camera():
        services = {row["service"]: row for row in tensorbus("service", "list", "--json").rows}
        table = {line[0] for line in tensorbus("service", "list").lines}
        assert tensorbus("service", "call", "sum", "[1, 2, 3]").out == "6\n"
        reply = tensorbus("service", "call", "sum", "[1, 2]", "--json").row
        assert (reply["service"], reply["data"]) == ("sum", 3)
        failed = tensorbus("service", "call", "sum", "7")
    assert set(services) == table - {"SERVICE"} == {"camera/parameters", "sum"}
    assert services["sum"]["pid"] == os.getpid()
    assert (failed.status, failed.out) == (1, "")
    assert "service 'sum' raised TypeError" in failed.err


def test_queues(elsewhere: Elsewhere, tensorbus: Tensorbus) -> None:
    def take() -> None:
        queue = tb.Queue.open("jobs")
        tell(queue.get(timeout=PATIENCE))
        hear()

    with tb.Queue(name="jobs", maxsize=8) as queue:
        for job in range(3):
            queue.put(job)
        taker = elsewhere.start(take)
        assert taker.hear() == 0
        (found,) = [row for row in tensorbus("queue", "list", "--json").rows if row["queue"]]
        table = tensorbus("queue", "list").lines
        text = tensorbus("queue", "info", "jobs").out
        assert found["stats"] == dict(queue.stats)
        taker.tell()
        taker.finish()
        assert [queue.get(), queue.get()] == [1, 2]
    assert [
        client["in_hand"] for client in found["clients"] if client["client"]["pid"] == taker.pid
    ] == [1]
    assert ["jobs", "2/8"] in [line[:2] for line in table]
    assert f"({taker.pid})" in text


def test_memory_names_the_holder_of_most_first(elsewhere: Elsewhere, tensorbus: Tensorbus) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")

    def hold(count: int) -> None:
        with tb.Subscriber("image", depth=count, timeout=PATIENCE) as subscriber:
            held = [subscriber.receive() for _ in range(count)]
            tell(len(held))
            hear()

    with tb.Publisher("image", history=3) as publisher:
        for _ in range(3):
            publisher.publish(publisher.loan((1000, 1000), dtype="uint8"))
        few, many = elsewhere.start(hold, 1), elsewhere.start(hold, 3)
        assert (few.hear(), many.hear()) == (1, 3)
        used = tb.participant().arena["used_bytes"]
        rows = tensorbus("memory", "--json").rows
        table = tensorbus("memory").out
        for holder in (few, many):
            holder.tell()
            holder.finish()
    first = rows[0]
    assert (first["pid"], first["used_bytes"]) == (os.getpid(), used)
    lent = [row for row in rows if row["kind"] == "lent"]
    assert lent[0]["peer"]["pid"] == many.pid
    assert lent[0]["bytes"] >= 3_000_000
    assert all(lent[at]["bytes"] >= lent[at + 1]["bytes"] for at in range(len(lent) - 1))
    assert lent[0]["oldest_ns"] > 0
    assert table.index(f"({many.pid})", table.index("HOLDER")) < table.index(
        f"({few.pid})", table.index("HOLDER")
    )


def test_inspect_prints_all_that_the_function_returns(tensorbus: Tensorbus) -> None:
    with camera():
        domain, process = tensorbus("inspect", "--json").rows
        table = tensorbus("inspect").lines
    assert domain["domain"] == tb.participant().domain
    assert (process["pid"], process["error"]) == (os.getpid(), "")
    assert [each["topic"] for each in process["publishers"]] == ["image"]
    assert process["memory"]["budget_bytes"] == tb.participant().arena["budget_bytes"]
    assert len(table) == 2
    assert f"({os.getpid()})" in table[1]
