"""PyTorch's tensors in memory that others may write to, as `torch.multiprocessing` has them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tensorbus import _core
from tensorbus._participant import participant
from tensorbus._torch import learn

if TYPE_CHECKING:
    import torch

_COMPRESSED_INDICES = {
    "torch.sparse_csr": ("crow_indices", "col_indices"),
    "torch.sparse_csc": ("ccol_indices", "row_indices"),
    "torch.sparse_bsr": ("crow_indices", "col_indices"),
    "torch.sparse_bsc": ("ccol_indices", "row_indices"),
}

_moving = threading.Lock()  # of one storage, by several threads: each byte once


def is_shared(storage: torch.UntypedStorage) -> bool:
    """Does this storage lie in memory of the bus that others may be let write to?"""
    size = storage.nbytes()
    return storage.device.type == "cpu" and _core.is_shared(
        storage.data_ptr(), max(size, 1), participant()
    )


def move(tensor: torch.Tensor) -> None:
    """Moves what an ordinary CPU tensor consists of into memory of the bus, for others to write to.

    Where PyTorch can swap the memory of a storage (2.8 and newer, about), all views of it see the
    new one; else this tensor object alone.

    Raises:
        OutOfMemory: there is no room for it; nothing was moved.
    """
    learn()
    for part in _parts(tensor):
        _move_strided(part)


def move_storage(storage: torch.UntypedStorage) -> bool:
    """Moves a CPU storage; is that possible here?

    Raises:
        OutOfMemory: there is no room for it; nothing was moved.
    """
    if not hasattr(storage, "_swap_data_ptr_"):
        return False
    with _moving:
        if storage.nbytes() > 0 and not is_shared(storage):
            storage._swap_data_ptr_(_room_for(storage))
    return True


def warn_of_hooks(tensor: torch.Tensor) -> None:
    """As PyTorch does: they stay behind."""
    import torch.utils.hooks

    torch.utils.hooks.warn_if_has_hooks(tensor)


def _parts(tensor: Any) -> list[torch.Tensor]:
    """The strided CPU tensors that it consists of; none of kinds that are copied instead."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return []
    if tensor.is_nested:
        return [tensor.detach().values()]
    if tensor.layout == torch.strided:
        return [tensor]
    plain = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return [plain._indices(), plain._values()]
    names = _COMPRESSED_INDICES.get(str(tensor.layout), ())
    return [*(getattr(plain, name)() for name in names), plain.values()] if names else []


def _move_strided(tensor: torch.Tensor) -> None:
    import torch

    storage = tensor.untyped_storage()
    # One without memory stands for zeros, or was resized: who sends it refuses it.
    if storage.nbytes() == 0 or storage.data_ptr() == 0 or move_storage(storage):
        return
    with _moving, torch.no_grad():
        if not is_shared(storage):
            tensor.data = torch.empty(0, dtype=tensor.dtype).set_(
                _room_for(storage),
                tensor.storage_offset(),
                tensor.size(),
                tensor.stride(),
            )


def _room_for(storage: torch.UntypedStorage) -> Any:
    """A copy of a storage in memory of the bus."""
    size = storage.nbytes()
    memory = _core.empty("uint8", [size], True, participant())
    room = learn().utils.dlpack.from_dlpack(memory).untyped_storage()
    room.copy_(storage)
    return room
