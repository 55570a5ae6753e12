"""`topic echo` in C++ prints what `topic echo` in Python prints."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.screens.commands import Done, Tensorbus

np = pytest.importorskip("numpy", reason="NumPy is not installed")

ODD = "größe 図像 a\x1b[31m\u202eb e\u0301\u200b \U0001f600"


@dataclass
class Inner(tb.Message):
    x: float
    name: str


@dataclass
class Outer(tb.Message):
    inner: Inner
    values: list[int]


VALUES = {
    "numbers": [0, -1, 2**63 - 1, 2**64 - 1, 0.1, 1.0, 1e22, 1e-7, -0.0],
    "others": {"a": None, "b": True, "c": 1e300, "d": float("nan"), "e": float("-inf")},
    "texts": {"plain": "a", "quote": "it's", "both": "'\"", "odd": ODD, "lines": "a\n\t\r\\"},
    "long": {"text": "x" * 500, "quotes": "'" * 200, "wide": "図" * 300},
    "bytes": {"short": b"a'\x00\xff\n", "long": bytes(range(256)) * 4},
    "tuples": [(), (1,), (1, 2.5, "a"), [1] * 20],
    "nested": {"list": [1, [2, [3, {"a": (4, [5])}]]], "empty": [[], {}, ()]},
    "keys": {1: "int", "a.b": {"c": 1}, ODD: 2},
    "many": {f"field {number}": number for number in range(30)},
    "complex": [1 + 2j, -0.5j],
    "sets": [{1}, frozenset({2.5}), set()],
    "dicts": {"ordered": OrderedDict(a=1, b=[2]), "keys": {(1, 2): "a", None: 3}},
    "large": [2**70, -(2**64), 2**300],
    "single": 7,
    "text": "hello",
    "nothing": None,
    "typed": Outer(Inner(1.5, "a"), [1, 2]),
    "inside": {"pose": Inner(2.5, "b")},
}
DTYPES = [
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
ARRAYS = {
    **{dtype: np.arange(6).astype(dtype).reshape(2, 3) for dtype in DTYPES},
    "scalar": np.array(3.25),
    "empty": np.zeros((0, 3)),
    "large": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100),
    "columns": np.arange(100).reshape(10, 10)[:, ::3],
    "backwards": np.arange(100, dtype=np.int16)[::-1],
    "nan": np.array([np.nan, 1, np.inf], np.float16),
    "all nan": np.full(3, np.nan),
    "one": np.array([True]),
    "sixteen": np.arange(16),
    "seventeen": np.arange(17),
    "repeated": np.broadcast_to(np.arange(3), (1000, 3)),
    "list": [np.arange(3), {"a": np.ones((2, 2))}],
}


def steady(text: str) -> str:
    """Without the age of the sample, with the newlines of text."""
    text = text.replace("\r", "\n")
    return re.sub(r", [0-9.]+ m?s old$", ", AGE old", text, count=1, flags=re.MULTILINE)


@pytest.mark.parametrize("form", ["", "--json", "--csv"])
@pytest.mark.parametrize("name", [*VALUES, *ARRAYS])
def test_both_commands_print_the_same(
    name: str, form: str, tensorbus: Tensorbus, native: Tensorbus
) -> None:
    value: Any = {**VALUES, **ARRAYS}[name]
    words = ("topic", "echo", "topic", "--once", *([form] if form else []))
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(value)
        shown, expected = native(*words), tensorbus(*words)
    assert (shown.status, shown.err) == (expected.status, expected.err) == (0, "")
    assert steady(shown.out) == steady(expected.out)


@pytest.mark.parametrize("field", ["pose.0.x", "pose.-1.y", "name", "pose.5", "x", "pose.0.x.y"])
def test_both_find_the_same_fields(field: str, tensorbus: Tensorbus, native: Tensorbus) -> None:
    words = ("topic", "echo", "topic", "--once", "--field", field, "--csv")
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"pose": [{"x": 1.5}, {"y": (1, 2)}], "name": ODD})
        shown, expected = native(*words), tensorbus(*words)
    assert shown == expected


@pytest.mark.parametrize("encoding", ["rgb8", "BGR8"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (200, 100, 1), (1, 1, 3), (40, 300, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_both_draw_the_same_images(
    shape: tuple[int, ...], dtype: Any, encoding: str, tensorbus: Tensorbus, native: Tensorbus
) -> None:
    image = np.arange(np.prod(shape)).reshape(shape)
    image = (
        (image % 256).astype(np.uint8) if dtype is np.uint8 else image.astype(dtype) / image.size
    )
    words = ("topic", "echo", "topic", "--once", "--image")
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"image": image, "encoding": encoding})
        shown, expected = native(*words), tensorbus(*words)
    assert steady(shown.out) == steady(expected.out)


@pytest.mark.parametrize(
    "words",
    [
        ("echo", "topic", "--timeout", "0.05"),
        ("delay", "topic", "--timeout", "0.05", "--window", "0.02"),
        ("echo", "topic", "--once", "--count", "2"),
        ("echo", "topic", "--csv", "--json"),
        ("echo",),
    ],
)
def test_both_fail_alike(words: tuple[str, ...], tensorbus: Tensorbus, native: Tensorbus) -> None:
    shown, expected = native("topic", *words), tensorbus("topic", *words)
    assert shown.status == expected.status != 0
    assert shown.out == ""
    if expected.status == 1:
        assert shown.err == expected.err


def test_a_replay_is_named(native: Tensorbus, tensorbus: Tensorbus, tmp_path: Any) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("topic", reliable=True, history=1) as publisher,
        tb.Recorder(path, all=True, reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(1)
    outs: list[Done] = []
    with tb.Player(path, paused=True) as player:
        player.step()
        for run in (native, tensorbus):
            outs.append(run("topic", "echo", "topic", "--once", "--json"))
    first, second = (done.row for done in outs)
    assert first == second
    assert first["machine"] == "replay:run.mcap"
