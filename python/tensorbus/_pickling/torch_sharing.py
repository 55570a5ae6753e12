"""PyTorch tensors in memory that other processes may write to, like `torch.multiprocessing`."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorbus import _core
from tensorbus._base.errors import Closed
from tensorbus._base.participant import has_participant, participant
from tensorbus._tensors.library import CONJUGATE, NEGATIVE
from tensorbus._tensors.torch_tensors import finished, flags_of_strided, learn

if TYPE_CHECKING:
    import torch

_COMPRESSED = ("torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc")

_moving = threading.Lock()  # held during a move, so that a storage is moved only once

# The memory of the existing storages that this process has moved, by address.
_moved: dict[int, weakref.ref[memoryview]] = {}
# Guards `_moved`. Reentrant, because a garbage collection may call _forget() at any point.
_moved_lock = threading.RLock()
# A function for each storage that a parent process had moved before the fork, by address. It
# borrows the storage from its owner.
_inherited: dict[int, Callable[[int, int], _core.Memory]] = {}
# Returns the entries of `_inherited` for a forked child; tensorbus.multiprocessing replaces it.
lent_to_child: Callable[[], dict[int, Callable[[int, int], _core.Memory]]] = dict


def is_shared(storage: torch.UntypedStorage) -> bool:
    """Whether a storage is in memory of the bus to which others can get write access."""
    return (
        storage.device.type in ("cpu", "cuda")
        and (size := storage.nbytes()) > 0
        and (has_participant() or _is_of_file(storage))  # else the check would make a participant
        and _core.is_shared(storage.data_ptr(), size, participant())
    )


def is_inherited(storage: torch.UntypedStorage) -> bool:
    """Whether a parent process had moved this storage before the fork."""
    return storage.device.type == "cpu" and storage.data_ptr() in _inherited


Moved = dict[int, tuple[Any, Any]]


def move(tensor: torch.Tensor, together: Moved | None = None) -> None:
    """Moves the parts of an ordinary CPU tensor into memory of the bus that others may write to.

    If PyTorch can swap the memory of a storage (about 2.8 and newer), all views of the storage are
    moved. Otherwise only this tensor object is moved; a quantized tensor is not, because it would
    lose its quantizer.

    Args:
        together: old and new storages of the tensors of one message, by the old address, so that
            these tensors stay views of one storage.

    Raises:
        OutOfMemory: there is no room; no part was moved.
    """
    learn()
    for part in _parts(tensor):
        _move_strided(part, {} if together is None else together)


def move_storage(storage: torch.UntypedStorage) -> bool:
    """Moves a CPU storage, unless it is of a mapped file or shared already.

    Returns:
        False if this PyTorch cannot swap the memory of a storage.

    Raises:
        OutOfMemory: there is no room; the storage was not moved.
    """
    if not hasattr(storage, "_swap_data_ptr_"):
        return False
    with _moving:
        if storage.nbytes() > 0 and not (is_shared(storage) or _is_of_file(storage)):
            storage._swap_data_ptr_(_replacement(storage))
    return True


def pin() -> dict[int, memoryview]:
    """The moved memory, by address, that a child forked now inherits. Keep it until it ends."""
    known = list(_moved.items())
    return {address: memory for address, ref in known if (memory := ref()) is not None}


def warn_of_hooks(tensor: torch.Tensor) -> None:
    """Warns, like PyTorch, that hooks are not sent."""
    import torch.utils.hooks

    torch.utils.hooks.warn_if_has_hooks(tensor)


def _parts(tensor: Any) -> list[torch.Tensor]:
    """The strided CPU tensors in a tensor that are moved; an empty list if the tensor is copied."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return []
    if tensor.is_nested:
        return [tensor.detach().values()]
    if tensor.layout == torch.strided:
        return [tensor]
    # Indices stay private to each process: PyTorch does not check indices that others write.
    plain = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return [plain._values()]
    return [plain.values()] if str(tensor.layout) in _COMPRESSED else []


def _move_strided(tensor: torch.Tensor, together: Moved) -> None:
    import torch

    storage = tensor.untyped_storage()
    # A storage without memory stands for zeros, or was resized: packing it will raise an error.
    if storage.nbytes() == 0 or storage.data_ptr() == 0 or move_storage(storage):
        return
    if tensor.is_quantized:
        return
    with _moving, torch.no_grad():
        if not (is_shared(storage) or _is_of_file(storage)):
            address = storage.data_ptr()
            if address not in together:
                together[address] = storage, _replacement(storage)
            moved = torch.empty(0, dtype=tensor.dtype).set_(
                together[address][1],
                tensor.storage_offset(),
                tensor.size(),
                tensor.stride(),
            )
            tensor.data = finished(moved, flags_of_strided(tensor) & (CONJUGATE | NEGATIVE))


def _replacement(storage: torch.UntypedStorage) -> Any:
    """A storage with the same contents, in memory that the bus can share for writing."""
    return _from_owner(storage) or _from_pytorch(storage) or _copied(storage)


def _copied(storage: torch.UntypedStorage) -> Any:
    """A copy of a storage in memory of the bus.

    It uses memmove, not PyTorch: in a forked child PyTorch may wait forever for threads that only
    its parent has.
    """
    copy = new_storage(storage.nbytes())
    ctypes.memmove(copy.data_ptr(), storage.data_ptr(), storage.nbytes())
    return copy


# Size of the reference count that precedes the bytes of PyTorch's named shared memory.
_COUNT_BYTES = 64


def _from_pytorch(storage: Any) -> Any:
    """The same memory, for a storage that PyTorch has shared; None for any other storage.

    Its pages are mapped again, so that writes stay visible to processes that share it by PyTorch.
    """
    if not storage.is_shared():
        return None
    if sys.modules["torch.multiprocessing"].get_sharing_strategy() == "file_system":
        _, name, size = storage._share_filename_cpu_()
        fd = os.open(b"/dev/shm" + name, os.O_RDWR)
        try:
            return _mapped(fd, _COUNT_BYTES, size)
        finally:
            os.close(fd)
    fd, size = storage._share_fd_cpu_()  # PyTorch owns the descriptor
    if fd < 0:  # PyTorch has mapped a file without keeping its descriptor
        return None
    return _mapped(fd, 0, size)


def _mapped(fd: int, offset: int, size: int) -> Any:
    mode = _core.FileMode.READ_WRITE
    file = _core.MappedFile(fd, "shared memory of PyTorch", offset, size, mode)
    return _storage_over(memoryview(file.memory("uint8", [size], 0)))  # type: ignore[arg-type]


def _is_of_file(storage: torch.UntypedStorage) -> bool:
    return _core.is_in_file(storage.data_ptr())


def new_storage(size: int) -> Any:
    """Memory of the bus that others may write to; its bytes are not cleared.

    Raises:
        OutOfMemory: there is no room; the message names the limit.
    """
    memory = memoryview(_core.empty("uint8", [size], True, participant()))  # type: ignore[arg-type]
    storage = _storage_over(memory)
    address = storage.data_ptr()
    with _moved_lock:
        _moved[address] = weakref.ref(memory, lambda gone: _forget(address, gone))
    return storage


def _forget(address: int, gone: weakref.ref[memoryview]) -> None:
    with _moved_lock:
        if _moved.get(address) is gone:  # otherwise new memory has the same address
            del _moved[address]


def _from_owner(storage: torch.UntypedStorage) -> Any:
    """The memory of an inherited storage, borrowed from its owner; None for any other storage."""
    borrow = _inherited.pop(storage.data_ptr(), None)
    if borrow is None:
        return None
    try:
        lent = borrow(storage.data_ptr(), storage.nbytes())
        return _storage_over(memoryview(lent))  # type: ignore[arg-type]
    except Closed:
        return None


def _storage_over(memory: memoryview) -> Any:
    return learn().frombuffer(memory, dtype=learn().uint8).untyped_storage()


def _after_fork() -> None:
    """In a forked child, moved storages become inherited: only their owner can share them."""
    global _moving, _moved_lock
    _moving, _moved_lock = threading.Lock(), threading.RLock()
    _inherited.update(lent_to_child())
    _moved.clear()


os.register_at_fork(after_in_child=_after_fork)
