"""Dicts, lists, tuples and small values around and beside the tensors."""

from __future__ import annotations

import math
import random
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.harness import PATIENCE, joined
from tensorbus._core import Outgoing

MESSAGES = {
    "None": None,
    "an int": 7,
    "the smallest int": -(2**63),
    "the largest int": 2**64 - 1,
    "a float": 0.1,
    "minus infinity": -math.inf,
    "a bool": True,
    "a str": "größer ≥ \0 \U0001f600",
    "bytes": bytes(range(256)),
    "an empty dict": {},
    "an empty list": [],
    "an empty tuple": (),
    "a long str": "x" * 100_000,
    "a tuple in a tuple": ((1, (2, ())), [3, (4,)]),
    "keys of all kinds": {1: "int", "1": "str", b"1": "bytes", None: "None", 1.5: "float"},
    "a bool key": {True: 1, False: 0},
    "a negative key": {-(2**63): 1},
    "an int of a hundred bits": [2**99, {-(2**64): 2**64}],
    "complex": (1j, complex(math.inf, -0.0)),
    "a set": {1, "a", (2, b"3"), frozenset({4})},
    "an empty set": set(),
    "a tuple as a key": {(1, ("a", None)): 2, frozenset({1}): 3, 1j: 4},
    "an ordered dict": OrderedDict([("b", 1), ("a", OrderedDict())]),
    "nested": {"a": [{"b": ({"c": [None, True, 1, 1.0, "s", b"s"]},)}]},
}


def types_of(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value), [(types_of(key), types_of(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [types_of(item) for item in value]
    return type(value)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_arrives_as_it_was(name: str) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(MESSAGES[name])
        received = subscriber.receive().data
    assert received == MESSAGES[name]
    assert types_of(received) == types_of(MESSAGES[name])


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, 1_000_000])
def test_bytes_of_every_size_arrive(size: int) -> None:
    sent = random.Random(size).randbytes(size)
    with joined() as (publisher, subscriber):
        publisher.publish(sent)
        publisher.publish([sent])
        assert subscriber.receive().data == sent
        assert subscriber.receive().data == [sent]


@pytest.mark.parametrize(
    "fields",
    [
        b"\xc4",
        b"\xc4\x02a",
        b"\xc4\x01ab",
        b"\xc5\x01",
        b"\xc5\x00\x02a",
        b"\xc6\x00\x00\x00",
        b"\xc3a",
    ],
)
def test_bytes_of_another_size_than_they_say_are_refused(fields: bytes) -> None:
    with joined() as (publisher, subscriber):
        publisher._core.publish(Outgoing(), fields, None)
        with pytest.raises(tb.ProtocolError, match=r"sample\.fields"):
            _ = subscriber.receive().data


def test_tensors_arrive_where_they_were() -> None:
    message = {
        "image": np.arange(6).reshape(2, 3),
        "boxes": [np.zeros(4), np.ones(4)],
        "pair": (np.uint8([1]), 2),
        7: {"deep": [[np.float32([[3]])]]},
    }
    with joined() as (publisher, subscriber):
        publisher.publish(message)
        received = subscriber.receive().data
    assert list(received) == list(message)
    assert np.array_equal(received["image"], [[0, 1, 2], [3, 4, 5]])
    assert [box.tolist() for box in received["boxes"]] == [[0] * 4, [1] * 4]
    assert type(received["pair"]) is tuple
    assert received["pair"][0].dtype == np.uint8
    assert received["pair"][1] == 2
    assert received[7]["deep"][0][0].tolist() == [[3]]


@pytest.mark.parametrize("wrap", [lambda t: [t], lambda t: (t,), lambda t: {"t": t}])
def test_a_single_tensor_stays_in_its_container(wrap: Any) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(wrap(np.arange(3)))
        received = subscriber.receive().data
    assert types_of(received) == types_of(wrap(np.arange(3)))


def test_many_tensors_fit_into_one_message() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish([np.full(3, number) for number in range(1000)])
        received = subscriber.receive().data
    assert [array.tolist() for array in received] == [[n] * 3 for n in range(1000)]


def test_torch_and_numpy_go_together(torch: Any) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish({"torch": torch.arange(3), "numpy": np.arange(3)})
        received = subscriber.receive().data
    assert type(received["torch"]) is torch.Tensor
    assert type(received["numpy"]) is np.ndarray


def test_data_is_the_same_object_every_time() -> None:
    with joined() as (publisher, subscriber):
        publisher.publish({"a": np.arange(3)})
        sample = subscriber.receive()
        assert sample.data is sample.data


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
messages = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(0, 9), inner)
    ),
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages)
def test_any_message_arrives_as_it_was(message: Any) -> None:
    # One domain for all examples, and no wait: the subscriber is there from the first one on.
    with joined() as (publisher, subscriber):
        publisher.publish(message)
        received = subscriber.receive(PATIENCE).data
    assert received == message
    assert types_of(received) == types_of(message)


class Something:
    pass


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Something(), "data: .*Something cannot be sent; supported are tensors and arrays"),
        ({"a": [1, Something()]}, r"data\['a'\]\[1\]: .*Something cannot be sent"),
        ({"a": (1, {2: Something()})}, r"data\['a'\]\[1\]\[2\]: .*Something cannot be sent"),
        ({"a": {Something(): 3}}, r"data\['a'\]: .*Something cannot be sent"),
        ({"a": defaultdict(int)}, r"data\['a'\]: collections.defaultdict cannot be sent"),
        ({"a": np.array([None])}, r"data\['a'\]: elements of object"),
        ({"a": "\ud800"}, "data: .*surrogates"),
        (range(3), "builtins.range cannot be sent"),
    ],
)
def test_what_cannot_travel_is_refused_by_name_and_nothing_is_sent(message: Any, why: str) -> None:
    with joined() as (publisher, subscriber):
        with pytest.raises(tb.Unsupported, match=why):
            publisher.publish(message)
        publisher.publish("the next")
        assert subscriber.receive().data == "the next"
        assert publisher.stats["sent"] == 1


def test_a_message_that_holds_itself_is_refused() -> None:
    message: dict[str, Any] = {}
    message["again"] = message
    with joined() as (publisher, _), pytest.raises(tb.Unsupported, match="nested deeper than 60"):
        publisher.publish(message)


@pytest.mark.parametrize("container", [list, tuple])
def test_sixty_levels_arrive(container: type) -> None:
    message: Any = 1
    for _ in range(60):
        message = container([message])
    with joined() as (publisher, subscriber):
        publisher.publish(message)
        assert subscriber.receive().data == message
        with pytest.raises(tb.Unsupported):
            publisher.publish([message])
