"""NumPy's .npy files, whose header NumPy itself reads and writes (numpy.lib.format).

The core has a reader of its own for C and C++, which knows the dtypes of tensors only. Here a file
may also have records, texts, dates, and elements of another byte order.
"""

from __future__ import annotations

from io import BytesIO
from math import prod
from typing import TYPE_CHECKING, Any

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


def contents_of(fd: int, path: str, shape: Any, dtype: Any, library: Library | None) -> Contents:
    found, fortran, stored, start = _read_header(fd, path)
    elements = elements_of_numpy(stored)
    if dtype is not None:
        elements = _agreed(elements, elements_of(dtype, library), path)
    try:
        sizes = sizes_of(found)
    except InvalidArgument as error:
        raise refuse(path, f"not a .npy file: {error}") from None
    count = prod(sizes) * elements.bytes
    if shape is not None and sizes_in(shape, elements, count, path) != sizes:
        raise refuse(path, f"shape={shape!r}, but its header says {tuple(sizes)}")
    if is_torch_dtype(dtype):
        library = library or "torch"
    place = Place(elements, sizes, fortran=fortran and len(sizes) > 1)
    return Contents(start, count, {"": place}, library or "numpy")


def planned(shape: Any, dtype: Any, library: Library | None) -> tuple[Contents, bytes]:
    """What a file is to hold that is yet to be made, and its header."""
    elements = elements_of(needed("dtype", dtype), library)
    sizes = sizes_of(needed("shape", shape))
    header = _header(_stored_as(elements), sizes)
    place = Place(elements, sizes)
    count = prod(sizes) * elements.bytes
    return Contents(len(header), count, {"": place}, library_for(elements, library)), header


def _read_header(fd: int, path: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether its first dimension is the innermost, dtype, where the elements begin."""
    np = numpy_arrays.learn()
    with open(fd, "rb", closefd=False) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            header = read(file) if read else None
        except Exception as error:  # whatever NumPy's parser makes of garbage
            raise refuse(path, f"not a .npy file: {error}") from None
        if header is None:
            raise Unsupported(
                f"file {path!r}: a .npy file of version {version}, which only names of fields "
                "outside Latin-1 need: load it with numpy.load"
            )
        return (*header, file.tell())


def _agreed(stored: Elements, wanted: Elements, path: str) -> Elements:
    """NumPy stores what is not its own, like bfloat16, as bytes without a meaning."""
    of_no_meaning = stored.numpy is not None and stored.numpy.kind == "V" and not stored.numpy.names
    same = wanted.name == stored.name if wanted.name else wanted.numpy == stored.numpy
    if not same and not (of_no_meaning and wanted.bits == stored.bits):
        raise refuse(path, f"dtype={wanted.said}, but its header says {stored.said}")
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
    form = numpy_arrays.learn().lib.format
    out = BytesIO()
    try:
        form.write_array_header_1_0(
            out,
            {"descr": form.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(sizes)},
        )
    except ValueError as error:
        raise Unsupported(f"dtype={dtype}: {error}") from None
    return out.getvalue()
