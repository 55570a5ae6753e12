"""Files of the safetensors format: their tensors, and headers that are not right."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorbus as tb
from support.file_formats import (
    NUMBERS,
    entry,
    header_of,
    two_tensors,
    write_npy,
    write_raw,
    write_safetensors,
)
from support.harness import Elsewhere


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
    with tb.MappedFile(two_tensors(tmp_path), library="numpy") as file:
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
    array = tb.map_file(path, name="t", library="numpy")
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
    assert tb.map_file(path, library="numpy")["t"].tolist() == [1, 2]
    assert tb.map_file(path, name="flag").tolist() == [1]
    with pytest.raises(tb.Unsupported, match=r"multiple of 4.*library=\"numpy\""):
        tb.map_file(path, name="t")


def test_a_safetensors_file_without_tensors_is_an_empty_dict(tmp_path: Path) -> None:
    assert tb.map_file(write_safetensors(tmp_path, b"{}", b"")) == {}
    header = header_of({"none": entry("F32", [0, 5], 0, 0), "also": entry("I8", [2, 0], 0, 0)})
    tensors = tb.map_file(write_safetensors(tmp_path, header, b""), library="numpy")
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


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else []


GOOD = entry("F32", [2], 0, 8)
# What the safetensors library reads, though its description of the format does not have it.
READ_HEADERS: dict[str, bytes] = {
    "blanks around": b"\n\t  " + header_of({"t": GOOD}) + b"\r\n",
    "metadata null": header_of({"__metadata__": None, "t": GOOD}),
    "further keys": header_of({"t": {**GOOD, "a": 1.5e3, "b": [None, True, {"c": "\0"}]}}),
    "a further key first, and twice": b'{"t": {"x": -0, "x": "", ' + header_of(GOOD)[1:] + b"}",
    "many levels": header_of({"t": {**GOOD, "x": nested(124)}}),
}
NOTHING = b'{"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}'
BAD_HEADERS: dict[str, tuple[Any, str]] = {
    "not JSON": (b'{"t": }', "'t': expected an object"),
    "no colon": (b'{"t" 3} ', "header: "),
    "not an object": (b"[1, 2]  ", "header: expected a JSON object"),
    "a mark first": (b'\xef\xbb\xbf{"t": 1}', "header: expected a JSON object"),
    "not UTF-8": (b'{"\xff": 1}', "header: "),
    "NaN": (b'{"t": NaN}', "'t': expected an object"),
    "too deep": (b'{"t": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "'t': expected an object"),
    "a number too long": (b'{"t": ' + b"9" * 10_000 + b"}", "'t': expected an object"),
    "a name twice": (b'{"t": ' + NOTHING + b', "t": ' + NOTHING + b"}", "'t' is there twice"),
    "a field twice": (b'{"t": {"dtype": "F32", "dtype": "F32"}}', "'dtype' is there twice"),
    "metadata": ({"__metadata__": {"a": 1}, "t": GOOD}, "__metadata__: "),
    "metadata list": ({"__metadata__": [], "t": GOOD}, "__metadata__: "),
    "no object": ({"t": 3}, "'t': expected an object"),
    "a field lacks": ({"t": {"dtype": "F32", "shape": [2]}}, "'t': expected an object of dtype"),
    "more levels": ({"t": {**GOOD, "x": nested(126)}}, "levels"),
    "more that is not JSON": (b'{"t": {"x": 01}}', "header: byte 13"),
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
    "beyond": ({"t": entry("F32", [3], 0, 12)}, "describes 12 bytes, but 8 follow"),
    "too little": ({"t": entry("F32", [1], 0, 4)}, "describes 4 bytes, but 8 follow"),
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


@pytest.mark.parametrize("what", READ_HEADERS)
def test_what_the_library_reads_is_read(tmp_path: Path, what: str) -> None:
    data = np.float32([1, 2])
    path = write_safetensors(tmp_path, READ_HEADERS[what], data.tobytes())
    with tb.MappedFile(path, library="numpy") as file:
        assert file.tensor("t").tolist() == [1, 2]
        assert (file.names, file.metadata) == (["t"], {})
    library = pytest.importorskip("safetensors.numpy")
    assert library.load_file(path)["t"].tolist() == [1, 2]


def test_a_zero_byte_in_a_name_is_not_supported(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path, header_of({"t\0": GOOD}), b"\0" * 8)
    with pytest.raises(tb.Unsupported, match="has a zero byte"):
        tb.map_file(path)


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
    for library in ("numpy", "torch"):
        try:
            found = tb.map_file(path, library=library)  # type: ignore[arg-type]
        except tb.Error:
            continue
        for tensor in found.values() if isinstance(found, dict) else [found]:
            tensor.tolist() if library == "torch" else tensor.tobytes()


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
