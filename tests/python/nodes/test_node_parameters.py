"""Parameters: from the command line, the environment, the program, or the default."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import tensorbus as tb


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
