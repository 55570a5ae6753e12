"""Programs that write as many bytes as a recorder does."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np


def dd_ns(path: Path, count: int, size: int) -> float:
    """Nanoseconds that `dd` takes for each of `count` writes of `size` bytes."""
    path.unlink(missing_ok=True)
    command = ["dd", "if=/dev/zero", f"of={path}", f"bs={size}", f"count={count}"]
    begin = time.perf_counter_ns()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return (time.perf_counter_ns() - begin) / count


def mcap_ns(path: Path, count: int, size: int) -> float:
    """The same of the package `mcap`, of a message that lies in memory already.

    Raises:
        ImportError: it is not installed.
    """
    from mcap.writer import CompressionType, Writer

    path.unlink(missing_ok=True)
    message: Any = np.zeros(size, np.uint8).data
    with open(path, "wb", buffering=0) as file:
        writer = Writer(file, use_chunking=False, compression=CompressionType.NONE)
        writer.start()
        schema = writer.register_schema("bytes", "", b"")
        channel = writer.register_channel("camera", "bytes", schema)
        begin = time.perf_counter_ns()
        for number in range(count):
            writer.add_message(channel, number, bytes(message), number)
        writer.finish()
        return (time.perf_counter_ns() - begin) / count


def hdf5_ns(path: Path, count: int, size: int) -> float:
    """The same of `h5py`: rows of a contiguous dataset, from an array that is there.

    Raises:
        ImportError: it is not installed.
    """
    import h5py

    path.unlink(missing_ok=True)
    message: Any = np.ones(size, np.uint8)
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("camera", (count, size), np.uint8)
        begin = time.perf_counter_ns()
        for number in range(count):
            rows[number] = message
        file.flush()
        return (time.perf_counter_ns() - begin) / count


def zarr_ns(path: Path, count: int, size: int) -> float:
    """The same of `zarr`: a chunk, which is a file, for each message, without compression.

    Raises:
        ImportError: it is not installed.
    """
    import zarr

    folder = path.with_suffix(".zarr")
    shutil.rmtree(folder, ignore_errors=True)
    message: Any = np.ones(size, np.uint8)
    rows = zarr.create_array(
        str(folder), shape=(count, size), chunks=(1, size), dtype="uint8", compressors=None
    )
    begin = time.perf_counter_ns()
    for number in range(count):
        rows[number] = message
    end = time.perf_counter_ns()
    shutil.rmtree(folder)
    return (end - begin) / count
