"""Messages in bytes of their own."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import msgpack

import tensorbus as tb
from support.harness import Elsewhere, tell


@dataclass
class Scan(tb.Message, name="robot.Scan"):
    id: int
    ranges: np.ndarray
    more: Any = None
    nested: list[Scan] = field(default_factory=list)


def there_and_back(value: Any) -> Any:
    message, _ = tb.DictMessage.from_bytes(tb.DictMessage({"value": value}).to_bytes())
    return message.data["value"]


ARRAYS = [
    np.arange(6, dtype=np.int32).reshape(2, 3),
    np.arange(6).reshape(2, 3).T,
    np.arange(10)[::-2],
    np.broadcast_to(np.float32(1), (3, 4)),
    np.array(7.5),
    np.zeros((0, 3), np.complex64),
    np.array([True, False]),
    np.arange(3, dtype=">u2"),
    np.array(["2020-01-01"], "M8[D]"),
    np.array([("a", 1)], [("name", "U3"), ("id", "u1")]),
    np.array([b"ab", b""]),
    np.zeros(2, "S0"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=[str(array.dtype) for array in ARRAYS])
def test_arrays_keep_dtype_shape_and_elements_and_can_be_written_to(array: Any) -> None:
    found = there_and_back(array)
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()
    assert found.flags.writeable


def test_arrays_of_ml_dtypes_arrive() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(4).astype(ml_dtypes.float8_e4m3fn)
    found = there_and_back(array)
    assert found.dtype == array.dtype
    assert found.tolist() == array.tolist()


def torch_dtypes(torch: Any) -> list[Any]:
    found = [getattr(torch, name) for name in ("bfloat16", "float16", "complex64", "bool", "int8")]
    return found + [
        getattr(torch, name)
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "uint16", "complex32")
        if hasattr(torch, name)
    ]


def test_tensors_of_every_dtype_keep_their_bits(torch: Any) -> None:
    for dtype in torch_dtypes(torch):
        count = 8 // dtype.itemsize
        tensor = torch.arange(8, dtype=torch.uint8).remainder(2).view(dtype).reshape(1, count)
        found = there_and_back(tensor)
        assert found.dtype == dtype
        assert found.shape == tensor.shape
        assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))


def test_what_is_special_about_a_tensor_stays_or_is_resolved(torch: Any) -> None:
    parameter = there_and_back(torch.nn.Parameter(torch.ones(2)))
    assert type(parameter) is torch.nn.Parameter
    assert there_and_back(torch.ones(2).requires_grad_()).requires_grad
    conjugate = there_and_back(torch.tensor([1 + 2j]).conj())
    assert (conjugate.is_conj(), conjugate.tolist()) == (False, [1 - 2j])
    negative = there_and_back(torch.tensor([1 + 2j]).conj().imag)
    assert (negative.is_neg(), negative.tolist()) == (False, [-2.0])
    assert there_and_back(torch.ones(()).expand(2, 3)).tolist() == [[1] * 3] * 2
    assert there_and_back(torch.empty(0, 3)).shape == (0, 3)
    sparse = torch.tensor([[0, 2.0]]).to_sparse()
    assert there_and_back(sparse).to_dense().tolist() == [[0, 2]]


def test_a_tensor_that_comes_twice_is_one_tensor() -> None:
    array = np.arange(3)
    first, second = there_and_back([array, array])
    assert first is second


def test_a_buffer_in_a_message_arrives() -> None:
    message, _ = tb.DictMessage.from_bytes(tb.DictMessage({"raw": bytearray(b"abc")}).to_bytes())
    assert bytes(message.data["raw"]) == b"abc"


def test_the_header_says_type_time_and_sequence() -> None:
    message = Scan(1, np.arange(3.0))
    before = time.time_ns()
    _, header = Scan.from_bytes(message.to_bytes(sequence=7))
    assert header.fingerprint == Scan.fingerprint()
    assert before <= header.timestamp_ns <= time.time_ns()
    assert header.sequence == 7
    _, header = Scan.from_bytes(message.to_bytes(timestamp_ns=5))
    assert header == tb.MessageHeader(Scan.fingerprint(), 5, 0)


def test_bytes_of_any_type_that_is_known_are_decoded() -> None:
    message, header = tb.Message.decode(
        Scan(1, np.arange(3), nested=[Scan(2, np.ones(1))]).to_bytes()
    )
    assert type(message) is Scan
    assert type(message.nested[0]) is Scan
    assert message.nested[0].ranges.tolist() == [1.0]
    assert header.fingerprint == Scan.fingerprint()


def test_bytes_of_another_type_are_refused_by_name() -> None:
    data = tb.StringMessage("a").to_bytes()
    with pytest.raises(tb.MessageError, match=r"bytes of a tensorbus\.StringMessage, expected rob"):
        Scan.from_bytes(data)


def test_a_message_of_a_wrong_type_has_no_bytes() -> None:
    with pytest.raises(tb.MessageError, match=r"Scan\.id: expected int, got str"):
        Scan("a", np.arange(3)).to_bytes()  # type: ignore[arg-type]
    with pytest.raises(tb.Unsupported, match=r"data\['more'\]: .*object cannot be sent"):
        Scan(1, np.arange(3), object()).to_bytes()
    with pytest.raises(tb.Unsupported, match="only NumPy arrays and torch tensors"):
        Scan(1, np.arange(3), OnlyDLPack()).to_bytes()


class OnlyDLPack:
    """A tensor of a library that nobody knows."""

    def __dlpack__(self, **options: Any) -> Any:
        return np.arange(3).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_another_process_reads_an_older_version(elsewhere: Elsewhere) -> None:
    def write() -> None:
        from dataclasses import dataclass

        import tensorbus as tb

        @dataclass
        class Scan(tb.Message, name="robot.Scan"):
            id: int
            ranges: np.ndarray
            dropped: str = "x"

        tell(Scan(3, np.arange(2)).to_bytes())

    message, header = Scan.from_bytes(elsewhere.start(write).hear())
    assert (message.id, message.ranges.tolist(), message.nested) == (3, [0, 1], [])
    assert header.fingerprint != Scan.fingerprint()


def test_a_type_that_is_not_known_here_is_named(elsewhere: Elsewhere) -> None:
    def read(data: bytes) -> None:
        import tensorbus as tb

        try:
            tb.Message.decode(data)
        except tb.Unsupported as error:
            tell(str(error))

    other = elsewhere.start(read, Scan(1, np.arange(3)).to_bytes())
    assert "message type robot.Scan is not defined in this process" in other.hear()


WHOLE = Scan(
    1, np.arange(4, dtype="f4"), {"a": [1j, (2, b"x")]}, [Scan(2, np.ones(2), "text")]
).to_bytes(timestamp_ns=1)


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_bytes_that_are_cut_short_are_refused(length: int) -> None:
    with pytest.raises(tb.ProtocolError):
        Scan.from_bytes(WHOLE[:length])


def test_bytes_with_more_behind_them_are_refused() -> None:
    with pytest.raises(tb.ProtocolError, match="bytes of tensors, but their lengths add up to"):
        Scan.from_bytes(WHOLE + b"\0")


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), max_size=4))
def test_changed_bytes_are_a_message_or_an_error_of_the_bus(changes: dict[int, int]) -> None:
    data = bytearray(WHOLE)
    for place, byte in changes.items():
        data[place] = byte
    for read in (Scan.from_bytes, tb.Message.decode):
        try:
            message, _ = read(bytes(data))
        except tb.Error:
            continue
        message.validate()


def written(table: Any, elements: bytes = b"") -> bytes:
    packed = msgpack.encode(table)
    return struct.pack("<4sIQQQ", b"TBM1", len(packed), 0, 0, 0) + packed + elements


FIELDS = msgpack.encode({"data": msgpack.Ext(1, bytes(4))})
NAME = "tensorbus.ArrayMessage"


@pytest.mark.parametrize(
    ("table", "elements"),
    [
        ([NAME, FIELDS, []], b""),
        ([NAME, FIELDS, [["float32", [2**40, 2**40], 8, 4]]], bytes(4)),
        ([NAME, FIELDS, [["float32", [2**62, 0], 8, 4]]], bytes(4)),
        ([NAME, FIELDS, [["float32", [-1, -1], 8, 4]]], bytes(4)),
        ([NAME, FIELDS, [["float32", [1], 8, 2**62]]], bytes(4)),
        ([NAME, FIELDS, [["float32", [1], 8, -4], ["float32", [2], 8, 8]]], bytes(4)),
        ([NAME, FIELDS, [["float32", [1] * 100, 8, 4]]], bytes(4)),
        ([NAME, FIELDS, [["float32", [2**63], 8, 4]]], bytes(4)),
        ([NAME, FIELDS, [["", [1], 8, 4]]], bytes(4)),
        ([NAME, FIELDS, "no table"], b""),
        ([NAME, b"\xc1", []], b""),
        ([NAME, msgpack.encode({"data": msgpack.Ext(3, FIELDS)}), []], b""),
        ({"a": 1}, b""),
        (None, b""),
    ],
)
def test_what_no_message_says_is_refused_without_room_for_it(table: Any, elements: bytes) -> None:
    with pytest.raises((tb.ProtocolError, tb.Unsupported)):
        tb.ArrayMessage.from_bytes(written(table, elements))


def test_the_bytes_that_the_documentation_describes_are_read() -> None:
    data = written([NAME, FIELDS, [["float32", [2], 8, 8]]], struct.pack("<2f", 1.0, 2.0))
    message, header = tb.ArrayMessage.from_bytes(data)
    assert message.data.tolist() == [1.0, 2.0]
    assert header == (0, 0, 0)
