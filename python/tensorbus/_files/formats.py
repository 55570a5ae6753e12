"""The formats of files: .npy, .safetensors, and raw files of one tensor without a header."""

from __future__ import annotations

import os
import sys
from math import prod
from typing import Any

from tensorbus import _core
from tensorbus._base.errors import InvalidArgument
from tensorbus._files import npy
from tensorbus._files.contents import (
    Contents,
    Elements,
    Library,
    Place,
    check_place,
    elements_of,
    library_for,
    needed,
    refuse,
    sizes_in,
)
from tensorbus._tensors.library import sizes_of


def check_arguments(path: str, shape: Any, dtype: Any, mode: str, offset: int) -> None:
    """Checks the arguments of `map_file` for the format, which the file's name selects."""
    if offset and path.endswith((".npy", ".safetensors")):
        raise InvalidArgument(f"offset={offset}: not possible, the header of {path!r} sets it")
    if not path.endswith(".safetensors"):
        return
    if mode == "w+":
        raise InvalidArgument(
            f'mode="w+": a .safetensors file has a header about all its tensors: write {path!r} '
            'with safetensors.torch.save_file, then map it with "r+"'
        )
    for what, value in (("shape", shape), ("dtype", dtype)):
        if value is not None:
            raise InvalidArgument(f"{what}={value!r}: not possible, the header of {path!r} sets it")


def contents_in(
    fd: int, path: str, shape: Any, dtype: Any, offset: int, library: Library | None
) -> Contents:
    """The contents of an existing file.

    Raises:
        InvalidArgument: the file is truncated or malformed; the message names the field.
    """
    if path.endswith(".npy"):
        return npy.contents_of(fd, path, shape, dtype, library)
    if path.endswith(".safetensors"):
        return _safetensors(fd, path, library)
    return _raw_in(fd, path, shape, dtype, offset, library)


# Prefixes of the dtypes of .safetensors files that NumPy lacks.
_NOT_IN_NUMPY = ("BF16", "F8_", "F4", "F6_")


def _safetensors(fd: int, path: str, library: Library | None) -> Contents:
    start, count, tensors, metadata = _core.safetensors(fd, path)
    places = {
        name: Place(Elements(dtype, 8 * item_bytes, given=given), shape, offset)
        for name, (given, dtype, item_bytes, shape, offset) in tensors.items()
    }
    if library is None:
        foreign = any(place.elements.given.startswith(_NOT_IN_NUMPY) for place in places.values())
        library = "torch" if foreign or "torch" in sys.modules else "numpy"
    return Contents(start, count, places, library, metadata)


def planned(
    path: str, shape: Any, dtype: Any, offset: int, library: Library | None
) -> tuple[Contents, bytes]:
    """The contents of a new file, and its header."""
    if path.endswith(".npy"):
        contents, header = npy.planned(shape, dtype, library)
    else:
        contents, header = _planned_raw(shape, dtype, offset, library), b""
    check_place(contents, contents.places[""], path)
    return contents, header


def end_of(contents: Contents, path: str) -> int:
    """The size that the file must have, in bytes."""
    end = contents.start + contents.bytes
    if end >= 2**63:
        raise refuse(path, f"{end} bytes are needed, but a file has at most 2**63 - 1")
    return end


def _raw_in(
    fd: int, path: str, shape: Any, dtype: Any, offset: int, library: Library | None
) -> Contents:
    elements = elements_of(needed("dtype", dtype), library)
    there = os.fstat(fd).st_size - offset
    if there < 0:
        raise refuse(path, f"offset={offset}, but it has {there + offset} bytes")
    return _one_tensor(Place(elements, sizes_in(shape, elements, there, path)), offset, library)


def _planned_raw(shape: Any, dtype: Any, offset: int, library: Library | None) -> Contents:
    elements = elements_of(needed("dtype", dtype), library)
    return _one_tensor(Place(elements, sizes_of(needed("shape", shape))), offset, library)


def _one_tensor(place: Place, offset: int, library: Library | None) -> Contents:
    count = prod(place.shape) * place.elements.bytes
    return Contents(offset, count, {"": place}, library_for(place.elements, library))
