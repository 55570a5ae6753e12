"""Files for the tests of mapped files."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

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
