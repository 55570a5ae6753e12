"""Files that are not there, too short, or cut short while they are mapped."""

from __future__ import annotations

import errno
import faulthandler
import os
import resource
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.file_formats import (
    LIBRARIES,
    MODES,
    PAGE,
    two_tensors,
    write_npy,
    write_raw,
)
from support.harness import Elsewhere, in_a_fork, joined, tell


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
    with pytest.raises(tb.InvalidArgument, match="describes 120 bytes, but 119 follow"):
        tb.map_file(model)


def use_what_is_cut_short(path: str, library: Any, mode: Any) -> None:
    faulthandler.enable()  # before: what is not ours is passed on to it
    file = tb.MappedFile(path, dtype="uint8", mode=mode, library=library)
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
        for part in ("was cut short", "bytes expected, 10 bytes found", path):
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
        with pytest.raises(tb.SystemCallError, match="written to after it was mapped"):
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


def publish_what_is_cut_short(path: str) -> None:
    """A copy of so many bytes is also made by threads of the library."""
    size = 64 << 20
    with joined("topic") as (publisher, subscriber):
        for value in range(20):
            publisher.publish(np.full(size, value, np.uint8))
            assert subscriber.receive().data[-1] == value
        for _ in range(5):
            Path(path).write_bytes(b"\7" * size)
            file = tb.map_file(path, dtype="u1", mode="c")
            os.truncate(path, 10)
            publisher.publish(file)
            data = subscriber.receive().data
            assert data[:10].tolist() == [7] * 10
            assert not data[PAGE:].any()
    tell("whole")


def test_a_large_file_that_is_cut_short_is_published(elsewhere: Elsewhere, tmp_path: Path) -> None:
    other = elsewhere.start(publish_what_is_cut_short, str(tmp_path / "file"))
    assert other.hear() == "whole"
    code, errors = other.end()
    assert code == 0, errors
    assert errors.count("was cut short") == 5
