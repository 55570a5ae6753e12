"""Encoding and decoding of NumPy's arrays, scalars and dtypes.

The core itself reads arrays of ordinary numbers, by the buffer protocol. Other arrays (dates,
strings, structures, foreign byte orders) are sent as bytes, with a description of their dtype.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import CannotTravel, MessageError, ProtocolError, Unsupported
from tensorbus._tensors.conversion import from_array
from tensorbus._tensors.library import FROM_NUMPY, TENSOR_CLASSES
from tensorbus._tensors.numpy_arrays import (
    elements_of,
    has_name,
    learn,
    ml_dtype,
    of_each,
    over_bytes,
    span_of,
)

if TYPE_CHECKING:
    import numpy as np

    from tensorbus._codec.protocols import Lowered, Restorer
    from tensorbus._core import Outgoing


def lower(outgoing: Outgoing, value: Any) -> Lowered | None:
    """The record of a value of NumPy; None for any other value."""
    np = sys.modules.get("numpy")
    if np is None:
        return None
    if isinstance(value, np.ndarray):
        if np.ndarray not in TENSOR_CLASSES:
            learn()
            if (index := outgoing.add(value)) >= 0:
                return index
        return lower_array(outgoing, value)
    if isinstance(value, np.generic):
        data = value.tobytes() if value.dtype.itemsize else b""
        return "numpy.scalar", _description(value), data
    if isinstance(value, np.dtype):
        return "numpy.dtype", _description(value)
    return None


def lower_array(outgoing: Outgoing, array: np.ndarray[Any, Any]) -> Lowered:
    """The record of an array, or the index of its tensor.

    Raises:
        CannotTravel: a property of the array would be lost.
    """
    np = learn()
    if type(array) is not np.ndarray and type(array) is not np.memmap:
        raise CannotTravel(
            array,
            f"{type(array).__name__} is a subclass of numpy.ndarray, and its meaning would be "
            "lost: publish numpy.asarray(array)",
        )
    dtype = array.dtype
    if has_name(dtype) and _is_aligned(array):
        strides = [stride // array.itemsize for stride in array.strides]
        index = outgoing.add_memory(
            _address(array), dtype.name, array.shape, strides, FROM_NUMPY, array
        )
        return index
    try:
        _check_text(array)
    except MessageError as error:  # the receiver would refuse the array
        raise CannotTravel(array, str(error)) from error
    return "numpy.ndarray", _description(array), _add_bytes(outgoing, array)


def _add_bytes(outgoing: Outgoing, array: np.ndarray[Any, Any]) -> int:
    """Adds an array as uint8, with one more dimension: the bytes of an element."""
    return outgoing.add_memory(
        _address(array),
        "uint8",
        (*array.shape, array.itemsize),
        (*array.strides, 1),
        FROM_NUMPY,
        (array,),  # a tuple: the array itself would be recognised as a plain one
    )


def add_buffer(outgoing: Outgoing, view: memoryview) -> int:
    """Adds a buffer whose format the core cannot read; -1 if it cannot be added.

    For example, the formats of ctypes contain a byte order.
    """
    try:
        array = learn().asarray(view)
    except (TypeError, ValueError, Unsupported):
        return -1
    if not (has_name(array.dtype) and _is_aligned(array)):
        return -1
    strides = [stride // array.itemsize for stride in array.strides]
    return outgoing.add_memory(_address(array), array.dtype.name, array.shape, strides, 0, array)


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _is_aligned(array: np.ndarray[Any, Any]) -> bool:
    return not any(stride % array.itemsize for stride in array.strides)


def _description(value: np.ndarray[Any, Any] | np.generic[Any] | np.dtype[Any]) -> Any:
    """`describe` for a dtype, or for the dtype of a value.

    Raises:
        CannotTravel: the dtype has no description.
    """
    dtype: np.dtype[Any] = value if isinstance(value, learn().dtype) else value.dtype  # type: ignore[union-attr]
    if dtype.hasobject or dtype.kind in "OT":
        raise CannotTravel(
            value,
            f"elements of {dtype} are Python objects, which cannot be sent: publish a list, or an "
            "array of another dtype",
        )
    try:
        return describe(dtype)
    except CannotTravel as refusal:
        raise CannotTravel(value, refusal.why) from None


def describe(dtype: np.dtype[Any]) -> Any:
    """A description of a dtype in MessagePack's types, for `dtype_of`. Metadata are dropped.

    Raises:
        CannotTravel: NumPy cannot make the dtype from its name: another library defines it.

    >>> import numpy as np
    >>> describe(np.dtype("datetime64[ns]"))
    '<M8[ns]'
    >>> describe(np.dtype([("id", "u1"), ("at", "<f4", 3)]))["names"]
    ['id', 'at']
    """
    if dtype.subdtype is not None:
        return [describe(dtype.subdtype[0]), list(dtype.shape)]
    if dtype.fields is None and dtype.names is None:
        return _name_for(dtype)
    names = list(dtype.names or ())
    fields = [dtype.fields[name] for name in names] if dtype.fields is not None else []
    return {
        "names": names,
        "formats": [describe(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "titles": [field[2] if len(field) > 2 else None for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
        "record": dtype.type.__name__ == "record",
    }


def _name_for(dtype: np.dtype[Any]) -> str:
    if dtype.type.__module__ == "ml_dtypes":
        if dtype.isnative:
            return f"ml_dtypes.{dtype.name}"
        raise CannotTravel(dtype, f"{dtype.name} in a foreign byte order cannot be sent")
    if learn().dtype(dtype.str) != dtype:
        raise CannotTravel(
            dtype,
            f"elements of {dtype} cannot be sent: NumPy cannot make this dtype from its name",
        )
    return dtype.str


def dtype_of(description: Any) -> Any:
    """The dtype of a description.

    >>> dtype_of("<M8[ns]")
    dtype('<M8[ns]')
    """
    np = learn()
    if isinstance(description, dict):
        parts = dict(description)
        aligned, is_record = bool(parts.pop("aligned")), parts.pop("record")
        parts["formats"] = [dtype_of(part) for part in parts["formats"]]
        dtype = np.dtype(parts, align=aligned)
        if is_record:
            dtype = np.dtype((np.record, dtype))
    elif isinstance(description, list):
        base, shape = description
        dtype = np.dtype((dtype_of(base), tuple(shape)))
    elif description.startswith("ml_dtypes."):
        dtype = np.dtype(ml_dtype(description.removeprefix("ml_dtypes."), False))
    else:
        dtype = np.dtype(description)
    if dtype.hasobject:
        raise ProtocolError(f"sample.fields: a dtype of Python objects: {description}")
    return dtype


def _restore_array(restorer: Restorer, description: Any, index: int) -> Any:
    dtype = dtype_of(description)
    array = over_bytes(restorer.memory(index), dtype)
    _check_text(array)
    if restorer.library in (None, "numpy"):
        return array
    if not has_name(dtype.newbyteorder("=")):
        raise Unsupported(
            f'an array of {dtype} cannot be received with library="{restorer.library}": only NumPy '
            "has such elements"
        )
    # The array has another byte order, or strides that are not whole elements.
    native = dtype.newbyteorder("=")
    return from_array(of_each(lambda some: some.astype(native, order="C"), array), restorer.library)


def _check_text(array: Any) -> None:
    """Checks code points. NumPy does not; Python would later raise a SystemError for a wrong one.

    Raises:
        MessageError: an array of str, or a field of one, has a wrong code point.
    """
    dtype = array.dtype
    for name in dtype.names or ():
        _check_text(array[name])
    if dtype.kind != "U" or dtype.itemsize == 0:
        return
    points = _elements_of_text(array)[..., None].view(f"{dtype.str[0]}u4")
    if points.size and points.max() > sys.maxunicode:
        raise MessageError(
            f"an array of {dtype} with the code point {points.max():#x}: the highest is "
            f"{sys.maxunicode:#x}"
        )


def _elements_of_text(array: Any) -> Any:
    """Returns the elements to check. Elements that share memory may be left out.

    Raises:
        Unsupported: elements overlap partially, and there are more elements than bytes of memory.
    """
    try:
        return elements_of(array)
    except Unsupported:
        if array.size > span_of(array):
            raise
        return array


def _restore_scalar(restorer: Restorer, description: Any, data: bytes) -> Any:
    np = learn()
    dtype = dtype_of(description)
    if len(data) != dtype.itemsize:
        raise ProtocolError(f"sample.fields: a scalar of {dtype} in {len(data)} bytes")
    if dtype.itemsize == 0:
        return dtype.type() if dtype.kind in "SU" else np.zeros((), dtype)[()]
    if dtype.kind == "S":
        return np.bytes_(data)  # not by an array: its elements lose zeros at the end
    if dtype.kind == "U":
        return np.str_(data.decode("utf-32-le", "surrogatepass"))
    array = np.frombuffer(bytearray(data), dtype)
    _check_text(array)
    return array[0]  # writable, as a void scalar is


RESTORERS: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": _restore_array,
    "numpy.scalar": _restore_scalar,
    "numpy.dtype": lambda _, description: dtype_of(description),
}
