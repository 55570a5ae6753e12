"""Parameters of a running node, read and set from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus.nodes._declared import DeclaredParameters, service_name


@contextmanager
def spinning(node: tb.Node) -> Iterator[tb.Client[Any, Any]]:
    """A node that runs in threads, and a client of its parameters."""
    thread = threading.Thread(target=node.spin)
    thread.start()
    try:
        with tb.Client[Any, Any](service_name(node.name), timeout=PATIENCE) as client:
            yield client
    finally:
        node.stop()
        thread.join()
        node.close_sync()


def test_they_are_read_with_all_that_is_known_of_them() -> None:
    node = tb.Node("camera", parameters={"gain": 2})
    node.declare_parameter("gain", 1, "of the sensor", on_set=print)
    node.declare_parameter("mode", ("a", 1))
    with spinning(node) as client:
        gain, mode = client.call_sync({})["parameters"]
    assert gain == {
        "name": "gain",
        "value": 2,
        "default": 1,
        "help": "of the sensor",
        "source": "program",
        "settable": True,
    }
    assert (mode["value"], mode["settable"]) == (("a", 1), False)


def test_a_value_is_set_as_the_type_of_the_default() -> None:
    node = tb.Node("camera")
    seen: list[Any] = []
    node.declare_parameter("rate", 30.0, on_set=seen.append)
    with spinning(node) as client:
        (rate,) = client.call_sync({"set": {"rate": "10"}})["parameters"]
    assert (rate["value"], rate["source"]) == (10.0, "service")
    assert seen == [10.0]
    assert type(seen[0]) is float
    assert node.parameters["rate"].value == 10.0


def refuse(value: Any) -> None:
    raise ValueError(f"{value} is too much")


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"set": {"rate": "100"}}, "100.0 is too much"),
        ({"set": {"rate": "fast"}}, "rate=fast: expected float"),
        ({"set": {"fixed": "1"}}, "node 'camera' cannot change 'fixed' while it runs"),
        ({"set": {"none": "1"}}, "node 'camera' has declared no parameter 'none'"),
        ({"set": 7}, "expected {} or"),
        ("all", "expected {} or"),
    ],
)
def test_what_is_refused_changes_nothing_and_ends_nothing(request_: Any, why: str) -> None:
    node = tb.Node("camera", on_error="raise")
    node.declare_parameter("rate", 30.0, on_set=refuse)
    node.declare_parameter("fixed", 0)
    with spinning(node) as client:
        assert client.call_sync(request_)["refused"].startswith(why)
        assert [each["value"] for each in client.call_sync({})["parameters"]] == [30.0, 0]


def test_a_request_sets_one_parameter() -> None:
    node = tb.Node("camera", on_error="raise")
    seen: list[Any] = []
    node.declare_parameter("rate", 30.0, on_set=seen.append)
    node.declare_parameter("gain", 1, on_set=refuse)
    with spinning(node) as client:
        reply = client.call_sync({"set": {"rate": "10", "gain": "2"}})
        assert reply == {"refused": "expected {} or {'set': {name: text}} with one name"}
    assert seen == []


def test_parameters_may_be_declared_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = DeclaredParameters("camera", {})
    parameters.declare("rate", 30.0, "", None)
    row = parameters._row

    def declare_and_row(parameter: Any) -> Any:  # as another thread may at this moment
        parameters.declare("gain", 1, "", None)
        return row(parameter)

    monkeypatch.setattr(parameters, "_row", declare_and_row)
    (rate,) = parameters.answer({})["parameters"]  # type: ignore[misc]
    assert rate["name"] == "rate"


def test_a_value_that_cannot_travel_is_shown_as_text() -> None:
    node = tb.Node("camera", on_error="raise", parameters={"lens": print})
    node.declare_parameter("lens", None)
    with spinning(node) as client:
        (lens,) = client.call_sync({})["parameters"]
    assert lens["value"] == repr(print)


@pytest.mark.parametrize("other_work", [True, False])
def test_on_set_runs_in_the_event_loop_if_the_node_has_work_there(other_work: bool) -> None:
    where: list[threading.Thread] = []

    async def main() -> None:
        async with tb.Node("camera") as node:
            node.declare_parameter(
                "rate", 30.0, on_set=lambda value: where.append(threading.current_thread())
            )
            if other_work:
                node.create_timer(3600, lambda: None)
            running = asyncio.create_task(node.run())
            client = node.create_client(service_name("camera"), timeout=PATIENCE)
            await client.call_async({"set": {"rate": "10"}})
            node.stop()
            await running

    asyncio.run(main())
    assert (where == [threading.main_thread()]) == other_work
    assert len(where) == 1


def test_a_node_without_parameters_offers_no_service() -> None:
    with tb.Node("camera") as node, tb.Client(service_name("camera"), timeout=0.1) as client:
        assert not node.spin(0)
        with pytest.raises(tb.Timeout, match="there was no service"):
            client.call_sync({})


def test_on_set_is_checked_when_it_is_declared() -> None:
    async def wrong(value: Any) -> None: ...

    def other() -> None: ...

    with tb.Node("camera") as node:
        for callback in (wrong, other):
            with pytest.raises(TypeError):
                node.declare_parameter("rate", 1, on_set=callback)
        assert not node.parameters
