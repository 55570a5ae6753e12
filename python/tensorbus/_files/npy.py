"""NumPy's .npy files; NumPy itself reads their header (numpy.lib.format).

The core has another reader, for C and C++, which supports only the dtypes of tensors. Files read
here may also contain records, text, dates, and elements of another byte order.
"""

from __future__ import annotations

import struct
from io import BytesIO
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._files.contents import (
    Contents,
    Elements,
    Library,
    Place,
    elements_of,
    elements_of_numpy,
    is_torch_dtype,
    library_for,
    needed,
    refuse,
    sizes_in,
)
from tensorbus._tensors import numpy_arrays
from tensorbus._tensors.library import sizes_of

if TYPE_CHECKING:
    import numpy as np

_MAX_HEADER_BYTES = 10_000  # of version 3.0, as in the core
# Major version, encoding of the header, and the `struct` format of its length.
_VERSIONS = ((1, "latin-1", "<H"), (2, "latin-1", "<I"), (3, "utf-8", "<I"))
_ALIGNMENT = 64  # of the first element, in bytes, in new files


def contents_of(fd: int, path: str, shape: Any, dtype: Any, library: Library | None) -> Contents:
    shape_in_file, fortran, stored, start = _read_header(fd, path)
    elements = elements_of_numpy(stored)
    if dtype is not None:
        elements = _agreed(elements, elements_of(dtype, library), path)
    try:
        sizes = sizes_of(shape_in_file)
    except InvalidArgument as error:
        raise refuse(path, f"not a .npy file: {error}") from None
    count = prod(sizes) * elements.bytes
    if shape is not None and sizes_in(shape, elements, count, path) != sizes:
        raise refuse(path, f"shape={shape!r}, but its header has {tuple(sizes)}")
    if is_torch_dtype(dtype):
        library = library or "torch"
    place = Place(elements, sizes, fortran=fortran and len(sizes) > 1)
    return Contents(start, count, {"": place}, library or "numpy")


def planned(shape: Any, dtype: Any, library: Library | None) -> tuple[Contents, bytes]:
    """The contents of a new file, and its header."""
    elements = elements_of(needed("dtype", dtype), library)
    sizes = sizes_of(needed("shape", shape))
    header = _header(_stored_as(elements), sizes)
    place = Place(elements, sizes)
    count = prod(sizes) * elements.bytes
    return Contents(len(header), count, {"": place}, library_for(elements, library)), header


def _read_header(fd: int, path: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether the first dimension is the innermost, dtype, offset of the elements."""
    form = numpy_arrays.learn().lib.format
    with open(fd, "rb", closefd=False) as file:
        try:
            version = form.read_magic(file)
            read = {
                (1, 0): form.read_array_header_1_0,
                (2, 0): form.read_array_header_2_0,
                (3, 0): _read_header_3_0,
            }.get(version)
            header = read(file) if read else None
        except Exception as error:  # NumPy's parser may raise anything for a malformed header
            raise refuse(path, f"not a .npy file: {error}") from None
        if header is None:
            raise Unsupported(
                f"file {path!r}: a .npy file of version {'.'.join(map(str, version))}: expected "
                "1.0 to 3.0"
            )
        return (*header, file.tell())


def _read_header_3_0(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads a header in UTF-8 with NumPy's reader for version 2.0; 3.0 has no public reader.

    A header is a Python literal, so characters outside ASCII can be replaced by escapes.
    """
    (count,) = struct.unpack("<I", file.read(4))
    if count > _MAX_HEADER_BYTES:
        raise ValueError(f"its header has {count} bytes, more than {_MAX_HEADER_BYTES}")
    header = file.read(count)
    if len(header) < count:
        raise ValueError(f"its header has {count} bytes, but only {len(header)} are in the file")
    escaped = header.decode().encode("ascii", "backslashreplace")
    parsed: tuple[tuple[int, ...], bool, np.dtype[Any]] = (
        numpy_arrays.learn().lib.format.read_array_header_2_0(
            BytesIO(struct.pack("<I", len(escaped)) + escaped), max_header_size=len(escaped)
        )
    )
    return parsed


def _agreed(stored: Elements, wanted: Elements, path: str) -> Elements:
    """Checks the caller's dtype. NumPy stores foreign types, for example bfloat16, as void."""
    is_void = stored.numpy is not None and stored.numpy.kind == "V" and not stored.numpy.names
    same = wanted.name == stored.name if wanted.name else wanted.numpy == stored.numpy
    if not same and not (is_void and wanted.bits == stored.bits):
        raise refuse(path, f"dtype={wanted.given}, but its header has {stored.given}")
    return wanted


def _stored_as(elements: Elements) -> np.dtype[Any]:
    np = numpy_arrays.learn()
    if elements.numpy is not None:
        return elements.numpy
    try:
        return np.dtype(elements.name)  # type: ignore[no-any-return]
    except TypeError:
        return np.dtype(f"V{elements.bytes}")  # type: ignore[no-any-return]


def _header(dtype: np.dtype[Any], sizes: list[int]) -> bytes:
    """The header in the first version that can hold it; NumPy has no public writer for 3.0."""
    form = numpy_arrays.learn().lib.format
    fields = {"descr": form.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(sizes)}
    for version, encoding, length in _VERSIONS:
        start = form.MAGIC_LEN + struct.calcsize(length)
        try:
            text = repr(fields).encode(encoding)
            text += b" " * (-(start + len(text) + 1) % _ALIGNMENT) + b"\n"
            header: bytes = form.magic(version, 0) + struct.pack(length, len(text)) + text
            return header
        except (UnicodeEncodeError, struct.error):
            continue
    raise Unsupported(f"dtype={dtype}: not possible in a .npy file")
