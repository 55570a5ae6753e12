"""Between the tensors of PyTorch and NumPy and the memory of the bus.

Neither library is imported before it is needed: what a caller hands in, the caller has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, Any, Literal

from tensorbus._core import Memory, TensorFlags, TensorView
from tensorbus._errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    import numpy as np
    import torch

Library = Literal["torch", "numpy"]

_FROM_TORCH = TensorFlags.FROM_TORCH.value
_FROM_NUMPY = TensorFlags.FROM_NUMPY.value
_REQUIRES_GRAD = TensorFlags.REQUIRES_GRAD.value
_PARAMETER = TensorFlags.PARAMETER.value


def library_of(value: object) -> Library | None:
    """Whose tensor this is; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    return None


def dtype_name(dtype: object) -> tuple[str, Library]:
    """The name of a dtype, and the library that it was written for.

    >>> dtype_name("float32")
    ('float32', 'numpy')
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch."), "torch"
    if dtype == "bfloat16":
        raise Unsupported("NumPy has no bfloat16: pass dtype=torch.bfloat16")
    import numpy as np

    try:
        known = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise Unsupported(f"dtype={dtype!r}: expected a dtype of NumPy or PyTorch") from None
    if not known.isnative:
        raise Unsupported(f"dtype={dtype!r} is not in this machine's byte order")
    return known.name, "numpy"


def sizes_of(shape: Any) -> list[int]:
    """The sizes in a shape, which may be one size.

    >>> sizes_of(5), sizes_of((2, 3))
    ([5], [2, 3])
    """
    try:
        sizes = [index(size) for size in shape] if isinstance(shape, Iterable) else [index(shape)]
    except TypeError:
        sizes = [-1]
    if not all(0 <= size < 2**63 for size in sizes):
        raise InvalidArgument(f"shape={shape!r}: expected one size or several, from 0 to 2**63 - 1")
    return sizes


def view_of(value: Any, library: Library) -> tuple[TensorView, object]:
    """Where a tensor lies, and the object that has to live until its bytes were copied."""
    return _view_of_torch(value) if library == "torch" else _view_of_numpy(value)


def _view_of_torch(tensor: torch.Tensor) -> tuple[TensorView, object]:
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Unsupported(
            f"{type(tensor).__name__} is a subclass of torch.Tensor, and its meaning would be "
            "lost: publish tensor.as_subclass(torch.Tensor)"
        )
    if tensor.layout != torch.strided:
        raise Unsupported(f"{tensor.layout} tensors cannot travel yet: publish tensor.to_dense()")
    if tensor.is_meta:
        raise Unsupported("a meta tensor has no elements that could travel: publish its shape")
    if tensor.device.type != "cpu":
        raise Unsupported(f"tensors on {tensor.device} cannot travel yet: publish tensor.cpu()")
    if tensor.is_quantized:
        raise Unsupported("quantized tensors cannot travel: publish tensor.dequantize()")
    flags = _FROM_TORCH
    if tensor.requires_grad:
        flags |= _REQUIRES_GRAD
    if type(tensor) is torch.nn.Parameter:
        flags |= _PARAMETER
    plain = tensor.detach().resolve_conj().resolve_neg()
    dtype = str(plain.dtype).removeprefix("torch.")
    return TensorView(plain.data_ptr(), dtype, plain.shape, plain.stride(), flags), plain


def _view_of_numpy(array: np.ndarray[Any, Any]) -> tuple[TensorView, object]:
    import numpy as np

    if type(array) is not np.ndarray and type(array) is not np.memmap:
        raise Unsupported(
            f"{type(array).__name__} is a subclass of numpy.ndarray, and its meaning would be "
            "lost: publish numpy.asarray(array)"
        )
    dtype = array.dtype
    if dtype.kind not in "biufc" and dtype.name != "bfloat16":
        raise Unsupported(f"arrays of {dtype} cannot travel yet")
    if not dtype.isnative:
        raise Unsupported(
            f"{dtype} is not in this machine's byte order: publish "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    item = array.itemsize
    if any(stride % item for stride in array.strides):
        raise Unsupported(
            "the strides are not whole elements: publish numpy.ascontiguousarray(array)"
        )
    address = array.__array_interface__["data"][0]
    strides = [stride // item for stride in array.strides]
    return TensorView(address, dtype.name, array.shape, strides, _FROM_NUMPY), array


def tensor_from(memory: Memory, library: Library | None) -> Any:
    """The tensor over received or loaned memory, which lives as long as any view of it.

    Args:
        memory: what the core handed over.
        library: "torch" or "numpy"; None for what it was sent from (NumPy, if from neither).
    """
    flags = memory.flags
    if library is None:
        library = "torch" if flags & _FROM_TORCH else "numpy"
    return _torch_from(memory, flags) if library == "torch" else _numpy_from(memory)


def _torch_from(memory: Memory, flags: int) -> torch.Tensor:
    try:
        from torch.utils.dlpack import from_dlpack
    except ImportError:
        raise Unsupported(
            "this tensor was sent from PyTorch, which is not installed here: pip install torch, "
            'or receive it with as_="numpy"'
        ) from None
    tensor: torch.Tensor = from_dlpack(memory.dlpack())
    if flags & _PARAMETER:
        import torch

        return torch.nn.Parameter(tensor, requires_grad=bool(flags & _REQUIRES_GRAD))
    return tensor.requires_grad_() if flags & _REQUIRES_GRAD else tensor


def _numpy_from(memory: Memory) -> np.ndarray[Any, Any]:
    try:
        import numpy as np
    except ImportError:
        raise Unsupported(
            "this tensor is to be a NumPy array, and NumPy is not installed here: pip install "
            'numpy, or receive it with as_="torch"'
        ) from None

    array = np.asarray(memory)
    if memory.dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise Unsupported(
                "NumPy has no bfloat16 of its own: pip install ml_dtypes, or receive it with "
                'as_="torch"'
            ) from None
        return array.view(ml_dtypes.bfloat16)
    return array
