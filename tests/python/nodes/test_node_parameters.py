"""Parameters: from the command line, the environment, the program, or the default."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE


def test_the_nearest_source_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with tb.Node("camera/left", parameters={"rate": 20.0}) as node:
        seen = []

        def see() -> None:
            value = node.declare_parameter("rate", 30.0, help="frames a second")
            seen.append((value, node.parameters["rate"].source))

        see()
        monkeypatch.setenv("TENSORBUS_NODE_CAMERA_LEFT_RATE", "10")
        see()
        monkeypatch.setattr(sys, "argv", ["program", "file", "--rate=4", "--rate=5"])
        see()
        monkeypatch.setattr(sys, "argv", [*sys.argv, "--camera/left.rate=6", "--rate=7"])
        see()
        monkeypatch.setattr(sys, "argv", ["program", "--", "--rate=5", "--other.rate=6"])
        see()
    assert seen == [
        (20.0, "program"),
        (10.0, "environment"),
        (5.0, "command line"),
        (6.0, "command line"),
        (10.0, "environment"),
    ]
    assert node.parameters["rate"].help == "frames a second"
    assert node.parameters["rate"].default == 30.0


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("7", 1, 7),
        ("7", 1.0, 7.0),
        ("1e-3", 1.0, 1e-3),
        ("no", True, False),
        ("TRUE", False, True),
        ("", "text", ""),
        ("a=b c", "text", "a=b c"),
        ("x", None, "x"),
        ('["a", 1]', [], ["a", 1]),
        ("[640, 480]", (0, 0), (640, 480)),
        ('{"a": [1]}', {}, {"a": [1]}),
    ],
)
def test_a_text_is_read_as_the_type_of_the_default(
    text: str, default: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["program", f"--value={text}"])
    with tb.Node("node") as node:
        found = node.declare_parameter("value", default)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "default", "wanted"),
    [("1.5", 1, "int"), ("x", 1.0, "float"), ("maybe", True, "bool"), ("{", [], "list")],
)
def test_a_text_that_is_no_such_value_is_refused_by_name(
    text: str, default: Any, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORBUS_NODE_NODE_VALUE", text)
    with tb.Node("node") as node:
        with pytest.raises(tb.InvalidArgument) as caught:
            node.declare_parameter("value", default)
        assert str(caught.value) == f"TENSORBUS_NODE_NODE_VALUE={text}: expected {wanted}"
        assert "value" not in node.parameters


def test_names_and_defaults_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with tb.Node("node") as node:
        for name in ("", "a-b", "a b", "1"):
            with pytest.raises(tb.InvalidArgument, match="parameter"):
                node.declare_parameter(name, 1)
        monkeypatch.setattr(sys, "argv", ["program", "--value=1"])
        with pytest.raises(tb.InvalidArgument, match="expected a bool, int"):
            node.declare_parameter("value", object())


def test_a_value_for_a_parameter_that_was_not_declared_ends_run_and_names_the_nearest() -> None:
    async def main() -> None:
        async with tb.Node("camera", parameters={"rte": 10.0}) as node:
            assert node.declare_parameter("rate", 30.0) == 30.0
            await node.run()

    with pytest.raises(tb.InvalidArgument) as refusal:
        asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert str(refusal.value) == (
        "parameters={'rte': ...}: node 'camera' has declared no parameter 'rte'; "
        "did you mean 'rate'?"
    )


@pytest.mark.parametrize(
    ("given", "option"), [('parameters={"rte": 10.0}', ""), ("", "--camera.rte=10")]
)
def test_a_node_that_never_ran_logs_what_was_not_declared(given: str, option: str) -> None:
    code = (
        f"import tensorbus as tb; node = tb.Node('camera', {given}); "
        "print(node.declare_parameter('rate', 30.0))"
    )
    command = [sys.executable, "-c", code, *option.split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == "30.0\n"
    assert "has declared no parameter 'rte'; did you mean 'rate'?" in ended.stderr


def test_an_option_of_the_node_that_was_not_declared_ends_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--camera.fps=5", "--other.rte=1"])
    with tb.Node("camera") as node:
        node.declare_parameter("rate", 30.0)
        node.declare_parameter("gain", 1.0)
        with pytest.raises(
            tb.InvalidArgument, match=r"--camera\.fps=.*its parameters: 'rate', 'ga"
        ):
            node.spin(0)
        node.declare_parameter("fps", 1)
        assert not node.spin(0)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_what_may_be_meant_for_a_parameter_is_a_warning(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "option":
        monkeypatch.setattr(sys, "argv", ["program", "--rte=5", "--verbose=1", "--", "--rat=1"])
    else:
        monkeypatch.setenv("TENSORBUS_NODE_CAMERA_RTE", "5")
        monkeypatch.setenv("TENSORBUS_NODE_CAMERA_LEFT_SIZE", "5")
    with tb.Node("camera") as node:
        node.declare_parameter("rate", 30.0)
        with pytest.warns(RuntimeWarning, match="did you mean 'rate'") as told:
            assert not node.spin(0)
    assert len(told) == 1


def test_options_that_are_no_parameters_are_left_to_the_program(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--rates=5", "--rate=4", "file", "-x=1", "--y=1"])
    with tb.Node("camera", parameters={"gain": 2.0}) as node:
        assert node.declare_parameter("rate", 30.0) == 4
        assert node.declare_parameter("gain", 1.0) == 2
        assert not node.spin(0)
    assert not recwarn.list
