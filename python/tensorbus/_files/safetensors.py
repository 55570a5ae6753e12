"""The safetensors format: a header that says where each tensor lies, and then their bytes.

Eight bytes, little-endian: how long the header is. The header, in JSON: an object that has for each
tensor its name and `{"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}`, offsets from the
end of the header on; `__metadata__` stands for an object of strings. Then the bytes, row-major,
little-endian, without gaps to the end of the file (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import json
import os
import sys
from math import prod
from typing import Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._files.contents import Contents, Elements, Library, Place, read_bytes, refuse

# As the reference implementation has it.
_MAX_HEADER_BYTES = 100_000_000
_METADATA = "__metadata__"

# Bits of an element, and what it is called here; None where there is no such tensor anywhere.
_ELEMENTS: dict[str, tuple[int, str | None]] = {
    "BOOL": (8, "bool"),
    "U8": (8, "uint8"),
    "I8": (8, "int8"),
    "U16": (16, "uint16"),
    "I16": (16, "int16"),
    "U32": (32, "uint32"),
    "I32": (32, "int32"),
    "U64": (64, "uint64"),
    "I64": (64, "int64"),
    "F16": (16, "float16"),
    "BF16": (16, "bfloat16"),
    "F32": (32, "float32"),
    "F64": (64, "float64"),
    "C64": (64, "complex64"),
    "F8_E4M3": (8, "float8_e4m3fn"),
    "F8_E4M3FNUZ": (8, "float8_e4m3fnuz"),
    "F8_E5M2": (8, "float8_e5m2"),
    "F8_E5M2FNUZ": (8, "float8_e5m2fnuz"),
    "F8_E8M0": (8, "float8_e8m0fnu"),
    "F4": (4, "float4_e2m1fn_x2"),  # two in a byte, and the last size is that of the bytes
    "F6_E2M3": (6, None),  # packed, four in three bytes
    "F6_E3M2": (6, None),
}
_NOT_IN_NUMPY = ("BF16", "F8_", "F4", "F6_")


def contents_of(fd: int, path: str, as_: Library | None) -> Contents:
    """
    Raises:
        InvalidArgument: it is not of this format, or not whole; the message names the field.
    """
    header, start = _header(fd, path)
    metadata = _metadata(header.pop(_METADATA, {}), path)
    places: dict[str, Place] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        places[name], end = _place(name, entry, path)
        spans.append((places[name].offset, end, name))
    count = _check_spans(spans, path)
    there = os.fstat(fd).st_size - start
    if count != there:
        raise refuse(path, f"its header is about {count} bytes, but {there} come after it")
    if as_ is None:
        foreign = any(place.elements.said.startswith(_NOT_IN_NUMPY) for place in places.values())
        as_ = "torch" if foreign or "torch" in sys.modules else "numpy"
    return Contents(start, count, places, as_, metadata)


def _header(fd: int, path: str) -> tuple[dict[str, Any], int]:
    """The header, and where it ends."""
    prefix = read_bytes(fd, 0, 8)
    if len(prefix) < 8:
        raise refuse(path, f"not a safetensors file: it has {len(prefix)} bytes")
    length = int.from_bytes(prefix, "little")
    if length > _MAX_HEADER_BYTES:
        raise refuse(
            path, f"header length: {length} bytes, more than the {_MAX_HEADER_BYTES} allowed"
        )
    text = read_bytes(fd, 8, length)
    if len(text) < length:
        raise refuse(path, f"header length: {length} bytes, of which {len(text)} are there")
    if not text.startswith(b"{"):
        raise refuse(path, "header: expected a JSON object, from the first byte on")
    try:
        header = json.loads(
            text.decode(), object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"header: {error}") from None
    return header, 8 + length


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        found[name] = value
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _metadata(value: Any, path: str) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return value
    raise refuse(path, f"{_METADATA}: expected an object of strings")


def _place(name: str, entry: Any, path: str) -> tuple[Place, int]:
    """Where a tensor lies, and where it ends."""

    def wrong(why: str) -> InvalidArgument:
        return refuse(path, f"{name!r}: {why}")

    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise wrong("expected an object of dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ELEMENTS:
        raise wrong(f"dtype: there is no {dtype!r:.60}")
    if not _are_sizes(shape):
        raise wrong("shape: expected a list of sizes, from 0 to 2**63 - 1")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong("data_offsets: expected where it begins and where it ends")
    bits, known = _ELEMENTS[dtype]
    begin, end = offsets
    if prod(shape) * bits != 8 * (end - begin):
        raise wrong(
            f"data_offsets: {end - begin} bytes, but {dtype} of shape {shape!r:.200} has "
            f"{prod(shape) * bits} bits"
        )
    if dtype == "F4":
        if not shape or shape[-1] % 2:
            raise wrong("shape: the last size of F4, two in a byte, must be even")
        bits, shape = 8, [*shape[:-1], shape[-1] // 2]
    return Place(Elements(known, bits, said=dtype), shape, begin), end


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 2**63 for value in values
    )


def _check_spans(spans: list[tuple[int, int, str]], path: str) -> int:
    """They follow each other without gaps; returns where the last one ends."""
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise refuse(
                path,
                f"{name!r}: data_offsets: it begins at {begin}, but what is before it ends at {at}",
            )
        at = end
    return at
