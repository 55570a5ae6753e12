"""Encoding and decoding of PyTorch's tensors, sizes, dtypes and devices.

The parts of some tensors have only private names in PyTorch. This module uses no other private
names than PyTorch's own `torch.multiprocessing`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensorbus._base.device import HOST, current_stream
from tensorbus._base.errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._codec.torch_indices import (
    COMPRESSED,
    apart,
    check_jagged,
    check_sparse,
    own_indices,
    require_torch,
    restore_jagged,
    restore_nested,
    restore_sparse,
)
from tensorbus._tensors.library import TENSOR_CLASSES
from tensorbus._tensors.torch_tensors import (
    dtype_name,
    dtype_named,
    finished,
    flags_of,
    flags_of_strided,
    learn,
)

if TYPE_CHECKING:
    import torch

    from tensorbus._codec.protocols import Lowered, Restorer
    from tensorbus._core import Outgoing


def lower(outgoing: Outgoing, value: Any) -> Lowered | None:
    """The record of a value of PyTorch, or the index of a tensor; None for any other value."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if torch.Tensor not in TENSOR_CLASSES:
            learn()
            if (index := outgoing.add(value)) >= 0:
                return index
        return _lower_tensor(outgoing, value)
    if type(value) is torch.Size:
        return "torch.Size", *value
    if isinstance(value, torch.dtype):
        return "torch.dtype", dtype_name(value)
    if isinstance(value, torch.device):
        return "torch.device", str(value)
    return None


def _lower_tensor(outgoing: Outgoing, tensor: torch.Tensor) -> Lowered:
    """The record of a tensor, or its index.

    Raises:
        CannotTravel: a property of the tensor would be lost.
    """
    torch = learn()
    if tensor.requires_grad and not tensor.is_leaf:
        raise CannotTravel(
            tensor,
            "this tensor requires gradients and has a history, which cannot be sent: publish "
            "tensor.detach(), or compute it under torch.no_grad()",
        )
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return _lower_subclass(tensor)
    if tensor.is_nested:
        return _lower_nested(tensor)
    if tensor.layout != torch.strided:
        return _lower_sparse(tensor)
    if tensor.is_quantized:
        raise CannotTravel(
            tensor,
            "quantized tensors cannot be sent, their quantizer would be lost: publish "
            "tensor.dequantize(), or tensor.int_repr() with the scale and the zero point",
        )
    if any(name is not None for name in getattr(tensor, "names", ())):
        raise CannotTravel(
            tensor, "names of dimensions cannot be sent: publish tensor.rename(None)"
        )
    flags = flags_of_strided(tensor)
    if tensor.is_meta:
        name = dtype_name(tensor.dtype)
        return "torch.meta", name, list(tensor.shape), list(tensor.stride()), flags
    return _add_strided(outgoing, tensor, flags)


def _add_strided(outgoing: Outgoing, tensor: torch.Tensor, flags: int) -> int:
    if tensor.device.type not in ("cpu", "cuda"):
        raise CannotTravel(
            tensor, f"tensors on {tensor.device} cannot be sent: publish tensor.cpu()"
        )
    try:
        address = tensor.data_ptr()
    except RuntimeError as error:  # for example, inside vmap
        raise CannotTravel(tensor, str(error)) from error
    if address == 0 and tensor.numel() > 0:
        raise CannotTravel(
            tensor, "this tensor has no memory: it stands for zeros, or its storage was resized"
        )
    ordinal = HOST if tensor.device.type == "cpu" else tensor.device.index
    return outgoing.add_memory(
        address,
        dtype_name(tensor.dtype),
        tensor.shape,
        tensor.stride(),
        flags,
        # This reference keeps the memory while readers use it. On a GPU it is a detached tensor,
        # because the program may meanwhile give `tensor` other memory.
        tensor if ordinal == HOST else tensor.detach(),
        ordinal,
        0 if ordinal == HOST else current_stream(ordinal),
    )


def _lower_sparse(tensor: torch.Tensor) -> Lowered:
    plain = tensor.detach()
    layout = str(plain.layout).removeprefix("torch.")
    if layout == "sparse_coo":
        # The public methods refuse a tensor that is not coalesced.
        indices, values = [plain._indices()], plain._values()
    elif layout in COMPRESSED:
        indices, values = [getattr(plain, name)() for name in COMPRESSED[layout]], plain.values()
    else:
        raise CannotTravel(tensor, f"{plain.layout} tensors cannot be sent: publish to_dense()")
    sizes, coalesced = list(plain.shape), layout == "sparse_coo" and plain.is_coalesced()
    parts = [*map(apart, indices)]
    if plain.device.type == "cpu":  # on a GPU the check would wait for the stream
        with _refusals_of(tensor):
            check_sparse(layout, sizes, coalesced, [*map(own_indices, parts)], values)
    return "torch.sparse", layout, sizes, coalesced, flags_of(tensor), *parts, values


@contextmanager
def _refusals_of(tensor: torch.Tensor) -> Iterator[None]:
    """Raises `CannotTravel` for a tensor that every receiver would refuse with `ProtocolError`."""
    try:
        yield
    except ProtocolError as error:
        raise CannotTravel(tensor, str(error).removeprefix("sample.fields: ")) from error


def _lower_nested(tensor: torch.Tensor) -> Lowered:
    plain: Any = tensor.detach()
    parts = [
        plain.values(),
        plain._nested_tensor_size(),
        plain._nested_tensor_strides(),
        plain._nested_tensor_storage_offsets(),
    ]
    return "torch.nested", flags_of(tensor), *parts


def _lower_subclass(tensor: torch.Tensor) -> Lowered:
    """The record by the protocol of torch.utils._python_dispatch: inner tensors and a context."""
    kind = type(tensor)
    if not (hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")):
        raise CannotTravel(
            tensor,
            f"{kind.__name__} is a subclass of torch.Tensor without __tensor_flatten__, and its "
            "meaning would be lost: publish tensor.as_subclass(torch.Tensor)",
        )
    # With inference mode as for the tensor: otherwise PyTorch refuses to detach a subclass.
    with learn().inference_mode(tensor.is_inference()):
        plain = tensor.detach()
    names, context = plain.__tensor_flatten__()  # type: ignore[attr-defined]
    inner = {name: getattr(plain, name) for name in names}
    if tensor.is_nested:
        # Its sizes are symbols of this process; the receiver's constructor makes new symbols.
        offsets, lengths = inner["_offsets"], inner.get("_lengths")
        lengths = None if lengths is None else apart(lengths)
        parts = [inner["_values"], offsets, lengths, context["ragged_idx"]]
        if tensor.device.type == "cpu":
            with _refusals_of(tensor):
                check_jagged(own_indices, *parts)
        return "torch.jagged", flags_of(tensor), *parts
    flags = flags_of(tensor)
    sizes, strides = list(tensor.shape), list(tensor.stride())
    return (
        "torch.subclass",
        kind.__module__,
        kind.__qualname__,
        flags,
        sizes,
        strides,
        inner,
        context,
    )


def blamed(error: BaseException, value: object) -> None:
    """Raises `CannotTravel` for a tensor of a subclass if one of its inner tensors was refused."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, CannotTravel) or not isinstance(value, torch.Tensor):
        return
    kind = type(value)
    if hasattr(kind, "__tensor_flatten__") and not value.is_nested:
        why = f"the result of {kind.__name__}.__tensor_flatten__(): {error.why}"
        raise CannotTravel(value, why) from None


def _jagged_class() -> Any:
    """The class of jagged tensors, which does not check offsets; () if it is not imported."""
    module = sys.modules.get("torch.nested._internal.nested_tensor")
    return getattr(module, "NestedTensor", ())


def _restore_meta(
    restorer: Restorer, name: str, sizes: list[int], strides: list[int], flags: int
) -> torch.Tensor:
    torch = require_torch(restorer, "meta tensors")
    tensor = torch.empty_strided(sizes, strides, dtype=dtype_named(name), device="meta")
    return finished(tensor, flags)


def _restore_subclass(
    restorer: Restorer,
    module: str,
    name: str,
    flags: int,
    sizes: list[int],
    strides: list[int],
    inner: dict[str, torch.Tensor],
    context: Any,
) -> torch.Tensor:
    torch = require_torch(restorer, "subclasses of torch.Tensor")
    # A module that a peer names is never imported: it must be loaded already.
    kind: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, "__dict__", {}).get(part)  # getattr() may run code, or import
    if not (
        isinstance(kind, type)
        and issubclass(kind, torch.Tensor)
        and hasattr(kind, "__tensor_unflatten__")
    ):
        raise Unsupported(
            f"this is a {module}.{name}, which is not imported in this process: import {module}"
        )
    if issubclass(kind, _jagged_class()):
        raise ProtocolError("sample.fields: a nested tensor in the record of a subclass")
    tensor = kind.__tensor_unflatten__(inner, context, torch.Size(sizes), tuple(strides))
    return finished(tensor, flags)


RESTORERS: dict[str, Callable[..., Any]] = {
    "torch.Size": lambda _, *sizes: learn().Size(sizes),
    "torch.dtype": lambda _, name: dtype_named(name),
    "torch.device": lambda _, text: learn().device(text),
    "torch.meta": _restore_meta,
    "torch.sparse": restore_sparse,
    "torch.nested": restore_nested,
    "torch.jagged": restore_jagged,
    "torch.subclass": _restore_subclass,
}
