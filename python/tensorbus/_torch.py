"""PyTorch's tensors: what is special about each, and how it is made again.

Plain tensors do not come here: the core reads and makes them by PyTorch's C interface.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tensorbus import _core, _numpy
from tensorbus._core import Memory
from tensorbus._errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._tensors import (
    CONJUGATE,
    FROM_TORCH,
    NEGATIVE,
    PARAMETER,
    REQUIRES_GRAD,
    TENSOR_CLASSES,
)

if TYPE_CHECKING:
    import torch

    from tensorbus._fields import Flattener, Restorer


def learn() -> Any:
    """PyTorch, imported; from then on the core knows its tensors.

    Raises:
        Unsupported: it is not installed.
    """
    try:
        import torch
    except ImportError:
        raise Unsupported(
            "this tensor was sent from PyTorch, which is not installed here: pip install torch, "
            'or receive it with as_="numpy"'
        ) from None
    if torch.Tensor not in TENSOR_CLASSES:
        TENSOR_CLASSES.update((torch.Tensor, torch.nn.Parameter))
        _core.know_torch(torch.Tensor, torch.int8, torch.uint8)
    return torch


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_named(name: object) -> torch.dtype:
    """The dtype of this name.

    Raises:
        Unsupported: this PyTorch does not have it.
    """
    torch = learn()
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype):
        raise Unsupported(
            f"this PyTorch has no dtype {name}: install a newer one, or receive the tensor with "
            'as_="numpy" or "dlpack"'
        )
    return dtype  # type: ignore[no-any-return]


def from_memory(memory: Memory) -> Any:
    """The tensor over received or loaned memory."""
    torch = learn()
    dtype = dtype_named(memory.dtype)
    flags = memory.flags
    if min(memory.strides, default=0) < 0:  # which PyTorch does not have
        return _with_flags(from_array(_numpy.learn().asarray(memory).copy(), memory.dtype), flags)
    tensor: Any = torch.utils.dlpack.from_dlpack(memory.__dlpack__())
    if tensor.dtype != dtype:
        tensor = tensor.view(dtype)
    return _with_flags(tensor, flags)


def from_array(array: Any, dtype_name: str) -> Any:
    """The tensor over a contiguous NumPy array, or one of the bits of its elements."""
    torch = learn()
    dtype = dtype_named(dtype_name)
    if array.dtype.type.__module__ == "ml_dtypes":
        array = array.view(f"u{array.itemsize}")
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def _with_flags(tensor: torch.Tensor, flags: int) -> torch.Tensor:
    """A conjugate or negative view, a leaf that requires gradients, a parameter, if it was one."""
    if flags & (CONJUGATE | NEGATIVE):
        import torch

        if flags & CONJUGATE:
            tensor = tensor.conj()
        if flags & NEGATIVE:
            _numpy.check_negative(dtype_name(tensor.dtype))
            tensor = torch._neg_view(tensor) if hasattr(torch, "_neg_view") else -tensor
    if flags & REQUIRES_GRAD and not (tensor.is_floating_point() or tensor.is_complex()):
        raise ProtocolError(f"sample: a tensor of {tensor.dtype} that requires gradients")
    if flags & PARAMETER:
        import torch

        return torch.nn.Parameter(tensor, requires_grad=bool(flags & REQUIRES_GRAD))
    return tensor.requires_grad_() if flags & REQUIRES_GRAD else tensor


def _flags_of(tensor: torch.Tensor) -> int:
    import torch

    flags = FROM_TORCH
    if tensor.requires_grad:
        flags |= REQUIRES_GRAD
    if isinstance(tensor, torch.nn.Parameter):
        flags |= PARAMETER
    return flags


def _flags_of_strided(tensor: torch.Tensor) -> int:
    flags = _flags_of(tensor)
    if tensor.is_conj():
        flags |= CONJUGATE
    if tensor.is_neg():
        flags |= NEGATIVE
    return flags


def lower(flattener: Flattener, tensor: torch.Tensor, depth: int) -> Any:
    """A tensor in words that the encoder knows.

    Raises:
        CannotTravel: something about it would be lost; nothing was sent.
    """
    torch = learn()
    if tensor.requires_grad and not tensor.is_leaf:
        raise CannotTravel(
            tensor,
            "this tensor requires gradients and has a history, which cannot travel: publish "
            "tensor.detach(), or compute it under torch.no_grad()",
        )
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return _lower_subclass(flattener, tensor, depth)
    if tensor.is_nested:
        return _lower_nested(flattener, tensor, depth)
    if tensor.layout != torch.strided:
        return _lower_sparse(flattener, tensor, depth)
    if tensor.is_quantized:
        raise CannotTravel(
            tensor,
            "quantized tensors cannot travel, their quantizer would be lost: publish "
            "tensor.dequantize(), or tensor.int_repr() with the scale and the zero point",
        )
    if any(name is not None for name in getattr(tensor, "names", ())):
        raise CannotTravel(tensor, "names of dimensions cannot travel: publish tensor.rename(None)")
    flags = _flags_of_strided(tensor)
    if tensor.is_meta:
        name = dtype_name(tensor.dtype)
        return flattener.record(
            "torch.meta", name, list(tensor.shape), list(tensor.stride()), flags
        )
    return flattener.reference(_add_strided(flattener, tensor, flags))


def _add_strided(flattener: Flattener, tensor: torch.Tensor, flags: int) -> int:
    if tensor.device.type != "cpu":
        raise CannotTravel(
            tensor, f"tensors on {tensor.device} cannot travel yet: publish tensor.cpu()"
        )
    try:
        address = tensor.data_ptr()
    except RuntimeError as error:  # inside vmap, say
        raise CannotTravel(tensor, str(error)) from error
    if address == 0 and tensor.numel() > 0:
        raise CannotTravel(
            tensor, "this tensor has no memory: it stands for zeros, or its storage was resized"
        )
    return flattener.outgoing.add_memory(
        address, dtype_name(tensor.dtype), tensor.shape, tensor.stride(), flags, tensor
    )


_COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def _lower_sparse(flattener: Flattener, tensor: torch.Tensor, depth: int) -> Any:
    plain = tensor.detach()
    layout = str(plain.layout).removeprefix("torch.")
    if layout == "sparse_coo":
        # The public ones refuse a tensor that is not coalesced.
        parts = [plain._indices(), plain._values()]
    elif layout in _COMPRESSED:
        parts = [getattr(plain, name)() for name in _COMPRESSED[layout]] + [plain.values()]
    else:
        raise CannotTravel(tensor, f"{plain.layout} tensors cannot travel: publish to_dense()")
    coalesced = layout == "sparse_coo" and plain.is_coalesced()
    return flattener.record(
        "torch.sparse", layout, list(plain.shape), coalesced, _flags_of(tensor), *parts, depth=depth
    )


def _lower_nested(flattener: Flattener, tensor: torch.Tensor, depth: int) -> Any:
    plain: Any = tensor.detach()
    parts = [
        plain.values(),
        plain._nested_tensor_size(),
        plain._nested_tensor_strides(),
        plain._nested_tensor_storage_offsets(),
    ]
    return flattener.record("torch.nested", _flags_of(tensor), *parts, depth=depth)


def _lower_subclass(flattener: Flattener, tensor: torch.Tensor, depth: int) -> Any:
    """By the protocol of torch.utils._python_dispatch: inner tensors, and a context."""
    kind = type(tensor)
    if not (hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")):
        raise CannotTravel(
            tensor,
            f"{kind.__name__} is a subclass of torch.Tensor without __tensor_flatten__, and its "
            "meaning would be lost: publish tensor.as_subclass(torch.Tensor)",
        )
    plain = tensor.detach()
    names, context = plain.__tensor_flatten__()  # type: ignore[attr-defined]
    inner = {name: getattr(plain, name) for name in names}
    if tensor.is_nested:
        # Its sizes are symbols of this process, which its constructor makes anew.
        parts = [inner["_values"], inner["_offsets"], inner.get("_lengths"), context["ragged_idx"]]
        return flattener.record("torch.jagged", _flags_of(tensor), *parts, depth=depth)
    flags = _flags_of(tensor)
    sizes, strides = list(tensor.shape), list(tensor.stride())
    try:
        return flattener.record(
            "torch.subclass",
            kind.__module__,
            kind.__qualname__,
            flags,
            sizes,
            strides,
            inner,
            context,
            depth=depth,
        )
    except CannotTravel as refusal:
        raise CannotTravel(
            tensor, f"what {kind.__name__}.__tensor_flatten__ gives: {refusal.why}"
        ) from None


def _require_torch(restorer: Restorer, what: str) -> Any:
    if restorer.as_ not in (None, "torch"):
        raise Unsupported(
            f'{what} cannot be received with as_="{restorer.as_}": only PyTorch has them'
        )
    return learn()


def restore_meta(
    restorer: Restorer, name: str, sizes: list[int], strides: list[int], flags: int
) -> torch.Tensor:
    torch = _require_torch(restorer, "meta tensors")
    tensor = torch.empty_strided(sizes, strides, dtype=dtype_named(name), device="meta")
    return _with_flags(tensor, flags)


def restore_sparse(
    restorer: Restorer,
    layout: str,
    sizes: list[int],
    coalesced: bool,
    flags: int,
    *parts: torch.Tensor,
) -> torch.Tensor:
    torch = _require_torch(restorer, "sparse tensors")
    # The indices are input: PyTorch itself follows them without a look.
    if layout == "sparse_coo":
        tensor = torch.sparse_coo_tensor(
            *parts,
            sizes,
            is_coalesced=coalesced or None,
            check_invariants=True,
            device=parts[-1].device,
        )
    elif layout in _COMPRESSED:
        tensor = torch.sparse_compressed_tensor(
            *parts,
            sizes,
            layout=getattr(torch, layout),
            check_invariants=True,
            device=parts[-1].device,
        )
    else:
        raise ProtocolError(f"sample.fields: there is no layout {layout!r}")
    return _with_flags(tensor, flags)


def restore_nested(restorer: Restorer, flags: int, *parts: torch.Tensor) -> torch.Tensor:
    torch = _require_torch(restorer, "nested tensors")
    values, sizes, *_ = parts
    if sizes.dim() == 0:  # there are none
        tensor = torch.nested.nested_tensor([], dtype=values.dtype, device=values.device)
        return _with_flags(tensor, flags)
    tensor = torch._nested_view_from_buffer(*parts)
    tensor.unbind()  # refuses a part that is not inside the buffer
    return _with_flags(tensor, flags)


def restore_jagged(
    restorer: Restorer,
    flags: int,
    values: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor | None,
    ragged: int,
) -> torch.Tensor:
    torch = _require_torch(restorer, "nested tensors")
    _check_offsets(values.shape[ragged - 1], offsets, lengths)
    tensor = torch.nested.nested_tensor_from_jagged(values, offsets, lengths, jagged_dim=ragged)
    return _with_flags(tensor.detach(), flags)


def _check_offsets(end: int, offsets: torch.Tensor, lengths: torch.Tensor | None) -> None:
    """PyTorch itself follows them without a look."""
    begins = offsets[:-1]
    ends = offsets[1:] if lengths is None else begins + lengths
    if not bool((begins >= 0).all() & (begins <= ends).all() & (ends <= end).all()):
        raise ProtocolError("sample.fields: a nested tensor that reaches beyond its values")


def restore_subclass(
    restorer: Restorer,
    module: str,
    name: str,
    flags: int,
    sizes: list[int],
    strides: list[int],
    inner: dict[str, torch.Tensor],
    context: Any,
) -> torch.Tensor:
    torch = _require_torch(restorer, "subclasses of torch.Tensor")
    # What a peer names is not imported, only found.
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # getattr() may run code, or import
    if not (
        isinstance(found, type)
        and issubclass(found, torch.Tensor)
        and hasattr(found, "__tensor_unflatten__")
    ):
        raise Unsupported(
            f"this is a {module}.{name}, which this process does not know: import {module} here"
        )
    tensor = found.__tensor_unflatten__(inner, context, torch.Size(sizes), tuple(strides))
    return _with_flags(tensor, flags)
