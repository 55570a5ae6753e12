"""A dict of tensors by name takes a shorter way at both ends; nobody can tell but by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus._codec.fields import Restorer, flatten, flatten_into
from tensorbus._core import Outgoing

Topic = tuple[tb.Publisher, tb.Subscriber]

NAMES = ["", "a", "layer.0.weight", "größe", "\U0001f980", "\0"]
NAMES += ["x" * length for length in (31, 32, 255, 256, 65535, 65536)]


@pytest.fixture(autouse=True)
def known(torch: ModuleType) -> None:
    flatten(torch.ones(1))  # the core hears of PyTorch with its first tensor


@pytest.fixture
def topic() -> Iterator[Topic]:
    with tb.Publisher("named") as publisher, tb.Subscriber("named", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        yield publisher, subscriber


def sent(topic: Topic, data: object) -> Any:
    publisher, subscriber = topic
    publisher.publish(data)
    return subscriber.receive().data


def packed(data: dict[Any, Any]) -> bytes | None:
    return Outgoing().add_named(data)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 255, 256, 257, 65535, 65536])
def test_any_number_of_tensors_is_packed_as_before(torch: ModuleType, count: int) -> None:
    data = {f"layer{i}": torch.zeros(1) for i in range(count)}
    assert packed(data) == flatten_into(Outgoing, data)[1]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{len(name)} of {name[:1]!r}")
def test_any_name_is_packed_as_before_and_arrives(
    topic: Topic, torch: ModuleType, name: str
) -> None:
    data = {"first": torch.ones(2), name: torch.full((3,), 7.0)}
    assert packed(data) == flatten_into(Outgoing, data)[1]
    received = sent(topic, data)
    assert list(received) == ["first", name]
    assert received[name].equal(data[name])


class Name(str):
    pass


def test_all_other_dicts_take_the_long_way_and_arrive(topic: Topic, torch: ModuleType) -> None:
    tensor = torch.arange(3)
    gradients = torch.ones(2, requires_grad=True)
    others: list[dict[Any, Any]] = [
        {"tensor": tensor, "id": 7},
        {"id": 7, "tensor": tensor},
        {"tensor": tensor, "more": {"tensor": tensor}},
        {"tensor": tensor, 1: tensor},
        {"tensor": tensor, "gradients": gradients},
    ]
    for data in others:
        assert packed(data) is None
        received = sent(topic, data)
        assert list(received) == list(data)
        assert received["tensor"].equal(tensor)
    assert received["gradients"].requires_grad


def test_what_no_message_can_hold_is_refused_as_before(torch: ModuleType) -> None:
    for key in ("\ud800", Name("x")):
        data = {"first": torch.ones(1), key: torch.ones(1)}
        assert packed(data) is None
        with pytest.raises(tb.Unsupported):
            flatten(data)


def test_the_core_restores_all_of_it(topic: Topic, torch: ModuleType) -> None:
    publisher, subscriber = topic
    publisher.publish({"a": torch.ones(2), "b": torch.zeros(1)})
    restored = subscriber.receive()._core.only(None)
    assert restored is not None
    assert list(restored) == ["a", "b"]


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
    np = pytest.importorskip("numpy")
    received = sent(topic, {"torch": torch.ones(2), "numpy": np.ones(2)})
    assert (type(received["torch"]), type(received["numpy"])) == (torch.Tensor, np.ndarray)
    with tb.Subscriber("named", library="numpy", timeout=PATIENCE) as arrays:
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


# Whatever a publisher writes into the fields, both ways say the same of it.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(b"\x81\xa1a" + REFERENCE)
@example(b"\x82\xa1a" + REFERENCE + b"\xa1a" + REFERENCE)  # a name twice
@example(b"\x81\xa1a\xd6\x01\x09\x00\x00\x00")  # no such tensor
@example(b"\x81\xa1\xff" + REFERENCE)  # no UTF-8
@example(b"\x81\xa1a" + REFERENCE + b"\xc0")  # bytes after it
@example(b"\xdf\xff\xff\xff\xff\xa1a" + REFERENCE)  # fewer than it says
@example(b"\xde\x00\x01\xd9\x01a" + REFERENCE)  # in more bytes than need be
@example(b"\x81\xa1a\xd6\x02\x00\x00\x00\x00")  # another extension
@given(
    st.builds(
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
def test_any_fields_are_read_as_before(topic: Topic, torch: ModuleType, fields: bytes) -> None:
    publisher, subscriber = topic
    outgoing = Outgoing()
    outgoing.add(torch.arange(3))
    outgoing.add(torch.arange(5.0))
    publisher._core.publish(outgoing, fields, PATIENCE)
    sample = subscriber.receive()

    def long_way() -> Any:
        from msgspec import DecodeError

        try:
            return Restorer(sample._core, None).decode(fields)
        except (DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise tb.ProtocolError(str(error)) from None

    try:
        expected = long_way() if fields else None
    except (tb.ProtocolError, tb.Unsupported) as error:
        with pytest.raises(type(error)):
            _ = sample.data
        return
    if fields:
        assert_same(sample.data, expected, torch)


def assert_same(one: Any, other: Any, torch: ModuleType) -> None:
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.equal(other)
    elif isinstance(one, dict):
        assert_same(list(one.items()), list(other.items()), torch)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs, torch)
    else:
        assert repr(one) == repr(other)
