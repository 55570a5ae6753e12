"""New tensors in shared memory: for loans and `tensorbus.empty`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tensorbus._base.device import HOST, ordinal_of
from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._core import Memory
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import library_of, sizes_of

# Allocates a contiguous tensor: name of the dtype, sizes, ordinal of the device.
Allocate = Callable[[str, list[int], int], Memory]


def tensor_in(allocate: Allocate, shape: Any, dtype: Any, like: Any, device: Any = None) -> Any:
    """A new tensor: see `tensorbus.Publisher.loan`."""
    if like is not None and library_of(like) is None:
        raise InvalidArgument(f"like={type(like).__name__}: expected a tensor")
    if dtype is None and like is None:
        raise InvalidArgument("a new tensor needs dtype=, or like= with a tensor")
    if isinstance(dtype, int):
        raise InvalidArgument(
            f"dtype={dtype!r}: sizes are one argument, as in shape=({shape}, {dtype})"
        )
    sizes = like.shape if shape is None and like is not None else shape
    if sizes is None:
        raise InvalidArgument("a new tensor needs shape=, or like= with a tensor")
    wanted = like.dtype if dtype is None else dtype
    if device is None and like is not None:
        device = device_of(like)
    ordinal = ordinal_of(device)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(wanted, torch.dtype):
        return torch_tensors.from_memory(
            allocate(torch_tensors.dtype_name(wanted), sizes_of(sizes), ordinal)
        )
    if ordinal != HOST:
        return allocate(dtype_name(wanted), sizes_of(sizes), ordinal)
    return _array(allocate, sizes_of(sizes), wanted)


def device_of(like: Any) -> Any:
    """The device of a tensor on a GPU; None for any other tensor."""
    device = getattr(like, "device", None)
    return device if getattr(device, "type", None) == "cuda" else None


def dtype_name(wanted: Any) -> str:
    """The name of a dtype, for memory that NumPy cannot access."""
    if isinstance(wanted, str):
        return wanted
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(wanted, torch.dtype):
        return torch_tensors.dtype_name(wanted)
    return str(numpy_arrays.learn().dtype(wanted).name)


def _array(allocate: Allocate, sizes: list[int], wanted: Any) -> Any:
    if isinstance(wanted, str) and wanted == "bfloat16":
        raise Unsupported("NumPy has no bfloat16: pass dtype=torch.bfloat16")
    np = numpy_arrays.learn()
    try:
        dtype = np.dtype(wanted)
    except (TypeError, ValueError):
        raise Unsupported(f"dtype={wanted!r}: expected a dtype of NumPy or PyTorch") from None
    if dtype.hasobject:
        raise Unsupported(f"dtype={wanted!r}: elements that are Python objects cannot be sent")
    if numpy_arrays.has_name(dtype):
        return numpy_arrays.from_memory(allocate(dtype.name, sizes, HOST))
    return numpy_arrays.over_bytes(allocate("uint8", [*sizes, dtype.itemsize], HOST), dtype)
