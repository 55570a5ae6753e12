"""Between the tensors of the frameworks and the memory of the bus.

No framework is imported before it is needed: what a caller hands in, the caller has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import index
from typing import Any, Literal, get_args

from tensorbus._core import Memory, TensorFlags
from tensorbus._errors import InvalidArgument, Unsupported

Library = Literal["torch", "numpy", "jax", "dlpack"]
LIBRARIES: tuple[str, ...] = get_args(Library)

FROM_TORCH = TensorFlags.FROM_TORCH.value
FROM_NUMPY = TensorFlags.FROM_NUMPY.value
REQUIRES_GRAD = TensorFlags.REQUIRES_GRAD.value
PARAMETER = TensorFlags.PARAMETER.value
CONJUGATE = TensorFlags.CONJUGATE.value
NEGATIVE = TensorFlags.NEGATIVE.value

# The classes of ordinary tensors of the frameworks that were met so far.
TENSOR_CLASSES: set[type] = set()


def library_of(value: object) -> Literal["torch", "numpy"] | None:
    """Whose tensor this is; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    return None


def sizes_of(shape: Any) -> list[int]:
    """The sizes in a shape, which may be one size.

    >>> sizes_of(5), sizes_of((2, 3))
    ([5], [2, 3])
    """
    try:
        sizes = [index(size) for size in shape] if isinstance(shape, Iterable) else [index(shape)]
    except TypeError:
        sizes = [-1]
    if sizes and (min(sizes) < 0 or max(sizes) >= 2**63):
        raise InvalidArgument(f"shape={shape!r}: expected one size or several, from 0 to 2**63 - 1")
    return sizes


def tensor_from(memory: Memory, as_: Library | None) -> Any:
    """The tensor over received memory, which lives as long as any view of it.

    Args:
        memory: what the core handed over.
        as_: whose tensor it is to be; None for what it was sent from (NumPy, if from neither).
    """
    flags = memory.flags
    if as_ is None:
        as_ = "torch" if flags & FROM_TORCH else "numpy"
    if as_ == "torch":
        from tensorbus import _torch

        return _torch.from_memory(memory)
    if as_ == "numpy":
        from tensorbus import _numpy

        return _numpy.from_memory(memory)
    if flags & (CONJUGATE | NEGATIVE):
        raise Unsupported(
            "this tensor is a conjugate or negative view, which only PyTorch has: receive it with "
            'as_="torch" or "numpy"'
        )
    return memory if as_ == "dlpack" else _jax_from(memory)


def from_array(array: Any, as_: Library) -> Any:
    """What a library makes of a NumPy array that is a copy already."""
    if as_ == "torch":
        from tensorbus import _torch

        return _torch.from_array(array, array.dtype.name)
    # An array itself offers all that "dlpack" promises.
    return _checked_jax(_jax().numpy.asarray(array), array.dtype.name) if as_ == "jax" else array


def _jax_from(memory: Memory) -> Any:
    jax = _jax()
    try:
        array = jax.dlpack.from_dlpack(memory)
    except (BufferError, RuntimeError, TypeError, ValueError):
        array = None
    if array is None or array.dtype.name != memory.dtype:
        # Strides, or elements, that JAX does not take by DLPack.
        from tensorbus import _numpy

        try:
            array = jax.numpy.asarray(_numpy.from_memory(memory))
        except TypeError as error:
            raise Unsupported(f"JAX has no {memory.dtype}: {error}") from error
    return _checked_jax(array, memory.dtype)


def _checked_jax(array: Any, dtype_name: str) -> Any:
    if array.dtype.name != dtype_name:
        raise Unsupported(
            f"JAX would make {array.dtype.name} of this tensor of {dtype_name}: call "
            'jax.config.update("jax_enable_x64", True), or receive it with as_="numpy"'
        )
    return array


def _jax() -> Any:
    try:
        import jax  # type: ignore[import-not-found,unused-ignore]
        import jax.dlpack  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Unsupported(
            "this tensor is to be a JAX array, and JAX is not installed here: pip install jax, or "
            'receive it with as_="numpy"'
        ) from None
    return jax
