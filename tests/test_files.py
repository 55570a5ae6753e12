"""Tensors over files: what is in them, who sees what is written, and files that are not whole."""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from harness import Elsewhere, in_a_fork, joined, tell

PAGE = os.sysconf("SC_PAGESIZE")
MODES = ["r", "r+", "c"]
LIBRARIES = ["numpy", "torch"]

NUMBERS = np.arange(24, dtype=np.float32).reshape(4, 6)


def write_raw(folder: Path, array: Any = NUMBERS, before: bytes = b"") -> Path:
    path = folder / "numbers.bin"
    path.write_bytes(before + array.tobytes())
    return path


def write_npy(folder: Path, array: Any = NUMBERS) -> Path:
    path = folder / "numbers.npy"
    np.save(path, array)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def header_of(entries: Any) -> bytes:
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)  # as the reference implementation aligns it


def write_safetensors(folder: Path, header: bytes, data: bytes, length: int | None = None) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path


def two_tensors(folder: Path) -> Path:
    header = {
        "__metadata__": {"format": "pt"},
        "weight": entry("F32", [4, 6], 0, 96),
        "bias": entry("I64", [3], 96, 120),
    }
    data = NUMBERS.tobytes() + np.array([1, 2, 3], np.int64).tobytes()
    return write_safetensors(folder, header_of(header), data)


def is_of(library: str, tensor: Any) -> bool:
    return type(tensor).__module__.partition(".")[0] == library


# What is in a file.


@pytest.mark.parametrize("as_", LIBRARIES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["raw", "npy", "safetensors"])
def test_a_file_is_a_tensor_that_lies_in_it(
    tmp_path: Path, torch: ModuleType, kind: str, mode: Any, as_: Any
) -> None:
    if kind == "raw":
        path = write_raw(tmp_path)
        tensor = tb.map_file(path, (4, 6), "float32", mode, as_=as_)
    elif kind == "npy":
        path = write_npy(tmp_path)
        tensor = tb.map_file(path, mode=mode, as_=as_)
    else:
        path = two_tensors(tmp_path)
        tensor = tb.map_file(path, mode=mode, name="weight", as_=as_)
    before = path.read_bytes()
    assert is_of(as_, tensor)
    assert tensor.tolist() == NUMBERS.tolist()
    if mode == "r":
        if as_ == "numpy":
            with pytest.raises(ValueError, match="read-only"):
                tensor[0] = 1
        return
    tensor[1, 2] = -5
    assert tensor[1, 2] == -5
    changed = path.read_bytes()
    assert (changed != before) == (mode == "r+")
    assert changed == before or np.float32(-5).tobytes() in changed


def test_without_a_word_the_library_is_that_of_the_dtype(tmp_path: Path, torch: ModuleType) -> None:
    path = write_raw(tmp_path)
    for dtype, library in ((torch.float32, "torch"), ("f4", "numpy"), (np.float32, "numpy")):
        assert is_of(library, tb.map_file(path, dtype=dtype))
    npy = write_npy(tmp_path)
    assert is_of("numpy", tb.map_file(npy))
    assert is_of("torch", tb.map_file(npy, dtype=torch.float32))
    assert is_of("torch", tb.map_file(two_tensors(tmp_path), name="bias")), "torch is imported"


def test_a_shape_may_leave_one_size_open(tmp_path: Path) -> None:
    path = write_raw(tmp_path)
    for shape, found in (
        (None, (24,)),
        (-1, (24,)),
        (24, (24,)),
        ((-1, 6), (4, 6)),
        ((2, -1, 2), (2, 6, 2)),
        ((3, 5), (3, 5)),
        ((), ()),
        ((0, 7), (0, 7)),
    ):
        assert tb.map_file(path, shape, "float32").shape == found
    for shape in ((-1, -1), (-1, 7), (-1, 0), (-2,), ("a",), 2.5):
        with pytest.raises(tb.InvalidArgument):
            tb.map_file(path, shape, "float32")


@pytest.mark.parametrize("offset", [1, 8, PAGE - 1, PAGE, PAGE + 4, 3 * PAGE + 3])
def test_an_offset_may_be_any(tmp_path: Path, torch: ModuleType, offset: int) -> None:
    path = write_raw(tmp_path, before=b"x" * offset)
    for shape in (None, (4, 6)):
        array = tb.map_file(path, shape, "float32", "r+", offset=offset)
        assert array.reshape(4, 6).tolist() == NUMBERS.tolist()
        assert array.flags.aligned == (offset % 4 == 0)
    array[0, 0] = 7
    tb.flush(array)
    assert path.read_bytes()[: offset + 4] == b"x" * offset + np.float32(7).tobytes()
    if offset % 4 == 0:
        assert tb.map_file(path, -1, torch.float32, offset=offset)[0] == 7
    else:
        with pytest.raises(tb.Unsupported, match=rf"byte {offset}.*multiple of 4.*numpy"):
            tb.map_file(path, -1, torch.float32, offset=offset)


@pytest.mark.parametrize("as_", LIBRARIES)
@pytest.mark.parametrize("mode", [*MODES, "w+"])
def test_an_empty_tensor_is_one(tmp_path: Path, torch: ModuleType, mode: Any, as_: Any) -> None:
    (tmp_path / "empty.bin").touch()
    tensor = tb.map_file(tmp_path / "empty.bin", (0, 3), "int16", mode, as_=as_)
    assert tuple(tensor.shape) == (0, 3)
    tb.flush(tensor)
    if mode == "w+":
        tb.map_file(tmp_path / "empty.npy", (2, 0), "int16", mode, as_=as_)
        assert np.load(tmp_path / "empty.npy").shape == (2, 0)


def test_a_file_may_be_larger_than_the_memory_of_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    items = 2**40  # with holes: it takes no room
    with path.open("wb") as file:
        file.truncate(items)
        file.seek(items - 3)
        file.write(b"end")
    for mode in MODES:
        array = tb.map_file(path, dtype="uint8", mode=mode)  # type: ignore[arg-type]
        assert array.shape == (items,)
        assert bytes(array[-3:]) == b"end"
        if mode != "r":
            array[items // 2] = 1


# .npy.

STRUCTURE = np.dtype([("id", "u1"), ("at", "<f4", 3)])


@pytest.mark.parametrize(
    "array",
    [
        NUMBERS,
        np.asfortranarray(NUMBERS),
        np.arange(24, dtype=">i4").reshape(2, 3, 4),
        np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4)),
        np.array(3.5),
        np.array([b"ab", b"c"]),
        np.array(["2020-01-01"], "M8[D]"),
        np.zeros(3, STRUCTURE),
        np.array([1 + 2j]),
        np.array([], np.bool_),
    ],
    ids=str,
)
def test_an_npy_file_is_what_numpy_loads(tmp_path: Path, array: Any) -> None:
    path = write_npy(tmp_path, array)
    for mode in MODES:
        mapped = tb.map_file(path, mode=mode)  # type: ignore[arg-type]
        loaded = np.load(path)
        assert mapped.dtype == loaded.dtype
        assert mapped.strides == loaded.strides or array.size == 0
        assert np.array_equal(mapped, loaded)
    assert np.array_equal(tb.map_file(path, array.shape, array.dtype), array)


def test_a_fortran_file_keeps_its_strides_in_torch(tmp_path: Path, torch: ModuleType) -> None:
    path = write_npy(tmp_path, np.asfortranarray(NUMBERS))
    tensor = tb.map_file(path, as_="torch", mode="r+")
    assert tensor.stride() == (1, 4)
    tensor[3, 5] = 100
    assert np.load(path)[3, 5] == 100


@pytest.mark.parametrize("as_", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128", "bfloat16"])
def test_an_npy_file_that_was_made_is_one_for_numpy(
    tmp_path: Path, torch: ModuleType, dtype: str, as_: Any
) -> None:
    pytest.importorskip("ml_dtypes")
    path = tmp_path / "made.npy"
    kind = getattr(torch, dtype)
    made = tb.map_file(path, (2, 3), kind, "w+", as_=as_)
    assert is_of(as_, made)
    made[1] = 1
    tb.flush(made)
    assert np.load(path).shape == (2, 3)
    again = tb.map_file(path, dtype=kind)
    assert again.dtype == kind
    assert again.tolist() == [[0] * 3, [1] * 3]


def test_what_an_npy_file_says_must_be_what_is_asked_for(tmp_path: Path, torch: ModuleType) -> None:
    path = write_npy(tmp_path)
    assert tb.map_file(path, (-1, 6), torch.float32).shape == (4, 6)
    for asked, named in (
        ({"shape": (6, 4)}, r"shape=\(6, 4\).*\(4, 6\)"),
        ({"dtype": "int32"}, "dtype=int32.*float32"),
        ({"dtype": torch.int32}, r"dtype=torch\.int32.*float32"),
        ({"dtype": ">f4"}, "dtype=>f4.*float32"),
        ({"offset": 8}, "offset=8"),
    ):
        with pytest.raises(tb.InvalidArgument, match=named):
            tb.map_file(path, **asked)


def test_what_pytorch_cannot_have_is_for_numpy(tmp_path: Path, torch: ModuleType) -> None:
    path = write_npy(tmp_path, np.zeros(3, STRUCTURE))
    with pytest.raises(tb.Unsupported, match=r'PyTorch: ask for as_="numpy"'):
        tb.map_file(path, as_="torch")
    fresh = tmp_path / "fresh.npy"
    with pytest.raises(tb.Unsupported, match="PyTorch"):
        tb.map_file(fresh, 3, STRUCTURE, "w+", as_="torch")
    assert not fresh.exists(), "nothing was touched"


def test_python_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([None, {}]), allow_pickle=True)
    for attempt in (
        lambda: tb.map_file(path),
        lambda: tb.map_file(write_raw(tmp_path), dtype=object),
        lambda: tb.map_file(tmp_path / "new.npy", 3, object, "w+"),
    ):
        with pytest.raises(tb.Unsupported, match="Python objects"):
            attempt()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUM", b"not numpy at all", b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\xff\xff{"],
)
def test_a_bad_npy_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises((tb.InvalidArgument, tb.Unsupported), match=r"bad\.npy"):
        tb.map_file(path)


BAD_SHAPES = ["(-1,)", "(1.5,)", f"({2**62}, {2**62})", f"({2**64},)", "(99,)"]


@pytest.mark.parametrize("shape", BAD_SHAPES)
def test_a_bad_shape_in_an_npy_file_is_refused(tmp_path: Path, shape: str) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    path = tmp_path / "bad.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"0" * 16)
    with pytest.raises(tb.InvalidArgument, match=r"bad\.npy"):
        tb.map_file(path)


# .safetensors.


def test_a_safetensors_file_is_a_dict_over_one_mapping(tmp_path: Path, torch: ModuleType) -> None:
    path = two_tensors(tmp_path)
    tensors = tb.map_file(path)
    assert list(tensors) == ["weight", "bias"]
    assert torch.equal(tensors["weight"], torch.from_numpy(NUMBERS))
    assert tensors["bias"].tolist() == [1, 2, 3]
    assert tensors["bias"].data_ptr() - tensors["weight"].data_ptr() == 96
    assert str(path) in Path("/proc/self/maps").read_text()
    tensors.pop("weight")
    assert tensors["bias"].tolist() == [1, 2, 3]
    del tensors
    assert str(path) not in Path("/proc/self/maps").read_text(), "the last view is gone"


def test_names_and_metadata_can_be_asked_for(tmp_path: Path) -> None:
    with tb.MappedFile(two_tensors(tmp_path), as_="numpy") as file:
        assert (file.names, file.metadata) == (["weight", "bias"], {"format": "pt"})
        assert file.tensor("bias").tolist() == [1, 2, 3]
        for name in ("", None, "nobody"):
            with pytest.raises(tb.InvalidArgument, match="'weight', 'bias'"):
                file.tensor(name)
    with tb.MappedFile(write_raw(tmp_path), dtype="f4") as raw:
        assert (raw.names, raw.metadata) == ([], {})
        with pytest.raises(tb.InvalidArgument, match="one tensor"):
            raw.tensor("weight")


SAFETENSORS_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


@pytest.mark.parametrize(("dtype", "name"), SAFETENSORS_DTYPES.items())
def test_every_dtype_of_safetensors(
    tmp_path: Path, torch: ModuleType, dtype: str, name: str
) -> None:
    kind = getattr(torch, name)
    wanted = torch.ones(3, 2).to(kind)
    data = bytes(wanted.view(torch.uint8).flatten().tolist())
    path = write_safetensors(tmp_path, header_of({"t": entry(dtype, [3, 2], 0, len(data))}), data)
    tensor = tb.map_file(path)["t"]
    assert (tensor.dtype, tuple(tensor.shape)) == (kind, (3, 2))
    assert torch.equal(tensor.view(torch.uint8), wanted.view(torch.uint8))
    pytest.importorskip("ml_dtypes")
    array = tb.map_file(path, name="t", as_="numpy")
    assert array.dtype.name == name
    assert array.tobytes() == data


def test_two_in_a_byte_and_six_bits(tmp_path: Path, torch: ModuleType) -> None:
    header = {"four": entry("F4", [2, 8], 0, 8), "six": entry("F6_E2M3", [4], 8, 11)}
    path = write_safetensors(tmp_path, header_of(header), bytes(range(11)))
    four = tb.map_file(path, name="four")
    assert (four.dtype, tuple(four.shape)) == (torch.float4_e2m1fn_x2, (2, 4))
    assert four.view(torch.uint8).flatten().tolist() == list(range(8))
    with pytest.raises(tb.Unsupported, match="F6_E2M3"):
        tb.map_file(path)


def test_without_torch_imported_numpy_does_unless_it_lacks_a_dtype(
    tmp_path: Path, torch: ModuleType, elsewhere: Elsewhere
) -> None:
    def look(plain: str, foreign: str) -> None:
        import sys

        import numpy as np

        import tensorbus as tb

        assert isinstance(tb.map_file(plain)["weight"], np.ndarray)
        assert "torch" not in sys.modules
        tensors = tb.map_file(foreign)
        import torch

        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())

    plain = two_tensors(tmp_path).rename(tmp_path / "plain.safetensors")
    header = {"a": entry("BF16", [2], 0, 4), "b": entry("U8", [2], 4, 6)}
    foreign = write_safetensors(tmp_path, header_of(header), b"\0" * 6)
    elsewhere.run(look, str(plain), str(foreign))


def test_a_tensor_that_is_not_aligned_is_for_numpy(tmp_path: Path, torch: ModuleType) -> None:
    header = json.dumps({"flag": entry("U8", [1], 0, 1), "t": entry("F32", [2], 1, 9)}).encode()
    header += b" " * (-len(header) % 8)
    path = write_safetensors(tmp_path, header, b"\1" + np.float32([1, 2]).tobytes())
    assert tb.map_file(path, as_="numpy")["t"].tolist() == [1, 2]
    assert tb.map_file(path, name="flag").tolist() == [1]
    with pytest.raises(tb.Unsupported, match=r"multiple of 4.*as_=\"numpy\""):
        tb.map_file(path, name="t")


def test_a_safetensors_file_without_tensors_is_an_empty_dict(tmp_path: Path) -> None:
    assert tb.map_file(write_safetensors(tmp_path, b"{}", b"")) == {}
    header = header_of({"none": entry("F32", [0, 5], 0, 0), "also": entry("I8", [2, 0], 0, 0)})
    tensors = tb.map_file(write_safetensors(tmp_path, header, b""), as_="numpy")
    assert {name: array.shape for name, array in tensors.items()} == {
        "none": (0, 5),
        "also": (2, 0),
    }


def test_what_a_safetensors_file_says_itself_is_not_asked_for(tmp_path: Path) -> None:
    path = two_tensors(tmp_path)
    for asked in ({"shape": 3}, {"dtype": "f4"}, {"offset": 8}):
        with pytest.raises(tb.InvalidArgument, match=next(iter(asked))):
            tb.map_file(path, **asked)  # type: ignore[arg-type]
    fresh = tmp_path / "fresh.safetensors"
    with pytest.raises(tb.InvalidArgument, match=r"safetensors\.torch\.save_file"):
        tb.map_file(fresh, 3, "f4", "w+")
    assert not fresh.exists()


GOOD = entry("F32", [2], 0, 8)
BAD_HEADERS: dict[str, tuple[Any, str]] = {
    "not JSON": (b'{"t": }', "header: "),
    "not an object": (b"[1, 2]  ", "header: expected a JSON object"),
    "blank first": (b'  {"t": 1}', "header: expected a JSON object"),
    "not UTF-8": (b'{"\xff": 1}', "header: "),
    "NaN": (b'{"t": NaN}', "NaN is not JSON"),
    "too deep": (b'{"t": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "header: "),
    "a number too long": (b'{"t": ' + b"9" * 10_000 + b"}", "header: "),
    "a name twice": (b'{"t": 1, "t": 2}', "'t' is there twice"),
    "a field twice": (b'{"t": {"dtype": "F32", "dtype": "F32"}}', "'dtype' is there twice"),
    "metadata": ({"__metadata__": {"a": 1}, "t": GOOD}, "__metadata__: "),
    "metadata list": ({"__metadata__": [], "t": GOOD}, "__metadata__: "),
    "no object": ({"t": 3}, "'t': expected an object"),
    "a field lacks": ({"t": {"dtype": "F32", "shape": [2]}}, "'t': expected an object of dtype"),
    "one more": ({"t": {**GOOD, "x": 1}}, "'t': expected an object of dtype"),
    "dtype": ({"t": {**GOOD, "dtype": "F33"}}, "'t': dtype: .*F33"),
    "dtype number": ({"t": {**GOOD, "dtype": 7}}, "'t': dtype: "),
    "shape": ({"t": {**GOOD, "shape": 2}}, "'t': shape: "),
    "negative": ({"t": {**GOOD, "shape": [-2]}}, "'t': shape: "),
    "fraction": ({"t": {**GOOD, "shape": [2.0]}}, "'t': shape: "),
    "true": ({"t": {**GOOD, "shape": [True, 2]}}, "'t': shape: "),
    "huge": ({"t": {**GOOD, "shape": [2**64]}}, "'t': shape: "),
    "overflow": ({"t": {**GOOD, "shape": [2**62, 4]}}, "'t': data_offsets: "),
    "size": ({"t": {**GOOD, "shape": [3]}}, "'t': data_offsets: 8 bytes"),
    "offsets": ({"t": {**GOOD, "data_offsets": [0, 8, 8]}}, "'t': data_offsets: "),
    "backwards": ({"t": {**GOOD, "data_offsets": [8, 0]}}, "'t': data_offsets: "),
    "begins late": ({"t": entry("F32", [1], 4, 8)}, "'t': data_offsets: .*at 4"),
    "gap": ({"a": entry("U8", [3], 0, 3), "t": entry("U8", [4], 4, 8)}, "'t': data_offsets: "),
    "overlap": ({"a": GOOD, "t": entry("F32", [1], 4, 8)}, "'t': data_offsets: .*at 4"),
    "beyond": ({"t": entry("F32", [3], 0, 12)}, "about 12 bytes, but 8 come"),
    "too little": ({"t": entry("F32", [1], 0, 4)}, "about 4 bytes, but 8 come"),
    "odd F4": ({"t": entry("F4", [2, 4, 1], 0, 4), "u": entry("U8", [4], 4, 8)}, "'t': shape: "),
}


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_a_bad_header_is_refused_and_the_field_named(tmp_path: Path, what: str) -> None:
    header, named = BAD_HEADERS[what]
    text = header if isinstance(header, bytes) else header_of(header)
    path = write_safetensors(tmp_path, text, b"\0" * 8)
    with pytest.raises(tb.InvalidArgument, match=named) as refusal:
        tb.map_file(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("length", [7, 2**63, 2**64 - 1, 100_000_001, 1000])
def test_a_header_length_that_cannot_be_is_refused(tmp_path: Path, length: int) -> None:
    path = write_safetensors(tmp_path, header_of({"t": GOOD}), b"\0" * 8, length)
    with pytest.raises(tb.InvalidArgument, match="header"):
        tb.map_file(path)
    path.write_bytes(b"\0" * 7)
    with pytest.raises(tb.InvalidArgument, match="it has 7 bytes"):
        tb.map_file(path)


def read_all(path: Path) -> None:
    """Whatever is in the file: its tensors, or an error of ours."""
    for as_ in ("numpy", "torch"):
        try:
            found = tb.map_file(path, as_=as_)  # type: ignore[arg-type]
        except tb.Error:
            continue
        for tensor in found.values() if isinstance(found, dict) else [found]:
            tensor.tolist() if as_ == "torch" else tensor.tobytes()


PATCHES = [b"", b"0", b"9" * 20, b"-1", b"1e3", b"[", b"}", b'"', b"\\ud800", b"null", b"F4"]


def mutated(content: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found))
        patch = chance.choice([*PATCHES, bytes([chance.randrange(256)])])
        found[at : at + chance.randint(0, 3)] = patch
    return bytes(found)


@pytest.mark.parametrize("kind", ["safetensors", "npy"])
def test_random_damage_is_an_error_of_ours_or_none(
    tmp_path: Path, torch: ModuleType, kind: str
) -> None:
    path = two_tensors(tmp_path) if kind == "safetensors" else write_npy(tmp_path)
    content = path.read_bytes()
    for seed in range(1000):
        path.write_bytes(mutated(content, seed))
        try:
            read_all(path)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {path.read_bytes()!r}") from error


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*SAFETENSORS_DTYPES, "F4", "F6_E3M2"]) | JSON,
        "shape": st.lists(st.integers(-1, 2**63), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(-1, 20), min_size=2, max_size=2) | JSON,
    }
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(header=st.dictionaries(st.text(max_size=4) | st.just("__metadata__"), FIELDS | JSON))
def test_any_json_is_an_error_of_ours_or_a_file(
    tmp_path: Path, torch: ModuleType, header: Any
) -> None:
    read_all(write_safetensors(tmp_path, header_of(header), b"\0" * 16))


# What reaches the file.


@pytest.mark.parametrize("as_", LIBRARIES)
def test_a_file_is_made_or_emptied_with_all_its_blocks(
    tmp_path: Path, torch: ModuleType, as_: Any
) -> None:
    path = tmp_path / "made.bin"
    path.write_bytes(b"x" * 5)
    tensor = tb.map_file(path, (1000, 100), "int32", "w+", as_=as_, offset=8)
    assert path.stat().st_size == 8 + 400_000
    assert path.stat().st_blocks * 512 >= 400_000
    assert not tensor.any()
    assert path.read_bytes() == b"\0" * path.stat().st_size


def test_what_a_file_needs_to_be_made_is_asked_for_before_it_is_touched(
    tmp_path: Path, torch: ModuleType
) -> None:
    path = write_raw(tmp_path)
    before = path.read_bytes()
    for shape, dtype, what in (
        (None, "f4", "shape"),
        (3, None, "dtype"),
        ((-1, 3), "f4", "shape"),
        ((2**62, 4), "f4", "bytes are needed"),
        (3, "no such", "dtype"),
    ):
        with pytest.raises(tb.Error, match=what):
            tb.map_file(path, shape, dtype, "w+")
    with pytest.raises(tb.Unsupported, match="multiple of 4"):
        tb.map_file(path, 3, "float32", "w+", offset=3, as_="torch")
    with pytest.raises(tb.InvalidArgument, match=r"mode='w'.*'r\+'"):
        tb.map_file(path, 3, "f4", "w")  # type: ignore[arg-type]
    with pytest.raises(tb.InvalidArgument, match="as_='jax'"):
        tb.map_file(path, 3, "f4", as_="jax")  # type: ignore[arg-type]
    assert path.read_bytes() == before


def read_with_read(path: str) -> bytes:
    """By another process, which knows nothing of mappings."""
    code = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    command = [sys.executable, "-c", code, path]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("as_", LIBRARIES)
def test_what_was_flushed_is_what_another_process_reads(
    tmp_path: Path, torch: ModuleType, as_: Any
) -> None:
    path = write_raw(tmp_path)
    tensor = tb.map_file(path, (4, 6), "float32", "r+", as_=as_)
    part = tensor[1:3, ::2]
    part[:] = 50
    tb.flush(part)
    wanted = NUMBERS.copy()
    wanted[1:3, ::2] = 50
    assert read_with_read(str(path)) == wanted.tobytes()
    other = tb.map_file(path, dtype="float32")
    assert other[6] == 50
    tensor[1, 0] = 60
    assert other[6] == 60, "one memory"


def test_only_tensors_of_files_that_are_written_can_be_flushed(
    tmp_path: Path, torch: ModuleType
) -> None:
    path = write_raw(tmp_path)
    for mode in ("r", "c"):
        with pytest.raises(tb.InvalidArgument, match=r'mode="r\+"'):
            tb.flush(tb.map_file(path, dtype="f4", mode=mode))  # type: ignore[arg-type]
    mapped = tb.map_file(path, dtype="f4", mode="r+")
    foreign = [NUMBERS, torch.ones(3), mapped.copy(), torch.eye(3).to_sparse(), {"a": mapped}, 3]
    for tensor in foreign:
        with pytest.raises(tb.InvalidArgument, match="mapped file"):
            tb.flush(tensor)
    tb.flush(torch.from_numpy(mapped)[3:].view(torch.int32))
    tb.flush(mapped[::-1])


def test_a_tensor_outlives_the_file_object_and_the_file_its_name(tmp_path: Path) -> None:
    path = write_raw(tmp_path)
    with tb.MappedFile(path, (4, 6), "f4", "r+") as file:
        tensor = file.data
        assert file.data is tensor
        assert (file.path, file.mode) == (str(path), "r+")
    assert "closed" in repr(file)
    for call in (file.check, file.flush, file.tensor, lambda: file.data):
        with pytest.raises(tb.Closed):
            call()
    file.close()
    path.unlink()
    row = tensor[2]
    del tensor
    row[:] = 1
    tb.flush(row)
    assert row.tolist() == [1] * 6


def test_a_forked_child_reads_writes_and_flushes(tmp_path: Path) -> None:
    path = write_raw(tmp_path)
    file = tb.MappedFile(path, dtype="f4", mode="r+")

    def write() -> None:
        file.data[0] = 77
        file.flush()
        file.check()

    in_a_fork(write)
    assert file.data[0] == 77


def test_a_mapped_tensor_can_be_published(tmp_path: Path, torch: ModuleType) -> None:
    with joined() as (publisher, subscriber):
        publisher.publish(tb.map_file(two_tensors(tmp_path)))
        assert torch.equal(subscriber.receive().data["weight"], torch.from_numpy(NUMBERS))


# What is not there.


def test_a_file_that_is_not_there_or_not_ours_is_an_error_of_open(tmp_path: Path) -> None:
    for mode in MODES:
        with pytest.raises(FileNotFoundError):
            tb.map_file(tmp_path / "none.bin", dtype="f4", mode=mode)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        tb.map_file(tmp_path / "no" / "folder.bin", 3, "f4", "w+")
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(tb.InvalidArgument, match="not a regular file"):
            tb.map_file(odd, 0, "u1")


def test_a_file_that_is_too_short_is_refused_with_both_sizes(tmp_path: Path) -> None:
    path = write_raw(tmp_path)
    with pytest.raises(tb.InvalidArgument, match=r"has 96 bytes, but 100 bytes"):
        tb.map_file(path, 25, "f4")
    with pytest.raises(tb.InvalidArgument, match=r"has 96 bytes, but 96 bytes from byte 4 on"):
        tb.map_file(path, 24, "f4", offset=4)
    with pytest.raises(tb.InvalidArgument, match="offset=97, but it has 96"):
        tb.map_file(path, dtype="f4", offset=97)
    for huge in ((2**62, 2**62), 2**62, (2**62, 0, 2**62)):
        with pytest.raises(tb.InvalidArgument):
            tb.map_file(path, huge, "f4")
    npy = write_npy(tmp_path)
    os.truncate(npy, npy.stat().st_size - 1)
    with pytest.raises(tb.InvalidArgument, match=r"has 223 bytes, but 96 bytes"):
        tb.map_file(npy)
    model = two_tensors(tmp_path)
    os.truncate(model, model.stat().st_size - 1)
    with pytest.raises(tb.InvalidArgument, match="about 120 bytes, but 119 come"):
        tb.map_file(model)


def use_what_is_cut_short(path: str, library: Any, mode: Any) -> None:
    faulthandler.enable()  # before: what is not ours is passed on to it
    file = tb.MappedFile(path, dtype="uint8", mode=mode, as_=library)
    data = file.data
    assert data[-1] == 7
    file.check()
    os.truncate(path, 10)
    assert data.sum() == 10 * 7  # the pages that are gone are zeros
    if mode != "r":
        data[-1] = 3
        assert data[-1] == 3
    checks = [file.check] + [file.flush, lambda: tb.flush(data[5:])] * (mode == "r+")
    for check in checks:
        with pytest.raises(tb.SystemCallError) as refusal:
            check()
        for part in ("was cut short", "bytes expected, 10 bytes there", path):
            assert part in str(refusal.value)
    tell("survived")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_that_is_cut_short_while_it_is_used_is_an_error_and_not_the_end(
    tmp_path: Path, torch: ModuleType, elsewhere: Elsewhere, library: str, mode: str
) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(b"\7" * 10 * PAGE)
    process = elsewhere.start(use_what_is_cut_short, str(path), library, mode)
    assert process.hear() == "survived"
    code, errors = process.end()
    assert code == 0, errors
    assert errors.count("tensorbus: the mapped file") == 1
    assert str(path) in errors
    assert path.stat().st_size == 10


def test_the_guard_can_be_turned_off(tmp_path: Path, elsewhere: Elsewhere) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(b"\7" * 10 * PAGE)
    off = {"TENSORBUS_BUS_GUARD": "0"}
    process = elsewhere.start(use_what_is_cut_short, str(path), "numpy", "r", env=off)
    code, errors = process.end()
    assert code == -signal.SIGBUS, errors
    assert "tensorbus: the mapped file" not in errors
    assert "Bus error" in errors, "said by faulthandler"


def test_a_system_call_gets_an_error_where_a_reader_gets_zeros(tmp_path: Path) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(b"\7" * 10 * PAGE)
    data = tb.map_file(path, dtype="u1")
    os.truncate(path, 0)
    with (
        open(tmp_path / "out", "wb", buffering=0) as out,
        pytest.raises(OSError, match=os.strerror(errno.EFAULT)),
    ):
        out.write(data)


def test_who_only_reads_is_told_that_somebody_wrote(tmp_path: Path) -> None:
    path = write_raw(tmp_path)
    files = {mode: tb.MappedFile(path, dtype="f4", mode=mode) for mode in ("r", "r+", "c")}  # type: ignore[arg-type]
    for file in files.values():
        file.check()
    os.utime(path, ns=(1, 1))  # as any later write would do
    files["r+"].check()
    for mode in ("r", "c"):
        with pytest.raises(tb.SystemCallError, match="somebody wrote to it"):
            files[mode].check()


def test_a_disk_that_is_full_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for name in ("large.bin", "large.npy"):
            with pytest.raises(tb.OutOfMemory, match="RLIMIT_FSIZE is 100000"):
                tb.map_file(tmp_path / name, 100_001, "u1", "w+")
            assert (tmp_path / name).stat().st_size == 0

    in_a_fork(fill)


def test_a_write_to_a_tensor_that_is_only_read_names_the_file(
    tmp_path: Path, torch: ModuleType, elsewhere: Elsewhere
) -> None:
    def write(path: str) -> None:
        import resource

        import torch

        import tensorbus as tb

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        tb.map_file(path, dtype=torch.float32)[3] = 1

    path = write_raw(tmp_path)
    code, errors = elsewhere.start(write, str(path)).end()
    assert code == -signal.SIGSEGV
    assert f"mapped from file '{path}' with mode=\"r\"" in errors
    assert 'mode="c"' in errors


def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parent.parent / "docs" / "files.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(page.partition("```python")[2].partition("```")[0], {})
