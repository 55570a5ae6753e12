"""PyTorch tensors over memory of the bus.

The core reads and makes plain tensors with PyTorch's C interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from tensorbus import _core
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._core import Memory
from tensorbus._tensors import numpy_arrays
from tensorbus._tensors.library import (
    CONJUGATE,
    FROM_TORCH,
    NEGATIVE,
    PARAMETER,
    REQUIRES_GRAD,
    TENSOR_CLASSES,
)

if TYPE_CHECKING:
    import torch


def learn() -> Any:
    """Imports PyTorch, and registers its tensors with the core.

    Raises:
        Unsupported: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise Unsupported(
            "this tensor was sent from PyTorch, which is not installed here: pip install torch, "
            'or receive it with library="numpy"'
        ) from None
    if torch.Tensor not in TENSOR_CLASSES:
        dtypes = [value for value in vars(torch).values() if isinstance(value, torch.dtype)]
        _core.set_torch(torch.Tensor, {dtype: dtype_name(dtype) for dtype in dtypes})
        # Last: other threads test this first.
        TENSOR_CLASSES.update((torch.nn.Parameter, torch.Tensor))
    return torch


@cache
def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_named(name: object) -> torch.dtype:
    """The dtype with this name.

    Raises:
        Unsupported: this version of PyTorch does not have it.
    """
    torch = learn()
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype):
        raise Unsupported(
            f"this PyTorch has no dtype {name}: install a newer one, or receive the tensor with "
            'library="numpy" or "dlpack"'
        )
    return dtype  # type: ignore[no-any-return]


def from_memory(memory: Memory) -> Any:
    """The tensor over received or loaned memory."""
    torch = learn()
    if min(memory.strides, default=0) < 0:  # PyTorch has no negative strides
        memory = memory.packed()
    plain = _core.plain_torch(memory)
    if plain is not None:
        return plain
    dtype = dtype_named(memory.dtype)
    flags = memory.flags
    if memory.device != "cpu" and not torch.cuda.is_available():
        raise Unsupported(
            f"this tensor lies on {memory.device}, and this PyTorch cannot use CUDA: receive it "
            'with library="dlpack"'
        )
    tensor: Any = torch.utils.dlpack.from_dlpack(memory.bits())
    if tensor.dtype != dtype:
        tensor = tensor.view(dtype)
    return _with_origin(finished(tensor, flags), memory)


def _with_origin(tensor: Any, memory: Memory) -> Any:
    """Sets `published_on` if the publisher had the tensor on another device."""
    if memory.published_on != memory.device:
        tensor.published_on = memory.published_on
    return tensor


def published_on(tensor: torch.Tensor) -> str:
    """The device on which the publisher had a received tensor; for any other, its own device."""
    device: str = getattr(tensor, "published_on", str(tensor.device))
    return device


def from_array(array: Any, dtype_name: str) -> Any:
    """The tensor over a contiguous NumPy array, which may have only the bits of the elements."""
    torch = learn()
    dtype = dtype_named(dtype_name)
    if array.dtype.type.__module__ == "ml_dtypes":
        array = array.view(f"u{array.itemsize}")
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def finished(tensor: torch.Tensor, flags: int) -> torch.Tensor:
    """Applies the flags: conjugate or negative view, `requires_grad`, parameter."""
    if flags & (CONJUGATE | NEGATIVE):
        import torch

        if flags & CONJUGATE:
            tensor = tensor.conj()
        if flags & NEGATIVE:
            numpy_arrays.check_negative(dtype_name(tensor.dtype))
            tensor = torch._neg_view(tensor) if hasattr(torch, "_neg_view") else -tensor
    if flags & REQUIRES_GRAD and not (tensor.is_floating_point() or tensor.is_complex()):
        raise ProtocolError(f"sample: a tensor of {tensor.dtype} that requires gradients")
    if flags & PARAMETER:
        import torch

        return torch.nn.Parameter(tensor, requires_grad=bool(flags & REQUIRES_GRAD))
    return tensor.requires_grad_() if flags & REQUIRES_GRAD else tensor


def in_one_storage(
    whole: Memory, members: list[tuple[Memory, int]]
) -> Iterator[torch.Tensor | None]:
    """Overlapping tensors, as views of one storage.

    Args:
        whole: the bytes of all tensors.
        members: the memory of each tensor, and its offset in the whole, in bytes.

    Returns:
        A tensor for each member; None if its offset is no multiple of its element size, or it has
        negative strides.
    """
    torch = learn()
    storage = torch.utils.dlpack.from_dlpack(whole).untyped_storage()
    for memory, offset in members:
        dtype = dtype_named(memory.dtype)
        place, rest = divmod(offset, dtype.itemsize)
        if rest or min(memory.strides, default=0) < 0:
            yield None
            continue
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        tensor.set_(storage, place, memory.shape, memory.strides)
        yield _with_origin(finished(tensor, memory.flags), memory)


def flags_of(tensor: torch.Tensor) -> int:
    import torch

    flags = FROM_TORCH
    if tensor.requires_grad:
        flags |= REQUIRES_GRAD
    if isinstance(tensor, torch.nn.Parameter):
        flags |= PARAMETER
    return flags


def flags_of_strided(tensor: torch.Tensor) -> int:
    flags = flags_of(tensor)
    if tensor.is_conj():
        flags |= CONJUGATE
    if tensor.is_neg():
        flags |= NEGATIVE
    return flags
