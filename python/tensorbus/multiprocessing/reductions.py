"""How tensors and arrays are pickled between processes: by reference.

Importing this registers it with the standard library's `multiprocessing`, as importing PyTorch
registers `torch.multiprocessing`: so what the standard library pickles by itself (a manager's
calls, the arguments of a process, an executor's work) goes by reference, too, once our processes
are in use. Until then it goes as it would without us.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorbus import _core, _numpy, _pickling, _torch, _torch_sharing
from tensorbus.multiprocessing import _keeper

__all__ = ["ForkingPickler", "dumps", "is_shared", "loads", "reduce_tensor"]


def dumps(item: object) -> bytes:
    """A pickle whose tensors and arrays stay where they are; any unpickler reads it, once.

    Raises:
        RuntimeError: a tensor in it requires gradients and is no leaf.
        OutOfMemory: a limit was reached; the message names it.
    """
    packer = _pickling.Packer(shared=True)
    pickled = packer.pickle(item)
    if not packer.has_tensors:
        return pickled
    return pickle.dumps(_Attached(_keeper.offer(packer.outgoing, packer.fields(pickled))))


loads = pickle.loads


class _Attached:
    def __init__(self, handle: bytes) -> None:
        self._handle = handle

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return attached, (self._handle,)


def attached(handle: bytes) -> Any:
    """What a pickle says of a message with tensors."""
    learn_libraries()
    return _pickling.load(_keeper.attach(handle))


def reduce_tensor(tensor: Any) -> Any:
    """For a `ForkingPickler`: a PyTorch tensor by itself."""
    if not _is_for_us(tensor, _is_ours):
        from torch.multiprocessing import reductions

        return reductions.reduce_tensor(tensor)  # type: ignore[no-untyped-call]
    return attached, (_keeper.offer(*_pickling.dump(tensor, shared=True)),)


def reduce_array(array: Any) -> Any:
    """For a `ForkingPickler`: a NumPy array by itself."""
    if not _keeper.in_use():
        return array.__reduce__()
    return attached, (_keeper.offer(*_pickling.dump(array, shared=True)),)


def reduce_memory(memory: _core.Memory) -> Any:
    """For a `ForkingPickler`: a loan or a received tensor that is no tensor of a library."""
    return attached, (_keeper.offer(*_pickling.dump(memory, shared=True)),)


def _reduce_storage(storage: Any) -> Any:
    if storage.device.type == "meta" or not _is_for_us(storage, _is_our_storage):
        from torch.multiprocessing import reductions

        return reductions.reduce_storage(storage)  # type: ignore[no-untyped-call]
    return _pickling.storage_of, (_pickling.bytes_of(storage),)


def _is_for_us(value: Any, is_ours: Callable[[Any], bool]) -> bool:
    """Does a tensor or a storage go by our means? Not where nobody would keep it."""
    if value.device.type == "cuda":
        return _keeper.in_use() and _pickling.can_lend(value)
    return value.device.type in ("cpu", "meta") and (_keeper.in_use() or is_ours(value))


def _is_ours(tensor: Any) -> bool:
    strided = tensor.layout is sys.modules["torch"].strided and not tensor.is_nested
    return bool(strided and _is_our_storage(tensor.untyped_storage()))


def _is_our_storage(storage: Any) -> bool:
    return _torch_sharing.is_shared(storage) or _torch_sharing.is_inherited(storage)


def learn_libraries() -> None:
    """Registers those of PyTorch and NumPy that are imported: PyTorch registers its own ways."""
    _register(_core.Memory, reduce_memory)
    if "numpy" in sys.modules:
        _register(_numpy.learn().ndarray, reduce_array)
    if "torch" in sys.modules:
        torch = _torch.learn()
        for kind in (torch.Tensor, torch.nn.Parameter):
            _register(kind, reduce_tensor)
        _register(torch.UntypedStorage, _reduce_storage)
        _teach_storages(torch.UntypedStorage)


def _register(kind: type, reduce: Any) -> None:
    if ForkingPickler._extra_reducers.get(kind) is not reduce:  # type: ignore[attr-defined]
        ForkingPickler.register(kind, reduce)


def is_shared(tensor: Any) -> bool:
    """Does this PyTorch tensor lie in memory that several processes may write to?

    That of the bus, or PyTorch's own.
    """
    learn_libraries()
    shared: bool = tensor.is_shared()
    return shared


def _teach_storages(kind: Any) -> None:
    """PyTorch's own methods that share memory do so in memory of the bus from now on."""
    if hasattr(kind, "_tensorbus"):
        return
    pytorchs_is_shared, pytorchs_share_memory_ = kind.is_shared, kind.share_memory_

    def is_shared(self: Any) -> bool:
        """Is it in memory that several processes may write to: of Tensorbus, or PyTorch's own?"""
        return _is_our_storage(self) or bool(pytorchs_is_shared(self))

    def share_memory_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Moves it into shared memory of Tensorbus, if it is in main memory."""
        ours = self.device.type == "cpu" and self.nbytes() > 0 and not pytorchs_is_shared(self)
        if ours and (is_shared(self) or _torch_sharing.move_storage(self)):
            return self
        return pytorchs_share_memory_(self, *args, **kwargs)

    kind.is_shared, kind.share_memory_, kind._tensorbus = is_shared, share_memory_, True
    if not hasattr(kind, "_new_shared"):
        return
    pytorchs_new_shared = kind._new_shared

    def new_shared(cls: Any, size: int, *, device: Any = "cpu") -> Any:
        """Where the workers of a DataLoader put a batch together."""
        if str(device) == "cpu" and size > 0 and _keeper.in_use():
            return _torch_sharing.new_storage(size)
        return pytorchs_new_shared(size, device=device)

    kind._new_shared = classmethod(new_shared)


learn_libraries()
