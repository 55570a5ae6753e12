"""Sparse and nested tensors of PyTorch, whose indices or offsets address their values.

PyTorch uses these numbers unchecked, and the process that owns their memory may still write to it.
Therefore they are first copied into memory of this process, then checked, then used.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorbus import _core
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._core import Memory
from tensorbus._tensors.torch_tensors import dtype_name, finished, from_memory, learn

if TYPE_CHECKING:
    import torch

    from tensorbus._codec.protocols import Restorer

# The compressed layouts, and the methods that return their indices.
COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def require_torch(restorer: Restorer, what: str) -> Any:
    if restorer.library not in (None, "torch"):
        raise Unsupported(
            f'{what} cannot be received with library="{restorer.library}": only PyTorch has them'
        )
    return learn()


def restore_sparse(
    restorer: Restorer,
    layout: str,
    sizes: list[int],
    coalesced: bool,
    flags: int,
    *parts: torch.Tensor,
) -> torch.Tensor:
    torch = require_torch(restorer, "sparse tensors")
    *indices, values = parts
    own = [restorer.own_indices(part) for part in indices]
    return finished(_sparse(torch, layout, sizes, coalesced, own, values), flags)


class OwnIndices(NamedTuple):
    """Indices or offsets in memory that no other process can write to."""

    tensor: torch.Tensor
    copy: Memory  # the same numbers in main memory, for the checks

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)


def own_indices(tensor: torch.Tensor) -> OwnIndices:
    """A copy of indices or offsets, made by one thread: a forked child has no thread pool."""
    (plain,) = _strided(tensor)
    if plain.numel() > _FEW and _overlaps(plain):  # a few bytes could expand to any size
        raise ProtocolError("sample.fields: indices with overlapping elements")
    if plain.device.type != "cpu":
        plain = plain.detach().clone()
        return OwnIndices(plain, _copied(plain.cpu()))
    copy = _copied(plain)
    return OwnIndices(from_memory(copy), copy)


# Number of indices up to which a copy is cheap, even if they overlap.
_FEW = 8192


def _overlaps(tensor: torch.Tensor) -> bool:
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() > reach + 1


def apart(indices: torch.Tensor) -> torch.Tensor:
    """Indices for sending; a copy if they overlap, as in an expanded tensor."""
    if not _overlaps(indices):
        return indices
    return indices.contiguous() if indices.device.type != "cpu" else from_memory(_copied(indices))


def _copied(tensor: torch.Tensor) -> Memory:
    name = dtype_name(tensor.dtype)
    if name not in ("int32", "int64"):
        raise ProtocolError(f"sample.fields: indices of {name}, expected int64 or int32")
    return _core.private_copy(tensor.data_ptr(), name, tensor.shape, tensor.stride())


def _strided(*parts: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Checks that the parts of a tensor are ordinary tensors of one device."""
    torch = learn()
    devices = {part.device for part in parts}
    if (
        len(devices) != 1
        or any(type(part) not in (torch.Tensor, torch.nn.Parameter) for part in parts)
        or any(part.layout != torch.strided or part.is_nested for part in parts)
    ):
        raise ProtocolError("sample.fields: the parts are not plain tensors on one device")
    return parts


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ProtocolError(f"sample.fields: {what}")


def _sparse(
    torch: Any,
    layout: str,
    sizes: list[int],
    coalesced: bool,
    indices: list[OwnIndices],
    values: torch.Tensor,
) -> torch.Tensor:
    check_sparse(layout, sizes, coalesced, indices, values)
    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(  # type: ignore[no-any-return]
            indices[0].tensor,
            values,
            sizes,
            is_coalesced=coalesced or None,
            check_invariants=False,
            device=values.device,
        )
    begins, others = indices
    return torch.sparse_compressed_tensor(  # type: ignore[no-any-return]
        begins.tensor,
        others.tensor,
        values,
        sizes,
        layout=getattr(torch, layout),
        check_invariants=False,
        device=values.device,
    )


def check_sparse(
    layout: str,
    sizes: list[int],
    coalesced: bool,
    indices: list[OwnIndices],
    values: torch.Tensor,
) -> None:
    """Checks the parts of a sparse tensor. Sender and receiver make the same checks.

    Raises:
        ProtocolError: PyTorch would read outside of the values, or of the tensor.
    """
    _strided(values, *(part.tensor for part in indices))
    if layout == "sparse_coo":
        (places,) = indices
        return _check_coordinates(sizes, coalesced, places, values)
    if layout not in COMPRESSED:
        raise ProtocolError(f"sample.fields: there is no layout {layout!r}")
    begins, others = indices
    return _check_compressed(layout, sizes, begins, others, values)


def _check_coordinates(
    sizes: list[int], coalesced: bool, indices: OwnIndices, values: torch.Tensor
) -> None:
    dims, count = indices.shape
    _require(
        indices.copy.dtype == "int64"
        and dims <= len(sizes)
        and min(sizes, default=0) >= 0
        and list(values.shape) == [count, *sizes[dims:]],
        f"sparse: indices of shape {indices.shape} and values of shape {tuple(values.shape)} make "
        f"no tensor of shape {tuple(sizes)}",
    )
    _core.check_coordinates(indices.copy, sizes[:dims], count, coalesced)


def _check_compressed(
    layout: str,
    sizes: list[int],
    begins: OwnIndices,
    others: OwnIndices,
    values: torch.Tensor,
) -> None:
    """The columns of a row may have any order: products that PyTorch computes are not sorted."""
    *batch, rows = begins.shape
    dims, count = len(batch), others.shape[-1] if others.shape else -1
    blocked = layout in ("sparse_bsr", "sparse_bsc")
    block = list(values.shape[dims + 1 : dims + 3]) if blocked else [1, 1]
    place = 1 if layout in ("sparse_csc", "sparse_bsc") else 0  # the compressed dimension
    shape = sizes[dims : dims + 2]
    _require(
        begins.copy.dtype == others.copy.dtype
        and len(shape) == len(block) == 2
        and min(sizes) >= 0
        and min(block) > 0
        and not any(size % part for size, part in zip(shape, block, strict=True))
        and sizes[:dims] == batch
        and list(others.shape) == [*batch, count]
        and list(values.shape) == [*batch, count, *(block if blocked else []), *sizes[dims + 2 :]]
        and rows == shape[place] // block[place] + 1,
        f"{layout}: indices of shapes {begins.shape} and {others.shape} and values of shape "
        f"{tuple(values.shape)} make no tensor of shape {tuple(sizes)}",
    )
    other = 1 - place
    _core.check_compressed(begins.copy, others.copy, prod(batch), shape[other] // block[other])


def restore_nested(restorer: Restorer, flags: int, *parts: torch.Tensor) -> torch.Tensor:
    require_torch(restorer, "nested tensors")
    return finished(_nested(restorer.own_indices, *parts), flags)


def _nested(
    own: Callable[[torch.Tensor], OwnIndices], values: torch.Tensor, *parts: torch.Tensor
) -> torch.Tensor:
    torch = learn()
    _strided(values)
    if parts[0].dim() == 0:  # no tensors
        return torch.nested.nested_tensor([], dtype=values.dtype, device=values.device)  # type: ignore[no-any-return]
    sizes, strides, offsets = map(own, parts)
    _require(
        {part.copy.dtype for part in (sizes, strides, offsets)} == {"int64"}
        and all(part.tensor.device.type == "cpu" for part in (sizes, strides, offsets))
        and len(sizes.shape) == 2
        and sizes.shape == strides.shape
        and offsets.shape == sizes.shape[:1]
        and values.dim() == 1
        and values.is_contiguous(),
        "a nested tensor whose sizes, strides and offsets do not match",
    )
    _core.check_nested(sizes.copy, strides.copy, offsets.copy, values.numel())
    return torch._nested_view_from_buffer(  # type: ignore[no-any-return]
        values, sizes.tensor, strides.tensor, offsets.tensor
    )


def restore_jagged(
    restorer: Restorer,
    flags: int,
    values: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor | None,
    ragged: int,
) -> torch.Tensor:
    torch = require_torch(restorer, "nested tensors")
    begins, extents = check_jagged(restorer.own_indices, values, offsets, lengths, ragged)
    tensor = torch.nested.nested_tensor_from_jagged(
        values, begins.tensor, None if extents is None else extents.tensor, jagged_dim=ragged
    )
    return finished(tensor.detach(), flags)


def check_jagged(
    own: Callable[[torch.Tensor], OwnIndices],
    values: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor | None,
    ragged: int,
) -> tuple[OwnIndices, OwnIndices | None]:
    """Checks the parts of a jagged tensor, at sender and receiver.

    Returns:
        Copies of the offsets and the lengths.

    Raises:
        ProtocolError: PyTorch would read outside of the values.
    """
    _strided(values, offsets, *([] if lengths is None else [lengths]))
    begins = own(offsets)
    extents = None if lengths is None else own(lengths)
    _require(
        len(begins.shape) == 1
        and begins.shape[0] > 0
        and (extents is None or extents.shape == (begins.shape[0] - 1,))
        and 1 <= ragged <= values.dim(),
        "a nested tensor whose values, offsets and lengths do not match",
    )
    _core.check_jagged(
        begins.copy, None if extents is None else extents.copy, values.shape[ragged - 1]
    )
    return begins, extents


def rebuild_sparse(layout: Any, data: tuple[Any, ...]) -> torch.Tensor:
    """Replaces PyTorch's function for pickles of sparse tensors, usually of subclasses."""
    name = str(layout).removeprefix("torch.")
    count = 1 if name == "sparse_coo" else 2
    *parts, sizes = data[: count + 2]
    coalesced = name == "sparse_coo" and bool(data[count + 2 :] and data[count + 2])
    *indices, values = map(_plain, parts)
    own = [own_indices(part) for part in indices]
    return _sparse(learn(), name, list(sizes), coalesced, own, values)


def rebuild_nested(*parts: torch.Tensor) -> torch.Tensor:
    """Replaces PyTorch's function for pickles of nested tensors."""
    return _nested(own_indices, *map(_plain, parts))


def _plain(part: torch.Tensor) -> torch.Tensor:
    """A part as a plain tensor: the parts of an instance of a subclass are instances of it, too."""
    return part.as_subclass(learn().Tensor)  # type: ignore[no-any-return]
