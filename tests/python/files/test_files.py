"""Tensors over files: what is in them, and who sees what is written."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.file_formats import (
    LIBRARIES,
    MODES,
    NUMBERS,
    PAGE,
    is_of,
    two_tensors,
    write_npy,
    write_raw,
)
from support.harness import in_a_fork, joined
from support.repository import ROOT

# What is in a file.


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["raw", "npy", "safetensors"])
def test_a_file_is_a_tensor_that_lies_in_it(
    tmp_path: Path, torch: ModuleType, kind: str, mode: Any, library: Any
) -> None:
    if kind == "raw":
        path = write_raw(tmp_path)
        tensor = tb.map_file(path, (4, 6), "float32", mode, library=library)
    elif kind == "npy":
        path = write_npy(tmp_path)
        tensor = tb.map_file(path, mode=mode, library=library)
    else:
        path = two_tensors(tmp_path)
        tensor = tb.map_file(path, mode=mode, name="weight", library=library)
    before = path.read_bytes()
    assert is_of(library, tensor)
    assert tensor.tolist() == NUMBERS.tolist()
    if mode == "r":
        if library == "numpy":
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
    for name in ("f4", "float32"):
        assert tb.map_file(path, dtype=name, library="torch").dtype == torch.float32
    for name in ("abs", "Tensor", "no such"):
        with pytest.raises(tb.Unsupported, match=r"dtype|Python objects"):
            tb.map_file(path, dtype=name, library="torch")
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


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("mode", [*MODES, "w+"])
def test_an_empty_tensor_is_one(tmp_path: Path, torch: ModuleType, mode: Any, library: Any) -> None:
    (tmp_path / "empty.bin").touch()
    tensor = tb.map_file(tmp_path / "empty.bin", (0, 3), "int16", mode, library=library)
    assert tuple(tensor.shape) == (0, 3)
    tb.flush(tensor)
    if mode == "w+":
        tb.map_file(tmp_path / "empty.npy", (2, 0), "int16", mode, library=library)
        assert np.load(tmp_path / "empty.npy").shape == (2, 0)


def test_a_file_of_huge_pages_is_refused() -> None:
    huge = os.memfd_create("huge", os.MFD_CLOEXEC | os.MFD_HUGETLB)
    try:
        os.ftruncate(huge, 4 << 20)
        with pytest.raises(tb.Unsupported, match="hugetlbfs"):
            tb.map_file(f"/proc/self/fd/{huge}", (4096,), "uint8", "r")
    finally:
        os.close(huge)


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
    tensor = tb.map_file(path, library="torch", mode="r+")
    assert tensor.stride() == (1, 4)
    tensor[3, 5] = 100
    assert np.load(path)[3, 5] == 100


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128", "bfloat16"])
def test_an_npy_file_that_was_made_is_one_for_numpy(
    tmp_path: Path, torch: ModuleType, dtype: str, library: Any
) -> None:
    pytest.importorskip("ml_dtypes")
    path = tmp_path / "made.npy"
    kind = getattr(torch, dtype)
    made = tb.map_file(path, (2, 3), kind, "w+", library=library)
    assert is_of(library, made)
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
    with pytest.raises(tb.Unsupported, match=r'PyTorch: ask for library="numpy"'):
        tb.map_file(path, library="torch")
    fresh = tmp_path / "fresh.npy"
    with pytest.raises(tb.Unsupported, match="PyTorch"):
        tb.map_file(fresh, 3, STRUCTURE, "w+", library="torch")
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


def test_any_number_beside_a_size_of_zero_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.bin"
    path.write_bytes(b"")
    assert tb.map_file(path, dtype="f4").shape == (0,)
    assert tb.map_file(path, (-1, 3), "f4").shape == (0, 3)
    with pytest.raises(tb.InvalidArgument, match=r"shape=\(-1, 0\): -1 could be any size"):
        tb.map_file(path, (-1, 0), "f4")


# Whose header is of version 1.0, 2.0 and 3.0.
FIELDS = {
    1: np.dtype([("a", "<f4"), ("b\\", "<i2", (2,))]),
    2: np.dtype([(f"{number:040}", "u1") for number in range(1500)]),
    3: np.dtype([("\u65e5\\\u672c '", "<f4"), ("\U0001f642", ">i2")]),
}


@pytest.mark.filterwarnings("ignore:Stored array in format")
@pytest.mark.parametrize("version", FIELDS)
def test_fields_of_any_name_go_both_ways(tmp_path: Path, version: int) -> None:
    dtype = FIELDS[version]
    array = np.frombuffer(np.random.default_rng(1).bytes(3 * dtype.itemsize), dtype)
    made = tmp_path / "made.npy"
    tb.map_file(made, 3, dtype, "w+")[:] = array
    read = np.load(made, max_header_size=1 << 20)
    assert (made.read_bytes()[6], read.dtype) == (version, dtype)
    assert read.tobytes() == array.tobytes()
    if version != 2:  # NumPy, too, refuses a header of more than 10,000 bytes
        found = tb.map_file(write_npy(tmp_path, array))
        assert (found.dtype, found.tobytes()) == (dtype, array.tobytes())
        assert (tb.map_file(made) == array).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_header_of_version_3_may_be_of_any_array(tmp_path: Path, order: Any) -> None:
    path = tmp_path / "numbers.npy"
    array = np.asarray(NUMBERS, order=order)
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, version=(3, 0))
    assert (tb.map_file(path) == array).all()
    content = path.read_bytes()
    for damaged in (
        content[:9],
        content[:40],
        content[:8] + b"\xff\xff\xff\xff" + content[12:],
        content[:12] + b"\xff" + content[13:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(tb.InvalidArgument, match=r"numbers\.npy': not a \.npy file"):
            tb.map_file(path)


@pytest.mark.parametrize("version", [(1, 1), (4, 0), (0, 9)])
def test_a_version_of_npy_that_is_not_known_is_refused(
    tmp_path: Path, version: tuple[int, int]
) -> None:
    path = write_npy(tmp_path)
    content = bytearray(path.read_bytes())
    content[6:8] = version
    path.write_bytes(content)
    with pytest.raises(tb.Unsupported) as refusal:
        tb.map_file(path)
    number = ".".join(map(str, version))
    assert f"a .npy file of version {number}: expected 1.0 to 3.0" in str(refusal.value)


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


# What reaches the file.


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_is_made_or_emptied_with_all_its_blocks(
    tmp_path: Path, torch: ModuleType, library: Any
) -> None:
    path = tmp_path / "made.bin"
    path.write_bytes(b"x" * 5)
    tensor = tb.map_file(path, (1000, 100), "int32", "w+", library=library, offset=8)
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
        tb.map_file(path, 3, "float32", "w+", offset=3, library="torch")
    with pytest.raises(tb.InvalidArgument, match=r"mode='w'.*'r\+'"):
        tb.map_file(path, 3, "f4", "w")  # type: ignore[arg-type]
    with pytest.raises(tb.InvalidArgument, match="library='jax'"):
        tb.map_file(path, 3, "f4", library="jax")  # type: ignore[arg-type]
    assert path.read_bytes() == before


def read_with_read(path: str) -> bytes:
    """By another process, which knows nothing of mappings."""
    code = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    command = [sys.executable, "-c", code, path]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_was_flushed_is_what_another_process_reads(
    tmp_path: Path, torch: ModuleType, library: Any
) -> None:
    path = write_raw(tmp_path)
    tensor = tb.map_file(path, (4, 6), "float32", "r+", library=library)
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


def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "files.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(page.partition("```python")[2].partition("```")[0], {})
