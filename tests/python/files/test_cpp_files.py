"""Files that Python writes and C++ maps, and the other way round; what both refuse."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

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
from support.repository import BUILT
from test_files import BAD_SHAPES
from test_safetensors import BAD_HEADERS, GOOD, READ_HEADERS, SAFETENSORS_DTYPES, mutated

PROGRAM = BUILT / "public_tests"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

INVALID_ARGUMENT, UNSUPPORTED = "0", "1"


class Found(NamedTuple):
    """A tensor, as C++ tells of it."""

    name: str
    dtype: str
    shape: list[int]
    strides: list[int]
    content: bytes


def ask(role: str, *arguments: str | Path) -> list[list[str]]:
    """The lines that the program tells, which are fields."""
    command = [PROGRAM, "--role", role, *arguments]
    told = subprocess.run(command, capture_output=True, check=False, timeout=100)
    assert told.returncode == 0, told.stderr.decode()
    return [line.split("\t") for line in told.stdout.decode().split("\n")[:-1]]


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def tensors_in(path: Path, dtype: str = "") -> list[Found]:
    lines = ask("tell_file", dtype, path)
    assert not [line for line in lines if line[0] == "error"], lines
    return [
        Found(name, kind, numbers_in(shape), numbers_in(strides), bytes.fromhex(content))
        for what, name, kind, shape, strides, content in (
            line for line in lines if line[0] == "tensor"
        )
    ]


def refusal_of(path: Path, dtype: str = "") -> tuple[str, str]:
    """The code, and the message."""
    (what, *rest) = ask("tell_file", dtype, path)[-1]
    return (rest[0], rest[1]) if what == "error" else ("", "")


def test_cpp_maps_what_python_wrote(tmp_path: Path) -> None:
    floats = Found("", "float32", [4, 6], [6, 1], NUMBERS.tobytes())
    assert tensors_in(write_npy(tmp_path)) == [floats]
    fortran = write_npy(tmp_path, np.asfortranarray(NUMBERS))
    assert tensors_in(fortran) == [floats._replace(strides=[1, 4], content=NUMBERS.T.tobytes())]
    raw = write_raw(tmp_path)
    assert tensors_in(raw, "float32") == [floats._replace(shape=[24], strides=[1])]
    assert tensors_in(two_tensors(tmp_path)) == [
        floats._replace(name="weight"),
        Found("bias", "int64", [3], [1], np.array([1, 2, 3], np.int64).tobytes()),
    ]
    assert ["metadata", "format", "pt"] in ask("tell_file", "", tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ],
)
def test_an_npy_file_of_every_dtype_goes_both_ways(tmp_path: Path, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    (found,) = tensors_in(write_npy(tmp_path, array))
    assert (found.dtype, found.shape, found.content) == (dtype, [2, 3], array.tobytes())
    made = tmp_path / "made.npy"
    ask("make_file", dtype, made)
    loaded = np.load(made)
    assert (loaded.dtype, loaded.shape) == (np.dtype(dtype), (2, 3))
    assert loaded.tobytes() == bytes(range(loaded.nbytes))
    assert tb.map_file(made).tobytes() == loaded.tobytes()


def test_bfloat16_goes_both_ways(tmp_path: Path, torch: ModuleType) -> None:
    path = tmp_path / "made.npy"
    ask("make_file", "bfloat16", path)
    tensor = tb.map_file(path, dtype=torch.bfloat16, mode="r+")
    assert tensor.view(torch.uint8).flatten().tolist() == list(range(12))
    tensor[0] = 1
    (found,) = tensors_in(path, "bfloat16")
    assert found.content == bytes([0x80, 0x3F] * 3 + list(range(6, 12)))
    code, message = refusal_of(path)
    assert code == UNSUPPORTED
    assert "no element type: give the dtype" in message


def test_cpp_has_the_dtypes_of_safetensors_that_python_has(tmp_path: Path) -> None:
    header: dict[str, Any] = {}
    end = 0
    for dtype, name in SAFETENSORS_DTYPES.items():
        begin, end = end, end + 4 * tb_bytes(name)
        header[dtype] = entry(dtype, [2, 2], begin, end)
    content = bytes(number % 256 for number in range(end))
    found = tensors_in(write_safetensors(tmp_path, header_of(header), content))
    assert {tensor.name: tensor.dtype for tensor in found} == SAFETENSORS_DTYPES
    assert b"".join(tensor.content for tensor in found) == content


def tb_bytes(name: str) -> int:
    """Of an element; those that NumPy lacks say it in their names."""
    if name == "bool":
        return 1
    return int("".join(filter(str.isdigit, name.partition("_")[0]))) // 8


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_a_bad_header_is_refused_as_in_python(tmp_path: Path, what: str) -> None:
    header, named = BAD_HEADERS[what]
    text = header if isinstance(header, bytes) else header_of(header)
    path = write_safetensors(tmp_path, text, b"\0" * 8)
    code, message = refusal_of(path)
    assert code == INVALID_ARGUMENT
    assert message.startswith(f"file '{path}': ")
    assert re.search(named, message)


@pytest.mark.parametrize("what", READ_HEADERS)
def test_what_the_library_reads_is_read(tmp_path: Path, what: str) -> None:
    data = np.float32([1, 2]).tobytes()
    path = write_safetensors(tmp_path, READ_HEADERS[what], data)
    assert tensors_in(path) == [Found("t", "float32", [2], [1], data)]


@pytest.mark.parametrize("version", ["1.1", "4.0"])
def test_a_version_of_npy_that_is_not_known_is_refused_as_in_python(
    tmp_path: Path, version: str
) -> None:
    path = write_npy(tmp_path)
    content = bytearray(path.read_bytes())
    content[6:8] = map(int, version.split("."))
    path.write_bytes(content)
    code, message = refusal_of(path)
    assert code == UNSUPPORTED
    with pytest.raises(tb.Unsupported) as refusal:
        tb.map_file(path)
    assert str(refusal.value) == message
    assert f"a .npy file of version {version}: expected 1.0 to 3.0" in message


@pytest.mark.parametrize("length", [7, 2**63, 2**64 - 1, 100_000_001, 1000])
def test_a_header_length_that_cannot_be_is_refused(tmp_path: Path, length: int) -> None:
    path = write_safetensors(tmp_path, header_of({"t": GOOD}), b"\0" * 8, length)
    code, message = refusal_of(path)
    assert code == INVALID_ARGUMENT
    assert "header" in message


@pytest.mark.parametrize("shape", BAD_SHAPES)
def test_a_bad_shape_in_an_npy_file_is_refused(tmp_path: Path, shape: str) -> None:
    path = write_npy(tmp_path)
    content = path.read_bytes().replace(b"(4, 6), }", f"{shape}, }}".encode())
    path.write_bytes(content)
    with pytest.raises(tb.InvalidArgument):
        tb.map_file(path)
    code, message = refusal_of(path)
    assert code == INVALID_ARGUMENT
    assert message.startswith(f"file '{path}': ")


@pytest.mark.parametrize("kind", ["safetensors", "npy"])
def test_what_cpp_takes_of_damaged_files_python_takes_as_the_same(
    tmp_path: Path, kind: str
) -> None:
    """C++ refuses more: what is not UTF-8, and what NumPy's parser of Python guesses."""
    path = two_tensors(tmp_path) if kind == "safetensors" else write_npy(tmp_path)
    content = path.read_bytes()
    taken = 0
    for seed in range(200):
        path.write_bytes(mutated(content, seed))
        if refusal_of(path)[0]:
            continue
        taken += 1
        mapped = tb.map_file(path, library="numpy")
        arrays = mapped if isinstance(mapped, dict) else {"": mapped}
        for found in tensors_in(path):
            array = arrays[found.name]
            assert (list(array.shape), array.dtype.name) == (found.shape, found.dtype), seed
            assert array.tobytes(order="A") == found.content, seed
    assert taken
