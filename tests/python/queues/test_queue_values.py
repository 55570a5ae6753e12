"""Everyday values take a short way through the pickler: they arrive as they were sent."""

from __future__ import annotations

import collections
import enum
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import tensorbus as tb
from tensorbus import _core
from tensorbus._codec.fields import Restorer
from tensorbus._pickling import pickler


class Colour(enum.IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


class Text(str):
    __slots__ = ()


def nested(depth: int) -> Any:
    return 1 if depth == 0 else [nested(depth - 1)]


VALUES = [
    *(None, True, 7, -(10**30), 0.5, float("inf"), "", "text", "torch", b"", b"torch._utils"),
    *((), [], {}, ("step", 1, 0.5, None), {"id": 7, "box": [1, 2], "in": {"a": (b"x",)}}),
    *(nested(3), nested(5), list(range(64)), list(range(65)), {1: "a", None: "b", (1, 2): "c"}),
    *(Colour.RED, Point(1, 2), Text("text"), collections.OrderedDict(a=1), {1, 2}, 1j, range(3)),
    *(b"x" * size for size in (30, 60, 100, 1_900, 2_000, 2_100, 4_000, 65_500, 70_000)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_a_value_arrives_as_it_was_sent(value: Any) -> None:
    with tb.Queue() as there:
        there.put(value)
        there.put([value, value])
        assert there.put_many([value, (value,)]) == 2
        got = there.get()
        assert type(got) is type(value)
        assert got == value
        assert there.get() == [value, value]
        assert there.get_many(2) == [value, (value,)]


def test_what_contains_itself_is_no_plain_value() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert not _core.is_plain(ring)
    with tb.Queue() as there:
        there.put(ring)
        got = there.get()
        assert got[1] is got


@pytest.mark.parametrize("size", [0, 1, 200, 255, 256, *range(65_490, 65_521), 100_000])
def test_the_fields_are_those_of_any_pickle(size: int) -> None:
    pickled = pickle.dumps(b"." * size, pickle.HIGHEST_PROTOCOL)
    fields = _core.plain_fields(b"." * size)
    with tb.Queue() as there:
        there.put(1)
        sample = there._sample(there._here.get(None))
    assert Restorer(sample, None).decode_pickled(fields) == (pickled, [])
    short = _core.plain_pickle(fields)
    assert short == pickled or (short is None and len(fields) > 65_536)


@pytest.mark.parametrize("item", [None, [None], {None: None}, (1, [2.5, {"a": b"b"}]), True])
def test_plain_fields_restore_the_value(item: Any) -> None:
    fields = _core.plain_fields(item)
    assert fields is not None
    assert pickle.loads(_core.plain_pickle(fields) or b"") == item


def test_what_is_deep_or_long_is_left_to_the_pickler() -> None:
    assert _core.plain_fields([[[[1]]]]) is not None
    assert _core.plain_fields([[[[[1]]]]]) is None
    assert _core.plain_fields([1] * 64) is not None
    assert _core.plain_fields([1] * 65) is None
    assert _core.plain_fields({(1, 2): 3}) is None


def test_fields_that_only_look_so_are_read_the_long_way() -> None:
    fields = _core.plain_fields(7)
    assert _core.plain_pickle(fields) == pickle.dumps(7, pickle.HIGHEST_PROTOCOL)
    for damaged in (b"", fields[:5], fields[:-1], fields + b"x", fields[:-1] + b"\x91"):
        assert _core.plain_pickle(damaged) is None
    outgoing, fields = pickler.dump({"image": np.zeros(3)})
    assert len(outgoing) == 1
    assert _core.plain_pickle(fields) is None


def test_a_tensor_is_no_plain_value() -> None:
    assert not _core.is_plain(np.zeros(3))
    assert not _core.is_plain({"image": np.zeros(3)})
    assert not _core.is_plain(np.float64(1))
