"""PyTorch's tensors in memory that others may write to, as `torch.multiprocessing` has them."""

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

_moving = threading.Lock()  # of one storage, by several threads: each byte once

# The memory of storages that this process moved and that live still, by address.
_moved: dict[int, weakref.ref[memoryview]] = {}
_known = threading.RLock()  # of `_moved`; the garbage collector may come to _forget() anywhere
# Of those that processes before us had moved when they forked: the way to have each from its owner.
_inherited: dict[int, Callable[[int, int], _core.Memory]] = {}
# In a child: the ways to what its parent had moved; tensorbus.multiprocessing knows them.
lent_to_child: Callable[[], dict[int, Callable[[int, int], _core.Memory]]] = dict


def is_shared(storage: torch.UntypedStorage) -> bool:
    """Does this storage lie in memory of the bus that others may be let write to?"""
    return (
        storage.device.type in ("cpu", "cuda")
        and (size := storage.nbytes()) > 0
        and (has_participant() or _is_of_file(storage))  # who only asks needs none
        and _core.is_shared(storage.data_ptr(), size, participant())
    )


def is_inherited(storage: torch.UntypedStorage) -> bool:
    """Has a process before us moved it, and forked then?"""
    return storage.device.type == "cpu" and storage.data_ptr() in _inherited


Moved = dict[int, tuple[Any, Any]]


def move(tensor: torch.Tensor, together: Moved | None = None) -> None:
    """Moves what an ordinary CPU tensor consists of into memory of the bus, for others to write to.

    Where PyTorch can swap the memory of a storage (2.8 and newer, about), all views of it see the
    new one; else this tensor object alone, and not a quantized one, which would lose its quantizer.

    Args:
        together: the storages that tensors of the same message had, and what took their place, by
            address: these tensors stay views of one storage.

    Raises:
        OutOfMemory: there is no room for it; nothing was moved.
    """
    learn()
    for part in _parts(tensor):
        _move_strided(part, {} if together is None else together)


def move_storage(storage: torch.UntypedStorage) -> bool:
    """Moves a CPU storage, unless it is a file's; is that possible here?

    Raises:
        OutOfMemory: there is no room for it; nothing was moved.
    """
    if not hasattr(storage, "_swap_data_ptr_"):
        return False
    with _moving:
        if storage.nbytes() > 0 and not (is_shared(storage) or _is_of_file(storage)):
            storage._swap_data_ptr_(_elsewhere(storage))
    return True


def pin() -> dict[int, memoryview]:
    """The memory that a child which is forked now inherits, by address.

    It must live as long as the child.
    """
    known = list(_moved.items())
    return {address: memory for address, ref in known if (memory := ref()) is not None}


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
    # Its indices are each process's own: what others write there would be followed without a look.
    plain = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return [plain._values()]
    return [plain.values()] if str(tensor.layout) in _COMPRESSED else []


def _move_strided(tensor: torch.Tensor, together: Moved) -> None:
    import torch

    storage = tensor.untyped_storage()
    # One without memory stands for zeros, or was resized: who sends it refuses it.
    if storage.nbytes() == 0 or storage.data_ptr() == 0 or move_storage(storage):
        return
    if tensor.is_quantized:
        return
    with _moving, torch.no_grad():
        if not (is_shared(storage) or _is_of_file(storage)):
            address = storage.data_ptr()
            if address not in together:
                together[address] = storage, _elsewhere(storage)
            moved = torch.empty(0, dtype=tensor.dtype).set_(
                together[address][1],
                tensor.storage_offset(),
                tensor.size(),
                tensor.stride(),
            )
            tensor.data = finished(moved, flags_of_strided(tensor) & (CONJUGATE | NEGATIVE))


def _elsewhere(storage: torch.UntypedStorage) -> Any:
    """What a storage holds, in memory that the bus can lend to others who write to it."""
    return _from_owner(storage) or _from_pytorch(storage) or _room_for(storage)


def _room_for(storage: torch.UntypedStorage) -> Any:
    """A copy of a storage in memory of the bus.

    Not by PyTorch, whose threads a forked child of a process that has used them waits for in vain.
    """
    room = new_storage(storage.nbytes())
    ctypes.memmove(room.data_ptr(), storage.data_ptr(), storage.nbytes())
    return room


# PyTorch's count of those that have it, before the bytes of what it shares by a file's name.
_COUNT_BYTES = 64


def _from_pytorch(storage: Any) -> Any:
    """The very memory of a storage that PyTorch has shared; None for others.

    Its pages are mapped once more: whoever has it through PyTorch goes on seeing what is written.
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
    fd, size = storage._share_fd_cpu_()  # the descriptor stays PyTorch's
    if fd < 0:  # PyTorch has mapped a file, and has not kept its descriptor
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
        OutOfMemory: there is no room for it; the message names the limit.
    """
    memory = memoryview(_core.empty("uint8", [size], True, participant()))  # type: ignore[arg-type]
    room = _storage_over(memory)
    address = room.data_ptr()
    with _known:
        _moved[address] = weakref.ref(memory, lambda gone: _forget(address, gone))
    return room


def _forget(address: int, gone: weakref.ref[memoryview]) -> None:
    with _known:
        if _moved.get(address) is gone:  # the memory may be another's by now
            del _moved[address]


def _from_owner(storage: torch.UntypedStorage) -> Any:
    """The memory of a storage that a fork has left us, as its owner lends it; None for others."""
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
    """What our parent has moved is here too, but not ours to lend."""
    global _moving, _known
    _moving, _known = threading.Lock(), threading.RLock()
    _inherited.update(lent_to_child())
    _moved.clear()


os.register_at_fork(after_in_child=_after_fork)
