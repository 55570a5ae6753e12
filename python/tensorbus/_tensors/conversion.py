"""Conversion of memory of the bus to tensors of a library."""

from __future__ import annotations

from typing import Any

from tensorbus._base.errors import Unsupported
from tensorbus._core import Memory
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import (
    CONJUGATE,
    FROM_TORCH,
    NEGATIVE,
    TENSOR_CLASSES,
    Library,
    library_of,
)

# A tensor that repeats its elements is copied for JAX up to this size in bytes, or up to this
# multiple of the memory that it spans.
_FEW_BYTES = 1 << 20
_MAX_REPETITIONS = 64


def tensor_from(memory: Memory, library: Library | None) -> Any:
    """The tensor over received memory; each view keeps the memory.

    Args:
        memory: memory from the core.
        library: the library of the tensor; None for the library that it was sent from (NumPy if
            that was neither NumPy nor PyTorch).
    """
    flags = memory.flags
    if library is None:
        library = "torch" if flags & FROM_TORCH else "numpy"
    if library == "torch":
        return torch_tensors.from_memory(memory)
    if library == "numpy":
        return numpy_arrays.from_memory(memory)
    if flags & (CONJUGATE | NEGATIVE):
        raise Unsupported(
            "this tensor is a conjugate or negative view, which only PyTorch has: receive it with "
            'library="torch" or "numpy"'
        )
    return memory if library == "dlpack" else _jax_from(memory)


def from_array(array: Any, library: Library) -> Any:
    """The tensor of a library for a NumPy array that is already a copy."""
    if library == "torch":
        return torch_tensors.from_array(array, array.dtype.name)
    # For "dlpack", the array itself supports the protocol.
    return _checked_jax(_copied_to_jax(array), array.dtype.name) if library == "jax" else array


def learn_class_of(value: object) -> None:
    """Registers the class of a tensor of NumPy or PyTorch with the core."""
    if type(value) in TENSOR_CLASSES:
        return
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        torch_tensors.learn()
    elif library == "numpy":
        numpy_arrays.learn()


def writable(value: object) -> object:
    """A value that the core can write to: before PyTorch 2.10, an array over a tensor's memory."""
    learn_class_of(value)
    if library_of(value) == "torch" and not hasattr(value, "__dlpack_c_exchange_api__"):
        try:
            return value.numpy()  # type: ignore[attr-defined]
        except (RuntimeError, TypeError):
            pass  # the core refuses the value
    return value


def _jax_from(memory: Memory) -> Any:
    jax = _jax()
    try:
        array = jax.dlpack.from_dlpack(memory)
    except (BufferError, RuntimeError, TypeError, ValueError):
        array = None
    if array is None or array.dtype.name != memory.dtype:
        # JAX does not accept these strides or elements by DLPack.
        try:
            array = _copied_to_jax(numpy_arrays.from_memory(memory))
        except TypeError as error:
            raise Unsupported(f"JAX has no {memory.dtype}: {error}") from error
    return _checked_jax(array, memory.dtype)


def _copied_to_jax(array: Any) -> Any:
    """A copy for JAX, which has no strides: it stores repeated elements separately."""
    span = numpy_arrays.span_of(array)
    if array.nbytes > max(_FEW_BYTES, _MAX_REPETITIONS * span):
        raise Unsupported(
            f"a tensor of {array.nbytes} bytes that repeats {span} bytes (stride 0): JAX would "
            'copy all of them. Receive it with library="numpy" or "torch"'
        )
    return _jax().numpy.asarray(array)


def _checked_jax(array: Any, dtype_name: str) -> Any:
    if array.dtype.name != dtype_name:
        raise Unsupported(
            f"JAX would make {array.dtype.name} of this tensor of {dtype_name}: call "
            'jax.config.update("jax_enable_x64", True), or receive it with library="numpy"'
        )
    return array


def _jax() -> Any:
    try:
        import jax  # type: ignore[import-not-found,unused-ignore]
        import jax.dlpack  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Unsupported(
            "this tensor is requested as a JAX array, but JAX is not installed: pip install jax, "
            'or receive it with library="numpy"'
        ) from None
    return jax
