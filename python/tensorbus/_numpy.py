"""NumPy's arrays, scalars and dtypes: what is special about each, and how it is made again.

Arrays of ordinary numbers do not come here: the core reads them by the buffer protocol. Others
(dates, strings, structures, foreign byte orders) travel as bytes, with their dtype beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorbus import _core
from tensorbus._core import Memory
from tensorbus._errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._tensors import CONJUGATE, FROM_NUMPY, FROM_TORCH, NEGATIVE, TENSOR_CLASSES

if TYPE_CHECKING:
    import numpy as np

    from tensorbus._fields import Flattener, Restorer

# Those that NumPy has by itself and calls as we do.
_OWN = frozenset(("bool", "float16", "float32", "float64", "complex64", "complex128")) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def learn() -> Any:
    """NumPy, imported; from then on the core knows its arrays.

    Raises:
        Unsupported: it is not installed.
    """
    try:
        import numpy
    except ImportError:
        raise Unsupported(
            "this tensor is to be a NumPy array, and NumPy is not installed here: pip install "
            'numpy, or receive it with as_="torch"'
        ) from None
    if numpy.ndarray not in TENSOR_CLASSES:
        TENSOR_CLASSES.add(numpy.ndarray)
        _core.know_numpy(numpy.ndarray)
    return numpy


def from_memory(memory: Memory) -> Any:
    """The array over received or loaned memory; read-only if that is."""
    np = learn()
    array = np.asarray(memory)
    name = memory.dtype
    if name not in _OWN:
        array = array.view(_ml_dtype(name, bool(memory.flags & FROM_TORCH)))
    if memory.flags & CONJUGATE:
        array = array.conj()
    return -array if memory.flags & NEGATIVE else array


def _ml_dtype(name: str, from_torch: bool) -> Any:
    """A dtype that NumPy gets from the ml_dtypes package."""
    what_else = 'receive it with as_="torch"' if from_torch else "install a newer one"
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(
            f"NumPy has no {name} of its own: pip install ml_dtypes, or {what_else}"
        ) from None
    try:
        return getattr(ml_dtypes, name)
    except AttributeError:
        raise Unsupported(f"neither NumPy nor ml_dtypes has {name}: {what_else}") from None


def has_name(dtype: np.dtype[Any]) -> bool:
    """Is it one of our dtypes, in this machine's byte order?"""
    return dtype.isnative and (dtype.name in _OWN or dtype.type.__module__ == "ml_dtypes")


def lower(flattener: Flattener, array: np.ndarray[Any, Any]) -> Any:
    """An array in words that the encoder knows.

    Raises:
        CannotTravel: something about it would be lost; nothing was sent.
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
        index = flattener.outgoing.add_memory(
            _address(array), dtype.name, array.shape, strides, FROM_NUMPY, array
        )
        return flattener.reference(index)
    return flattener.record("numpy.ndarray", _description(array), add_bytes(flattener, array))


def add_bytes(flattener: Flattener, array: np.ndarray[Any, Any]) -> int:
    """Adds an array as its bytes, which are one more dimension."""
    return flattener.outgoing.add_memory(
        _address(array),
        "uint8",
        (*array.shape, array.itemsize),
        (*array.strides, 1),
        FROM_NUMPY,
        array,
    )


def lower_scalar(flattener: Flattener, scalar: np.generic[Any]) -> Any:
    return flattener.record("numpy.scalar", _description(scalar), scalar.tobytes())


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _is_aligned(array: np.ndarray[Any, Any]) -> bool:
    return not any(stride % array.itemsize for stride in array.strides)


def _description(value: np.ndarray[Any, Any] | np.generic[Any]) -> Any:
    dtype = value.dtype
    if dtype.hasobject or dtype.kind in "OT":
        raise CannotTravel(
            value,
            f"elements of {dtype} are Python objects, which cannot travel: publish a list, or an "
            "array of another dtype",
        )
    return describe(dtype)


def describe(dtype: np.dtype[Any]) -> Any:
    """A dtype in words that MessagePack has, for `dtype_of` to make again. Metadata are dropped.

    >>> import numpy as np
    >>> describe(np.dtype("datetime64[ns]"))
    '<M8[ns]'
    >>> describe(np.dtype([("id", "u1"), ("at", "<f4", 3)]))["names"]
    ['id', 'at']
    """
    if dtype.subdtype is not None:
        return [describe(dtype.subdtype[0]), list(dtype.shape)]
    if dtype.fields is None:
        return f"ml_dtypes.{dtype.name}" if dtype.type.__module__ == "ml_dtypes" else dtype.str
    names = list(dtype.names or ())
    fields = [dtype.fields[name] for name in names]
    return {
        "names": names,
        "formats": [describe(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "titles": [field[2] if len(field) > 2 else None for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def dtype_of(description: Any) -> Any:
    """The dtype that was described.

    >>> dtype_of("<M8[ns]")
    dtype('<M8[ns]')
    """
    np = learn()
    if isinstance(description, dict):
        parts = dict(description)
        aligned = bool(parts.pop("aligned"))
        parts["formats"] = [dtype_of(part) for part in parts["formats"]]
        dtype = np.dtype(parts, align=aligned)
    elif isinstance(description, list):
        base, shape = description
        dtype = np.dtype((dtype_of(base), tuple(shape)))
    elif description.startswith("ml_dtypes."):
        dtype = np.dtype(_ml_dtype(description.removeprefix("ml_dtypes."), False))
    else:
        dtype = np.dtype(description)
    if dtype.hasobject:
        raise ProtocolError(f"sample.fields: a dtype of Python objects: {description}")
    return dtype


def over_bytes(memory: Memory, dtype: np.dtype[Any]) -> Any:
    """The array over its bytes, whose last dimension they are."""
    np = learn()
    raw = np.asarray(memory)
    if raw.ndim == 0 or raw.dtype != np.uint8 or raw.shape[-1] != dtype.itemsize:
        raise ProtocolError(f"sample.fields: an array of {dtype} in other bytes")
    if dtype.itemsize == 0:
        return np.zeros(raw.shape[:-1], dtype)
    return raw.view(dtype)[..., 0]


def restore_array(restorer: Restorer, description: Any, index: int) -> Any:
    dtype = dtype_of(description)
    if restorer.as_ not in (None, "numpy"):
        raise Unsupported(
            f'an array of {dtype} cannot be received with as_="{restorer.as_}": only NumPy has '
            "such elements"
        )
    return over_bytes(restorer.memory(index), dtype)


def restore_scalar(restorer: Restorer, description: Any, data: bytes) -> Any:
    np = learn()
    dtype = dtype_of(description)
    if len(data) != dtype.itemsize:
        raise ProtocolError(f"sample.fields: a scalar of {dtype} in {len(data)} bytes")
    if dtype.itemsize == 0:
        return np.zeros((), dtype)[()]
    return np.frombuffer(data, dtype)[0]
