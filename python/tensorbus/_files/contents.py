"""The contents of a mapped file: the place and the elements of each tensor."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import sizes_of

if TYPE_CHECKING:
    import numpy as np

    from tensorbus._core import MappedFile

Library = Literal["torch", "numpy"]


class Elements(NamedTuple):
    """The element type of a tensor."""

    name: str | None  # the core's name; None for types that only NumPy, or no library, has
    bits: int
    numpy: np.dtype[Any] | None = None  # set if the type was given as a dtype of NumPy
    given: str = ""  # the name for the type in the file or in the call

    @property
    def bytes(self) -> int:
        return self.bits // 8


class Place(NamedTuple):
    """The place of a tensor."""

    elements: Elements
    shape: list[int]
    offset: int = 0  # in bytes, from the first mapped byte
    fortran: bool = False  # the first dimension is the innermost


class Contents(NamedTuple):
    """All tensors of a file."""

    start: int  # offset of the first mapped byte
    bytes: int
    places: dict[str, Place]  # by name; "" for a single tensor without a name
    library: Library
    metadata: dict[str, str] | None = None  # None for formats without names


def refuse(path: str, why: str) -> InvalidArgument:
    """The error for an unsuitable file."""
    return InvalidArgument(f"file {path!r}: {why}")


def needed(what: str, value: Any) -> Any:
    """Checks that an argument is given, for a file that does not contain the value."""
    if value is None:
        raise InvalidArgument(f"{what}: required for a new file and for a file without a header")
    return value


def is_torch_dtype(dtype: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(dtype, torch.dtype)


def elements_of(dtype: Any, library: Library | None) -> Elements:
    """The element type for a dtype of NumPy or PyTorch, or the name of one.

    Raises:
        Unsupported: an unknown dtype, or one whose elements no file can hold.
    """
    if library == "torch" and isinstance(dtype, str):
        dtype = getattr(torch_tensors.learn(), dtype, dtype)  # names like "f4" are NumPy's only
    if is_torch_dtype(dtype):
        return Elements(str(dtype).removeprefix("torch."), 8 * dtype.itemsize, given=str(dtype))
    try:
        numpy_dtype = numpy_arrays.learn().dtype(dtype)
    except (TypeError, ValueError):
        raise Unsupported(
            f"dtype={dtype!r}: expected a dtype of NumPy or PyTorch (torch.bfloat16, not "
            '"bfloat16", unless library="torch")'
        ) from None
    return elements_of_numpy(numpy_dtype)


def elements_of_numpy(dtype: np.dtype[Any]) -> Elements:
    """The element type for a dtype of NumPy.

    Raises:
        Unsupported: no file can hold elements of this type.
    """
    if dtype.hasobject:
        raise Unsupported(
            f"dtype={dtype}: its elements are Python objects, which no mapped file can hold"
        )
    if dtype.subdtype is not None:
        raise Unsupported(f"dtype={dtype}: give the sizes inside it as the last ones of the shape")
    name = dtype.name if numpy_arrays.has_name(dtype) else None
    return Elements(name, 8 * dtype.itemsize, dtype, str(dtype))


def library_for(elements: Elements, library: Library | None) -> Library:
    """The library of the tensor: the caller's choice, or the library of the dtype."""
    return library or ("numpy" if elements.numpy is not None else "torch")


def sizes_in(shape: Any, elements: Elements, there: int, path: str) -> list[int]:
    """The sizes of a shape; a size of -1 is computed from the `there` bytes of the file.

    >>> sizes_in((-1, 3), Elements("float32", 32), 24, "a.bin")
    [2, 3]
    """
    given = -1 if shape is None else shape
    sizes = list(given) if isinstance(given, Iterable) else [given]
    unknown = sizes.count(-1)
    if unknown == 0:
        return sizes_of(given)
    if unknown > 1:
        raise InvalidArgument(f"shape={shape!r}: only one size can be -1")
    at = sizes.index(-1)
    sizes[at] = 1
    sizes = sizes_of(sizes)
    each = prod(sizes) * elements.bytes
    if 0 in sizes:
        raise refuse(path, f"shape={shape!r}: -1 could be any size, because another size is 0")
    if each == 0 or there < 0 or there % each:
        raise refuse(
            path,
            f"its {max(there, 0)} bytes of elements are not a multiple of "
            f"{each} ({tuple(sizes)} of {elements.given})",
        )
    sizes[at] = there // each
    return sizes


def check_place(contents: Contents, place: Place, path: str) -> None:
    """Checks that the library can have a tensor over this place of the file.

    Raises:
        Unsupported: the library has no tensors of this type, or needs another alignment.
    """
    elements = place.elements
    if elements.name is None and (elements.numpy is None or contents.library == "torch"):
        raise Unsupported(
            f"file {path!r}: no dtype for its elements, {elements.given}, in "
            + ("NumPy or PyTorch" if elements.numpy is None else 'PyTorch: ask for library="numpy"')
        )
    if contents.library == "numpy":
        return
    name = str(elements.name)
    alignment = elements.bytes // (2 if "complex" in name else 1)
    begin = contents.start + place.offset
    if begin % alignment and 0 not in place.shape:
        # On x86 most of PyTorch works without this alignment, but compiled code may rely on it.
        raise Unsupported(
            f"file {path!r}: a tensor of {name} begins at byte {begin}, which is no multiple of "
            f'{alignment}, as PyTorch needs: ask for library="numpy" and copy it '
            "(torch.from_numpy(array.copy()))"
        )


def tensor_at(file: MappedFile, contents: Contents, place: Place, path: str) -> Any:
    """The tensor of this place, over the mapped memory."""
    check_place(contents, place, path)
    elements = place.elements
    shape = place.shape[::-1] if place.fortran else place.shape
    if contents.library == "torch":
        return _torch_at(file, place._replace(shape=shape))
    if elements.name is None:
        memory = file.memory("uint8", [*shape, elements.bytes], place.offset)
        array = numpy_arrays.over_bytes(memory, elements.numpy)  # type: ignore[arg-type]
    else:
        array = numpy_arrays.from_memory(file.memory(elements.name, shape, place.offset))
    return array.T if place.fortran else array


def _torch_at(file: MappedFile, place: Place) -> Any:
    memory = file.memory(str(place.elements.name), place.shape, place.offset)
    tensor = torch_tensors.from_memory(memory)
    return tensor.permute(*reversed(range(tensor.dim()))) if place.fortran else tensor
