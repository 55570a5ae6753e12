"""NumPy arrays over memory of the bus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tensorbus import _core
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._core import Memory
from tensorbus._tensors.library import CONJUGATE, FROM_TORCH, NEGATIVE, TENSOR_CLASSES

if TYPE_CHECKING:
    import numpy as np

# The dtypes of NumPy itself; the bus has the same names for them.
OWN = frozenset(("bool", "float16", "float32", "float64", "complex64", "complex128")) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def learn() -> Any:
    """Imports NumPy, and registers its arrays with the core.

    Raises:
        Unsupported: NumPy is not installed.
    """
    try:
        import numpy
    except ImportError:
        raise Unsupported(
            "this tensor is requested as a NumPy array, but NumPy is not installed: pip install "
            'numpy, or receive it with library="torch"'
        ) from None
    if numpy.ndarray not in TENSOR_CLASSES:
        _core.set_numpy(
            numpy.ndarray, _functions(numpy), [numpy.dtype(name) for name in sorted(OWN)]
        )
        TENSOR_CLASSES.add(numpy.ndarray)  # last: other threads test this first
    return numpy


def _functions(numpy: Any) -> Any:
    """The capsule of NumPy's binary interface; None where it is not found."""
    inside = getattr(numpy, "_core", None) or numpy.core  # NumPy 2.x, 1.x
    return getattr(getattr(inside, "_multiarray_umath", None), "_ARRAY_API", None)


def from_memory(memory: Memory) -> Any:
    """The array over received or loaned memory; writable if the memory is."""
    np = learn()
    if memory.device != "cpu":
        raise Unsupported(
            f"this tensor lies on {memory.device}, which NumPy does not support: receive it with "
            'library="torch" or "dlpack"'
        )
    array = np.asarray(memory)
    name = memory.dtype
    if array.dtype.char in "qQ":  # long long, which NumPy distinguishes from int64
        array = array.view(name)
    elif name not in OWN:
        array = array.view(ml_dtype(name, bool(memory.flags & FROM_TORCH)))
    if memory.flags & CONJUGATE:
        array = of_each(np.conj, array)
    if memory.flags & NEGATIVE:
        check_negative(name)
        array = of_each(np.negative, array)
    return array


def of_each(function: Callable[[Any], Any], array: Any) -> Any:
    """Applies an element-wise function to an array, and keeps the shape.

    Elements that share memory also share it in the result, so that the result is no larger.

    Raises:
        Unsupported: see `elements_of`.
    """
    np = learn()
    elements = elements_of(array)
    made = np.asarray(function(elements))
    if elements is array:
        return made
    before = sum((size - 1) * step for size, step in _steps(array) if step < 0)
    first = made[-before // array.itemsize :]
    return np.lib.stride_tricks.as_strided(first, array.shape, array.strides)


def elements_of(array: Any) -> Any:
    """The array; if its elements overlap, a one-dimensional array with each element once.

    Raises:
        Unsupported: elements overlap partially.
    """
    span = span_of(array)
    if array.nbytes <= span:
        return array
    if any(step % array.itemsize for step in array.strides):
        raise Unsupported("a tensor whose elements overlap in part: receive a copy of it")
    lowest = (slice(-1, None) if step < 0 else slice(1) for step in array.strides)
    first = array[(*lowest, ...)]
    count = span // array.itemsize
    return learn().lib.stride_tricks.as_strided(first, (count,), (array.itemsize,))


def span_of(array: Any) -> int:
    """The bytes from the first to the last byte of an array in memory."""
    return int(array.itemsize + sum(max(size - 1, 0) * abs(step) for size, step in _steps(array)))


def _steps(array: Any) -> Iterable[tuple[int, int]]:
    return zip(array.shape, array.strides, strict=True)


def check_dimensions(count: int) -> None:
    """Checks the number of dimensions: NumPy 1.26 crashes with too many.

    Raises:
        Unsupported: NumPy supports no arrays of so many dimensions.
    """
    max_count = getattr(learn(), "MAXDIMS", 64)  # NumPy 1.x has the constant
    if count > max_count:
        raise Unsupported(f"a tensor of {count} dimensions: this NumPy has at most {max_count}")


def ml_dtype(name: str, from_torch: bool) -> Any:
    """A dtype of the ml_dtypes package."""
    remedy = 'receive it with library="torch"' if from_torch else "install a newer one"
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(
            f"NumPy has no {name} of its own: pip install ml_dtypes, or {remedy}"
        ) from None
    try:
        return getattr(ml_dtypes, name)
    except AttributeError:
        raise Unsupported(f"neither NumPy nor ml_dtypes has {name}: {remedy}") from None


def has_name(dtype: np.dtype[Any]) -> bool:
    """Whether the bus has a name for this dtype, in this machine's byte order."""
    return dtype.isnative and (dtype.name in OWN or dtype.type.__module__ == "ml_dtypes")


def over_bytes(memory: Memory, dtype: np.dtype[Any]) -> Any:
    """The array over a tensor of bytes, whose last dimension is one element."""
    np = learn()
    raw = np.asarray(memory)
    if raw.ndim == 0 or raw.dtype != np.uint8 or raw.shape[-1] != dtype.itemsize:
        raise ProtocolError(f"sample.fields: an array of {dtype}, but its bytes do not match")
    if dtype.itemsize == 0:  # as a field, since NumPy turns a plain "S0" into "S1"
        array = np.zeros(raw.shape[:-1], [("nothing", dtype)])["nothing"]
        array.flags.writeable = memory.writable
        return array
    return raw.view(dtype)[..., 0]


def check_negative(dtype_name: str) -> None:
    if dtype_name == "bool":
        raise ProtocolError("sample.descriptor: a negative view of bools")
