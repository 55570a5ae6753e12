"""Every kind of NumPy array, scalar and dtype arrives as what it was, or is refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

import tensorbus as tb
from support.harness import joined
from tensorbus._core import Outgoing


def received(message: Any, library: Any = None) -> Any:
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        publisher.publish(message)
        return subscriber.receive().data


def address_of(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def dtype_of_many_fields() -> Any:
    return np.dtype(
        {
            "names": ["a", "b", "over a"],
            "formats": ["<f4", (">i2", (2, 3)), "V2"],
            "offsets": [4, 9, 5],
            "titles": ["first", None, None],
            "itemsize": 30,
        }
    )


DTYPES: dict[str, Any] = {
    **{code: code for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?"},
    **{f"{code}, swapped": f">{code}" for code in "hHiIlLefdgFDG"},
    **{f"dates of {unit}": f"M8[{unit}]" for unit in ("Y", "M", "W", "D", "25s", "ns", "as")},
    **{f"times of {unit}": f"m8[{unit}]" for unit in ("Y", "h", "7ms", "ps")},
    **{"dates without a unit": "M8", "times without a unit": "m8", "swapped dates": ">M8[us]"},
    **{"bytes": "S7", "text": "U3", "swapped text": ">U3", "void": "V5"},
    "a structure": [("a", "i1"), ("b", "f8")],
    "an aligned structure": np.dtype([("a", "i1"), ("b", "f8")], align=True),
    "a structure of structures": [("a", [("b", "S3"), ("c", "M8[s]")]), ("d", "u1", (2, 2))],
    "fields in places, with a title": dtype_of_many_fields(),
    "records": np.dtype((np.record, [("a", "i4")])),
}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "backwards", "every second", "a scalar array"])
def test_an_array_of_every_dtype_arrives(name: str, layout: str) -> None:
    dtype = np.dtype(DTYPES[name])
    array = np.arange(8 * dtype.itemsize, dtype=np.uint8)
    array = (array % 2 if dtype.kind == "b" else array).view(dtype)
    if dtype.kind == "U":
        array[:] = ["a", "ä", "\U0001f600bc", "", *"wxyz"]
    array = {
        "contiguous": array,
        "backwards": array.reshape(2, 4)[::-1, ::-1],
        "every second": array[::2],
        "a scalar array": array[3:4].reshape(()),
    }[layout]
    back = received(array)
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    assert back.dtype.str == array.dtype.str
    assert back.dtype.isalignedstruct == array.dtype.isalignedstruct
    assert (back.shape, back.strides) == (array.shape, array.strides)
    raw = np.dtype(("V", dtype.itemsize))
    assert back.view(raw).tobytes() == array.view(raw).tobytes()
    assert back.flags.writeable


@pytest.mark.parametrize("code", [code for code in np.typecodes["All"] if code not in "qQOSUVMm"])
def test_an_element_has_the_class_that_it_had(code: str) -> None:
    # Equal dtypes are not always of the same class: long long is one of int64's.
    array = np.ones(3, code)
    back = received(array)
    assert back.dtype.type is array.dtype.type
    assert type(back[0]) is type(array[0])
    assert np.issubdtype(back.dtype, array.dtype.type)


def test_int64_arrives_as_int64_from_torch_too() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert received(torch.arange(3), "numpy").dtype.type is np.int64


def test_dtypes_of_ml_dtypes_arrive() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    kinds = [
        kind
        for kind in vars(ml_dtypes).values()
        if isinstance(kind, type) and issubclass(kind, np.generic)
    ]
    assert kinds
    arrays = [np.array([0, 1, 0], kind) for kind in kinds]
    structure = np.zeros(2, [("a", kinds[0]), ("b", kinds[1], 3)])
    *back, scalar, nested = received([*arrays, arrays[0][1], structure])
    for array, original in zip(back, arrays, strict=True):
        assert array.dtype == original.dtype
        assert array.tobytes() == original.tobytes()
    assert type(scalar) is kinds[0]
    assert nested.dtype == structure.dtype


@pytest.mark.parametrize("kind", ["S", "U", "V"])
def test_elements_of_no_bytes_arrive(kind: str) -> None:
    array = np.zeros((2, 3), [("nothing", f"{kind}0")])["nothing"]
    back = received(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.dtype.itemsize == 0
    assert back.flags.writeable


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_a_structure_of_any_shape_arrives(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, [("a", "i4"), ("b", "M8[s]")])
    back = received(array)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, shape, array.tobytes())


def test_a_field_of_a_structure_stays_a_view_of_it() -> None:
    people = np.zeros(5, [("age", "u1"), ("size", "<f8")])
    people["size"] = range(5)
    whole, sizes = received([people, people["size"]])
    assert sizes.strides == (9,)
    assert address_of(sizes) == address_of(whole) + 1
    assert sizes.tolist() == [0, 1, 2, 3, 4]


def test_an_array_of_dates_that_is_in_a_message_twice_arrives_twice() -> None:
    dates = np.array(["2020-01-01", "2021-02-03"], "M8[D]")
    for message in ([dates, dates], (dates, [dates]), {"a": dates, "b": dates}):
        back = received(message)
        first, second = back.values() if isinstance(back, dict) else back
        second = second[0] if isinstance(second, list) else second
        assert first.dtype == second.dtype == dates.dtype
        assert first.tolist() == second.tolist() == dates.tolist()
        assert address_of(first) == address_of(second)


SCALARS: dict[str, Any] = {
    **{
        code: np.dtype(code).type(1)
        for code in np.typecodes["AllInteger"] + "?"
        if code not in "qQ"
    },
    **{code: np.dtype(code).type(-0.0) for code in np.typecodes["AllFloat"]},
    "a date": np.datetime64("2020-02-02", "D"),
    "not a time": np.timedelta64("NaT", "25s"),
    "bytes with zeros": np.bytes_(b"a\0b\0\0"),
    "no bytes": np.bytes_(b""),
    "text with zeros": np.str_("ä\0\U0001f600\0"),
    "no text": np.str_(""),
    "half of a pair": np.str_("\ud800"),
    "void": np.void(b"abc"),
    "no void": np.void(b""),
    "a structure": np.array((1, "x"), [("a", ">i4"), ("b", "U2")])[()],
    "a record": np.array((1,), np.dtype((np.record, [("a", "i4")])))[()],
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_arrives_as_what_it_was(name: str) -> None:
    scalar = SCALARS[name]
    back = received([scalar])[0]
    assert type(back) is type(scalar)
    assert back.dtype == scalar.dtype
    assert back.tobytes() == scalar.tobytes()
    assert back.flags.writeable == scalar.flags.writeable


def test_numpy_scalars_may_be_keys() -> None:
    message = {np.int32(1): "a", (np.float32(2), np.str_("b")): {np.bytes_(b"c")}}
    back = received(message)
    assert back == message
    assert [type(key) for key in back] == [np.int32, tuple]


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_arrives_as_what_it_was(name: str) -> None:
    dtype = np.dtype(DTYPES[name])
    back = received({"dtype": dtype})["dtype"]
    assert back == dtype
    assert (back.str, back.fields) == (dtype.str, dtype.fields)


OTHERS: dict[str, Callable[[], Any]] = {
    "swapped": lambda: np.arange(3, dtype=">f4"),
    "a field": lambda: np.array([(0, 0), (1, 1), (2, 2)], [("a", "u1"), ("b", "<f4")])["b"],
}


@pytest.mark.parametrize("name", OTHERS)
def test_numbers_that_only_lie_strangely_can_be_received_as_torch_tensors(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert torch.equal(received(OTHERS[name](), "torch"), torch.arange(3.0))


@pytest.mark.parametrize("library", ["torch", "jax", "dlpack"])
def test_what_only_numpy_has_is_refused_to_others(library: str) -> None:
    for array in (np.zeros(2, "M8[s]"), np.zeros(2, "S3"), np.zeros(2, [("a", "i4")])):
        with pytest.raises(
            tb.Unsupported, match=f'library="{library}": only NumPy has such elements'
        ):
            received(array, library)


def rationals() -> Any:
    module = pytest.importorskip("numpy._core._rational_tests")
    return np.array([module.rational(1, 2)])


def swapped_bfloat16() -> Any:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    return np.zeros(2, np.dtype(ml_dtypes.bfloat16).newbyteorder())


def strings() -> Any:
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no StringDType")
    return np.array(["a"], np.dtypes.StringDType())


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "objects": (lambda: np.array([None]), "elements of object are Python objects"),
    "objects in a structure": (lambda: np.zeros(2, [("a", [("b", "O")])]), "Python objects"),
    "a structure with an object": (lambda: np.zeros(2, [("a", "O")])[0], "Python objects"),
    "the dtype of objects": (lambda: np.dtype(object), "Python objects"),
    "strings of any length": (strings, "are Python objects"),
    "their dtype": (lambda: strings().dtype, "are Python objects"),
    "a dtype of another library": (rationals, "elements of rational cannot be sent"),
    "a scalar of it": (lambda: rationals()[0], "elements of rational cannot be sent"),
    "it in a structure": (
        lambda: np.zeros(2, [("a", rationals().dtype)]),
        "elements of rational cannot be sent",
    ),
    "text that is none": (
        lambda: np.full(2, 0x110000, "<u4").view("<U1"),
        "the code point 0x110000",
    ),
    "swapped bfloat16": (swapped_bfloat16, "bfloat16 in a foreign byte order"),
    "a masked array": (lambda: np.ma.zeros(3), "MaskedArray is a subclass"),
    "a recarray": (lambda: np.rec.array([(1,)], dtype=[("a", "i4")]), "recarray is a subclass"),
    "a char array": (lambda: np.char.array(["a"]), "chararray is a subclass"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_travel_is_refused_and_nothing_is_sent(name: str) -> None:
    make, why = REFUSED[name]
    value = make()
    with joined() as (publisher, subscriber):
        with pytest.raises(tb.Unsupported, match=rf"data\['bad'\]\[1\]: .*{why}"):
            publisher.publish({"good": np.ones(3), "bad": [1, value]})
        publisher.publish("the next")
        assert subscriber.receive().data == "the next"
        assert publisher.stats["sent"] == 1
        assert publisher.stats["bytes_in_flight"] == 0


# What a peer may say. ----------------------------------------------------------------------------


def ext(code: int, value: Any) -> Any:
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))


def said(fields: Any, *arrays: Any, library: Any = None) -> Any:
    """What becomes of fields that a hand-made publisher sends."""
    raw = fields if isinstance(fields, bytes) else msgspec.msgpack.encode(fields)
    with joined(subscriber={"library": library}) as (publisher, subscriber):
        outgoing = Outgoing()
        for array in arrays:
            outgoing.add(array)
        publisher._core.publish(outgoing, raw, None)
        return subscriber.receive().data


def record(*parts: Any) -> Any:
    return ext(3, list(parts))


def structure(**changes: Any) -> Any:
    parts = {
        **{"names": ["a"], "formats": ["<i4"], "offsets": [0], "titles": [None]},
        **{"itemsize": 4, "aligned": False, "record": False},
        **changes,
    }
    return record("numpy.dtype", {key: value for key, value in parts.items() if value is not ...})


def nested(code: int, payload: bytes, levels: int, wrap: bytes) -> bytes:
    for _ in range(levels):
        payload = wrap + payload
        payload = b"\xc9" + len(payload).to_bytes(4, "big") + bytes([code]) + payload
    return payload


EIGHT = np.zeros((2, 8), np.uint8)
HOSTILE: dict[str, Any] = {
    "an unknown record": record("no such record", 1),
    "a record without a name": record(),
    "a record of a number": ext(3, 7),
    "a record of nothing": ext(3, None),
    "a name that is a list": record(["set"], 1),
    "parts too many": record("complex", 1, 2, 3),
    "parts too few": record("numpy.ndarray"),
    "an int of no digits": record("int", "xyz"),
    "a complex of text": record("complex", "a", "b"),
    "a set of lists": record("set", [1]),
    "a dict of triples": record("dict", [1, 2, 3]),
    "a dict of numbers": record("dict", 1),
    "an ordered dict with a list for a key": record("OrderedDict", [[], 1]),
    "a tensor beyond": msgspec.msgpack.Ext(1, (7).to_bytes(4, "little")),
    "a tensor far beyond": msgspec.msgpack.Ext(1, b"\xff" * 40),
    "an array beyond": record("numpy.ndarray", "<M8[s]", 7),
    "an array before": record("numpy.ndarray", "<M8[s]", -1),
    "an array of text": record("numpy.ndarray", "<M8[s]", "0"),
    "a view beyond": record("memoryview", 7),
    "DLPack beyond": record("dlpack", 2**63),
    "an array of objects": record("numpy.ndarray", "|O", 0),
    "an array of other bytes": record("numpy.ndarray", "<i4", 0),
    "an array of more bytes": record("numpy.ndarray", "V9", 0),
    "an array of no bytes": record("numpy.ndarray", "V0", 0),
    "a dtype of objects": record("numpy.dtype", "O"),
    "a dtype of no name": record("numpy.dtype", "no such dtype"),
    "a dtype of brackets": record("numpy.dtype", "(" * 1000 + "2,)i4"),
    "a dtype of numbers": record("numpy.dtype", 7),
    "a subarray of objects": record("numpy.dtype", ["O", [2]]),
    "a subarray of negative size": record("numpy.dtype", ["<i4", [-2]]),
    "a subarray beyond memory": record("numpy.dtype", ["<i4", [2**40, 2**40]]),
    "a structure of objects": structure(formats=["O"]),
    "a structure of objects in objects": structure(formats=[["O", [1]]]),
    "a structure that is too small": structure(itemsize=2),
    "a structure of negative size": structure(itemsize=-4),
    "an offset beyond": structure(offsets=[100]),
    "a negative offset": structure(offsets=[-1]),
    "names too many": structure(names=["a", "b"]),
    "a name twice": structure(names=["a", "a"], formats=["u1", "u1"], offsets=[0, 1]),
    "no formats": structure(formats=...),
    "not aligned": structure(offsets=[1], itemsize=8, aligned=True),
    "a scalar of too few bytes": record("numpy.scalar", "<i4", b"123"),
    "a scalar of text": record("numpy.scalar", "<i4", "1234"),
    "a scalar of objects": record("numpy.scalar", "|O", b"12345678"),
    "a scalar of no characters": record("numpy.scalar", "<U1", b"\xff\xff\xff\xff"),
    "bytes that are no text": b"\xa1\xff",
    "a word that MessagePack does not have": b"\xc1",
    "less than there should be": b"\x93\x01",
    "more than there should be": b"\x01\x02",
    "an array of four billion": b"\xdd\xff\xff\xff\xff",
    "lists in lists": b"\x91" * 100_000 + b"\x01",
    "tuples in tuples": nested(2, b"\x90", 3000, b"\x91"),
    "sets in sets": nested(3, b"\x90", 3000, b"\x92\xa3set"),
    "ints that are no extension": b"\xd4\x02\x07",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_fields_that_make_no_sense_are_a_protocol_error(name: str) -> None:
    with pytest.raises(tb.ProtocolError, match=r"sample\.fields"):
        said(HOSTILE[name], EIGHT)


def test_words_and_their_mutations_never_do_harm() -> None:
    """Real fields, with some of their bytes changed."""
    numbers = np.random.default_rng(1)
    real = [HOSTILE["a subarray of objects"], structure(), record("numpy.ndarray", "<M8[s]", 0)]
    real += [record("dict", [1, (2, 3)]), record("set", 1, "a"), record("memoryview", 0)]
    real += [record("numpy.scalar", "<U2", b"a\0\0\0b\0\0\0"), {"a": [1, record("int", "0xff")]}]
    fine = 0
    with joined() as (publisher, subscriber):
        for _ in range(3000):
            fields = bytearray(msgspec.msgpack.encode(real[numbers.integers(len(real))]))
            for _ in range(numbers.integers(1, 4)):
                fields[numbers.integers(len(fields))] = numbers.integers(256)
            outgoing = Outgoing()
            outgoing.add(EIGHT)
            publisher._core.publish(outgoing, bytes(fields), None)
            sample = subscriber.receive()
            try:
                _ = sample.data
                fine += 1
            except (tb.ProtocolError, tb.Unsupported):
                pass
    assert 0 < fine < 3000


# Who keeps what. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", ">f4", "M8[s]", "V0"])
def test_nothing_is_kept_alive_that_nobody_needs(dtype: str) -> None:
    with joined() as (publisher, subscriber):
        gc.collect()
        gc.disable()
        try:
            array = np.zeros(3, dtype)
            sent = weakref.ref(array)
            publisher.publish({"a": [array, (array,)]})
            del array
            assert sent() is None
            sample = subscriber.receive()
            data = sample.data
            arrived = weakref.ref(data["a"][0])
            del sample, data
            assert arrived() is None
            assert subscriber.stats["held"] == 0
        finally:
            gc.enable()
