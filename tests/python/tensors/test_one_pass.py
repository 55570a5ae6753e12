"""Messages are packed and restored by the core in one pass; MessagePack says the same of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus._codec.fields import flatten
from tensorbus._core import Outgoing, pack_value

Topic = tuple[tb.Publisher[Any], tb.Subscriber[Any]]

NAMES = ["", "a", "layer.0.weight", "größe", "\U0001f980", "\0"]
NAMES += ["x" * length for length in (24, 25, 31, 32, 255, 256, 65535, 65536)]


@pytest.fixture(autouse=True)
def known(torch: ModuleType) -> None:
    flatten([torch.ones(1), np.ones(1)])  # the core hears of a library with its first tensor


@pytest.fixture
def topic() -> Iterator[Topic]:
    with tb.Publisher("one") as publisher, tb.Subscriber("one", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        yield publisher, subscriber


def sent(topic: Topic, data: object) -> Any:
    publisher, subscriber = topic
    publisher.publish(data)
    return subscriber.receive().data


def packed(value: object) -> bytes:
    return pack_value(Outgoing(), value)


PLAIN: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-5, 300), inner),
    max_leaves=30,
)


@settings(deadline=None)
@given(PLAIN)
def test_what_messagepack_has_words_for_is_packed_as_everybody_packs_it(value: Any) -> None:
    assert packed(value) == msgspec.msgpack.encode(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(PLAIN)
def test_what_messagepack_has_words_for_arrives(topic: Topic, value: Any) -> None:
    assert_same(sent(topic, [value]), [value])


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 255, 256, 257, 1024, 1025, 65535, 65536])
@pytest.mark.parametrize("kind", [list, tuple, bytes, str, dict], ids=lambda kind: kind.__name__)
def test_any_number_of_items_arrives(topic: Topic, kind: Any, count: int) -> None:
    data: Any = {
        list: [7] * count,
        tuple: (7,) * count,
        bytes: b"x" * count,
        str: "x" * count,
        dict: dict.fromkeys(range(count), 7),
    }[kind]
    assert sent(topic, [data]) == [data]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{len(name)} of {name[:1]!r}")
def test_any_name_arrives(topic: Topic, torch: ModuleType, name: str) -> None:
    data = {"first": torch.ones(2), name: torch.full((3,), 7.0)}
    for _ in range(2):
        received = sent(topic, data)
        assert list(received) == ["first", name]
        assert received[name].equal(data[name])


NUMBERS = [0, -1, 127, 128, 255, 256, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
NUMBERS += [-32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63)]
NUMBERS += [2**64, -(2**63) - 1, 10**40, -(10**40)]


@pytest.mark.parametrize("number", NUMBERS)
def test_any_int_arrives_also_as_a_key(topic: Topic, number: int) -> None:
    data = {"value": number, "keys": {number: [number]}, "pair": (number, -number)}
    assert sent(topic, data) == data


@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "float64", "complex128"])
def test_scalars_of_numpy_arrive(topic: Topic, name: str) -> None:
    scalar = np.ones(1, name)[0]
    received = sent(topic, {"one": scalar, "again": scalar})
    assert type(received["one"]) is type(received["again"]) is type(scalar)
    assert received["one"] == scalar


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (1, 1), ()])
def test_arrays_whose_strides_say_nothing_arrive_as_contiguous_ones(
    topic: Topic, shape: tuple[int, ...]
) -> None:
    array = np.zeros((*shape, 5))[..., 0] if shape == (1, 1) else np.zeros(shape)
    topic[0].publish(array)
    memory = topic[1].receive()._core.memory(0)
    assert (memory.shape, memory.strides) == (shape, _strides_of(shape))


def _strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return tuple(strides[: len(shape)])


class Name(str):
    pass


class Number(int):
    pass


@pytest.mark.parametrize("value", ["\ud800", Name("x"), Number(7)], ids=["surrogate", "str", "int"])
def test_what_no_message_can_hold_is_refused(torch: ModuleType, value: Any) -> None:
    for data in ({"first": torch.ones(1), value: 7}, [value], {"a": (value,)}):
        with pytest.raises(tb.Unsupported):
            flatten(data)


class Changes:
    """Changes a container while it is packed."""

    def __init__(self, change: Any) -> None:
        self._change = change

    def __dlpack__(self, **_: Any) -> Any:
        self._change()
        return np.arange(3).__dlpack__()


@pytest.mark.parametrize("change", ["append", "clear", "pop"])
def test_a_list_that_changes_while_it_is_packed_is_refused(change: str) -> None:
    items: list[Any] = []
    arguments = [7] if change == "append" else []
    items += [[1], Changes(lambda: getattr(items, change)(*arguments)), [2], [3]]
    with pytest.raises(RuntimeError, match="a list changed size while it was packed"):
        flatten(items)


@pytest.mark.parametrize("change", ["setdefault", "clear", "popitem"])
def test_a_dict_that_changes_while_it_is_packed_is_refused(change: str) -> None:
    items: dict[Any, Any] = {}
    arguments = ["new"] if change == "setdefault" else []
    items |= {
        "a": [1],
        "b": Changes(lambda: getattr(items, change)(*arguments)),
        "c": [2],
        "d": [3],
    }
    with pytest.raises(RuntimeError, match="a dict changed size while it was packed"):
        flatten(items)


def test_what_is_freed_while_it_is_packed_is_packed(topic: Topic) -> None:
    items: list[Any] = [None, ["x" * 100]]

    def forget() -> None:
        items[0] = items[1] = 0
        gc.collect()

    items[0] = [Changes(forget), ["y" * 100], "z" * 100]
    received = sent(topic, items)
    assert received[0][1:] == [["y" * 100], "z" * 100]
    assert received[1] == 0


def test_an_error_of_the_program_is_its_own() -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flatten({"a": [Changes(fail)]})


def test_one_tensor_under_two_names_is_one_tensor(topic: Topic, torch: ModuleType) -> None:
    tensor = torch.ones(4)
    received = sent(topic, {"weight": tensor, "other": torch.zeros(1), "tied": tensor})
    assert received["weight"] is received["tied"]
    assert received["weight"] is not received["other"]


def test_views_of_one_tensor_share_its_memory(topic: Topic, torch: ModuleType) -> None:
    rows = torch.arange(12.0).reshape(3, 4)
    received = sent(topic, {"all": rows, "row": rows[1], "apart": torch.ones(2)})
    assert received["row"].equal(rows[1])
    storages = {name: tensor.untyped_storage().data_ptr() for name, tensor in received.items()}
    assert storages["all"] == storages["row"] != storages["apart"]


def test_others_than_torch_are_restored_as_they_are_wanted(topic: Topic, torch: ModuleType) -> None:
    received = sent(topic, {"torch": torch.ones(2), "numpy": np.ones(2)})
    assert (type(received["torch"]), type(received["numpy"])) == (torch.Tensor, np.ndarray)
    with tb.Subscriber("one", library="numpy", timeout=PATIENCE) as arrays:
        assert topic[0].wait_for_subscribers(2, timeout=PATIENCE)
        topic[0].publish({"a": torch.ones(2), "b": torch.zeros(1)})
        assert [type(array) for array in arrays.receive().data.values()] == [np.ndarray] * 2


def test_the_tensors_outlive_the_dict_and_give_their_memory_back(
    topic: Topic, torch: ModuleType
) -> None:
    received = sent(topic, {"a": torch.ones(2000), "b": torch.zeros(2000)})
    kept = received.pop("a")
    del received
    assert kept.equal(torch.ones(2000))
    assert topic[0].stats["bytes_in_flight"] > 0
    del kept
    assert topic[0].stats["bytes_in_flight"] == 0


REFERENCE = b"\xd6\x01\x00\x00\x00\x00"


def wrapped(code: int, payload: bytes) -> bytes:
    return b"\xc9" + len(payload).to_bytes(4, "big") + bytes([code]) + payload


def nested(begin: bytes, levels: int) -> bytes:
    return begin * levels + b"\xc0"


def nested_tuples(levels: int) -> bytes:
    payload = b"\x90"
    for _ in range(levels):
        payload = b"\x91" + wrapped(2, payload)
    return wrapped(2, payload)


# Whatever a publisher writes into the fields, it is a message or an error.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(b"\x81\xa1a" + REFERENCE)
@example(b"\x82\xa1a" + REFERENCE + b"\xa1a" + REFERENCE)  # a name twice
@example(b"\x81\xa1a\xd6\x01\x09\x00\x00\x00")  # no such tensor
@example(b"\x81\xa1\xff" + REFERENCE)  # no UTF-8
@example(b"\xa1\xff")
@example(b"\x81\xa1a" + REFERENCE + b"\xc0")  # bytes after it
@example(b"\xdf\xff\xff\xff\xff\xa1a" + REFERENCE)  # fewer than it says
@example(b"\xdd\xff\xff\xff\xff\xc0")
@example(b"\xde\x00\x01\xd9\x01a" + REFERENCE)  # in more bytes than need be
@example(b"\x81\xa1a\xd6\x02\x00\x00\x00\x00")  # another extension
@example(b"\x81\x90\xc0")  # a key without a hash
@example(b"\xc1")  # no value begins so
@example(b"\xd4\x02\xc0")  # a tuple of nothing
@example(b"\xd4\x05\x00")  # somebody else's extension
@example(b"\xd6\xff\x00\x00\x00\x00")  # a time
@example(b"\xd7\xff" + b"\xff" * 8)  # and none
@example(b"\xc7\x00\x01")  # a tensor of no index
@example(b"\xca\x3f\x80\x00\x00")
@example(nested(b"\x91", 200))
@example(nested(b"\x91", 5000))
@example(nested(b"\x81\xc0", 5000))
@example(nested_tuples(200))
@given(
    st.binary(max_size=40)
    | st.builds(
        lambda head, items, tail: head + b"".join(items) + tail,
        st.sampled_from([b"\x80", b"\x81", b"\x82", b"\xde\x00\x02", b"\xdf\x00\x00\x00\x01"]),
        st.lists(
            st.builds(
                lambda name, reference: name + reference,
                st.sampled_from([b"\xa1a", b"\xa1b", b"\xd9\x01c", b"\xda\x00\x01d", b"\xa0"])
                | st.binary(max_size=3),
                st.sampled_from([REFERENCE, b"\xd6\x01\x01\x00\x00\x00", b"\xc0"])
                | st.binary(max_size=7),
            ),
            max_size=3,
        ),
        st.just(b"") | st.binary(max_size=2),
    )
)
def test_any_fields_are_read_as_messagepack_reads_them(
    topic: Topic, torch: ModuleType, fields: bytes
) -> None:
    publisher, subscriber = topic
    outgoing = Outgoing()
    outgoing.add(torch.arange(3))
    outgoing.add(torch.arange(5.0))
    publisher._core.publish(outgoing, fields, PATIENCE)
    sample = subscriber.receive()
    try:
        data = sample.data
    except (tb.ProtocolError, tb.Unsupported):
        return
    assert sample.data is data
    if fields and not has_extensions(fields):
        assert_same(data, msgspec.msgpack.decode(fields))


def has_extensions(fields: bytes) -> bool:
    found = []
    msgspec.msgpack.decode(fields, ext_hook=lambda code, _: found.append(code))
    return bool(found)


def test_a_list_that_announces_much_takes_no_memory(topic: Topic) -> None:
    announced = 2**20
    head = b"\xdd" + announced.to_bytes(4, "big")
    fields = head * 250 + bytes(announced)
    topic[0]._core.publish(Outgoing(), fields, PATIENCE)
    sample = topic[1].receive()
    with pytest.raises(tb.ProtocolError):
        _ = sample.data


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert_same(list(one.items()), list(other.items()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert repr(one) == repr(other)
