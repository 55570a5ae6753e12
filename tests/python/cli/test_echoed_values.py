"""`topic echo` shows values as Python writes them.

`echoed.json` has what a command in Python printed of `VALUES` and `ARRAYS`, from their `repr` and
from NumPy: the program in C++ prints the same.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.screens.commands import Done, Tensorbus
from tensorbus import _core
from tensorbus._topics.preview import pixels

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
    "sets": [{1}, frozenset({2.5}), set(), {8, 1, 3}],
    "paths": {"a": {"b": 1, "c": 3}, "a.b": 2, 1: "int", "1": "text"},
    "hidden": {"quote": "a" * 70 + "'" + "a" * 70, "bytes": b"\xff" * 1000 + b"'"},
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
    "view": memoryview(b"abcdef"),
    "negative nan": -np.full(2, np.nan),
    "infinities": np.array([np.inf, -np.inf]),
    "one row": np.lib.stride_tricks.as_strided(np.zeros(8, np.int8), (3, 1), (1, 2**62)),
}


ECHOED = json.loads(Path(__file__).with_name("echoed.json").read_text())


def steady(text: str) -> str:
    """Without times and ids."""
    text = re.sub(r", [0-9.]+ m?s old$", ", AGE old", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"\b1[78]\d{17}\b", "TIME", text)
    return re.sub(r"[0-9a-f]{32}\.\d+", "PUBLISHER", text)


@pytest.mark.parametrize("form", ["text", "--json", "--csv"])
@pytest.mark.parametrize("name", [*VALUES, *ARRAYS])
def test_values_are_shown_as_python_writes_them(name: str, form: str, tensorbus: Tensorbus) -> None:
    value: Any = {**VALUES, **ARRAYS}[name]
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(value)
        shown = tensorbus("topic", "echo", "topic", "--once", *([] if form == "text" else [form]))
    assert (shown.status, shown.err) == (0, "")
    assert steady(shown.out) == ECHOED[name][form]


@pytest.mark.parametrize("number", [2.0**-24, -(2.0**-44), 2.0**89, 5e-324, 9.999e22, 0.3])
def test_floats_have_the_fewest_digits(number: float, tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish(number)
        shown = tensorbus("topic", "echo", "topic", "--once").lines[1]
    assert shown == [repr(number)]


def echoed_field(field: str, tensorbus: Tensorbus) -> Done:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"pose": [{"x": 1.5}, {"y": (1, 2)}], "name": ODD})
        return tensorbus("topic", "echo", "topic", "--once", "--field", field, "--csv")


@pytest.mark.parametrize(
    ("field", "cells"),
    [
        ("pose.0.x", {"pose.0.x": "1.5"}),
        ("pose.-1.y", {"pose.-1.y.0": "1", "pose.-1.y.1": "2"}),
        ("name", {"name": ODD}),
    ],
)
def test_a_field_is_found_by_its_path(
    field: str, cells: dict[str, str], tensorbus: Tensorbus
) -> None:
    (row,) = csv.DictReader(io.StringIO(echoed_field(field, tensorbus).out))
    assert {name: row[name] for name in row if not name.endswith(("sequence", "_ns"))} == cells


@pytest.mark.parametrize("field", ["pose.5", "x", "pose.0.x.y"])
def test_a_field_that_is_not_there_is_named(field: str, tensorbus: Tensorbus) -> None:
    done = echoed_field(field, tensorbus)
    assert (done.status, done.out) == (1, "")
    assert f"has no field '{field}'" in done.err


def drawn(text: str) -> list[list[tuple[str, str]]]:
    """The upper and the lower colour of each character of an image, "" without one."""
    rows = []
    for line in text.splitlines():
        row, colours = [], ("", "")
        for escape, block in re.findall(r"\x1b\[([0-9;]*)m|(▀)", line):
            if block:
                row.append(colours)
                continue
            upper = re.search(r"38;2;(\d+;\d+;\d+)", escape)
            lower = re.search(r"48;2;(\d+;\d+;\d+)", escape)
            colours = (upper[1] if upper else "", lower[1] if lower else "")
        if row:
            rows.append(row)
    return rows


@pytest.mark.parametrize("encoding", ["rgb8", "BGR8"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (200, 100, 1), (1, 1, 3), (40, 300, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_are_drawn_with_two_pixels_in_each_character(
    shape: tuple[int, ...], dtype: Any, encoding: str, tensorbus: Tensorbus
) -> None:
    image = np.arange(np.prod(shape)).reshape(shape)
    image = (
        (image % 256).astype(np.uint8) if dtype is np.uint8 else image.astype(dtype) / image.size
    )
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"image": image, "encoding": encoding})
        shown = tensorbus("topic", "echo", "topic", "--once", "--image").out
    small = pixels(image, 80, encoding)
    colours = [
        [";".join(map(str, pixel if len(pixel) == 3 else [*pixel] * 3)) for pixel in row]
        for row in small.tolist()
    ]
    below = [*colours[1::2], [""] * small.shape[1]]
    assert drawn(shown) == [
        [*zip(upper, lower, strict=True)] for upper, lower in zip(colours[::2], below, strict=False)
    ]


def test_a_set_of_texts_is_sorted(tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({*"gfedcba"})
        shown = tensorbus("topic", "echo", "topic", "--once").out
    assert shown.splitlines()[1] == "{'a', 'b', 'c', 'd', 'e', 'f', ...}"


def test_floats_of_any_size_are_drawn(tensorbus: Tensorbus) -> None:
    for dtype in (np.float16, np.float64):
        with tb.Publisher("topic", history=1) as publisher:
            publisher.publish(np.full((2, 1, 1), 0.5, dtype))
            shown = tensorbus("topic", "echo", "topic", "--once", "--image").out
        assert "38;2;127;127;127;48;2;127;127;127m" in shown


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("echo topic --timeout 0.05", 1),
        ("delay topic --timeout 0.05 --window 0.02", 1),
        ("echo topic --once --count 2", 2),
        ("echo topic --csv --json", 2),
        ("echo", 2),
    ],
)
def test_a_failure_ends_with_a_line(words: str, status: int, tensorbus: Tensorbus) -> None:
    done = tensorbus("topic", *words.split())
    assert (done.status, done.out) == (status, "")
    *said, why = done.err.splitlines()
    assert why.startswith("tensorbus: ")
    assert said == (["tensorbus: topic 'topic' has no publisher yet"] if status == 1 else [])


def nested(name: str, depth: int) -> bytes:
    """The bytes of fields: a record in a record, and so on."""
    fields = msgspec.msgpack.encode(1)
    for _ in range(depth):
        parts = b"\x92" + msgspec.msgpack.encode(name) + fields
        fields = msgspec.msgpack.encode(msgspec.msgpack.Ext(3, parts))
    return fields


@pytest.mark.parametrize("form", ["--json", "--csv", "--no-image"])
@pytest.mark.parametrize("name", ["dict", "frozenset", "foo"])
def test_records_in_records_have_a_limit(name: str, form: str, tensorbus: Tensorbus) -> None:
    with publisher_of_bytes() as publish:
        publish(nested(name, 5_000))
        done = tensorbus("topic", "echo", "topic", "--once", form)
    assert (done.status, done.out) == (1, "")
    assert "nested too deep" in done.err


@pytest.mark.parametrize("parts", [["int", "foo"], ["int", 5], ["int", "0x"], ["int", "0x1g"]])
def test_what_is_no_number_is_quoted_in_json(parts: list[Any], tensorbus: Tensorbus) -> None:
    with publisher_of_bytes() as publish:
        ext = msgspec.msgpack.Ext(3, msgspec.msgpack.encode(parts))
        publish(msgspec.msgpack.encode(ext))
        row = tensorbus("topic", "echo", "topic", "--once", "--json").row
    assert row["data"].startswith("int(")


@contextmanager
def publisher_of_bytes() -> Iterator[Callable[[bytes], object]]:
    """Publishes fields as they are, as a faulty program may."""
    publisher = _core.Publisher(
        "topic",
        tb.participant(),
        depth=8,
        history=1,
        reliable=False,
        lag_timeout=None,
        shared=False,
    )
    yield lambda fields: publisher.publish(_core.Outgoing(), fields, 5)
    publisher.close()


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(3), np.float64(0.1), np.bool_(True)])
def test_scalars_of_numpy_are_numbers(value: Any, tensorbus: Tensorbus) -> None:
    with tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"loss": value})
        row = tensorbus("topic", "echo", "topic", "--once", "--json").row
    assert row["data"] == {"loss": value.item()}


def test_a_replay_is_named(tensorbus: Tensorbus, tmp_path: Any) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("topic", reliable=True, history=1) as publisher,
        tb.Recorder(path, all=True, reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(1)
    with tb.Player(path, paused=True) as player:
        player.step()
        row = tensorbus("topic", "echo", "topic", "--once", "--json").row
    assert row["machine"] == "replay:run.mcap"


def test_a_handle_is_its_text(tensorbus: Tensorbus) -> None:
    with tb.share(1) as shared, tb.Publisher("topic", history=1) as publisher:
        publisher.publish({"weights": [shared.handle]})
        row = tensorbus("topic", "echo", "topic", "--once", "--json").row
        assert row["data"] == {"weights": [str(shared.handle)]}
