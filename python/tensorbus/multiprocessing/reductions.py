"""How tensors and arrays are pickled between processes: by reference.

What our queues, pipes, processes, pools and managers carry is pickled here, by a pickler of our
own. The standard library's `ForkingPickler`, and what PyTorch has registered with it, stay as they
are, but for tensors that lie in memory of the bus already: these go by reference wherever they go,
once our means are in use.
"""

from __future__ import annotations

import io
import pickle
import sys
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorbus import _core
from tensorbus._base.participant import participant
from tensorbus._pickling import lending, pickler, torch_sharing
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus.multiprocessing import _keeper
from tensorbus.multiprocessing._torch_names import __getattr__ as __getattr__

__all__ = ["ForkingPickler", "dumps", "is_shared", "loads", "reduce_storage", "reduce_tensor"]

# Seconds in which the owner of a message that is discarded answers.
_PATIENCE = 1.0


def dumps(item: object) -> bytes:
    """A pickle whose tensors and arrays stay where they are; any unpickler reads it, once.

    Raises:
        RuntimeError: a tensor in it requires gradients and is no leaf.
        OutOfMemory: a limit was reached; the message names it.
    """
    packer = pickler.Packer(shared=True)
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
    return pickler.load(lending.borrow(handle, _core.Access.SHARED))


def discard(pickled: bytes) -> None:
    """Receives a message of `dumps` that nobody else can receive, and releases its tensors."""
    with suppress(Exception):  # a plain one, or its tensors are gone
        _Discarding(io.BytesIO(pickled)).load()


class _Discarding(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != (__name__, attached.__name__):
            raise pickle.UnpicklingError
        return _receive_and_release


def _receive_and_release(handle: bytes) -> None:
    _core.attach(_core.Handle.from_bytes(handle), _core.Access.SHARED, _PATIENCE, participant())


def reduce_tensor(tensor: Any) -> Any:
    """For a `ForkingPickler`: a PyTorch tensor by itself; PyTorch's way, unless the bus has it."""
    if not _is_ours(tensor):
        from torch.multiprocessing import reductions

        return reductions.reduce_tensor(tensor)  # type: ignore[no-untyped-call]
    return attached, (_keeper.offer(*pickler.dump(tensor, shared=True)),)


def reduce_memory(memory: _core.Memory) -> Any:
    """For a `ForkingPickler`: a loan or a received tensor that is no tensor of a library."""
    return attached, (_keeper.offer(*pickler.dump(memory, shared=True)),)


def reduce_storage(storage: Any) -> Any:
    """For a `ForkingPickler`: the same for a PyTorch storage."""
    if storage.device.type != "cpu" or not _is_our_storage(storage):
        from torch.multiprocessing import reductions

        return reductions.reduce_storage(storage)  # type: ignore[no-untyped-call]
    return pickler.storage_of, (pickler.bytes_of(storage),)


def _is_ours(tensor: Any) -> bool:
    strided = tensor.layout is sys.modules["torch"].strided and not tensor.is_nested
    on_host = tensor.device.type == "cpu"
    return bool(strided and on_host and _is_our_storage(tensor.untyped_storage()))


def _is_our_storage(storage: Any) -> bool:
    return torch_sharing.is_shared(storage) or torch_sharing.is_inherited(storage)


def learn_libraries() -> None:
    """Our means are in use: tensors in memory of the bus are known as what they are from now on."""
    if "numpy" in sys.modules:
        numpy_arrays.learn()
    if "torch" in sys.modules:
        torch = torch_tensors.learn()
        for kind in (torch.Tensor, torch.nn.Parameter):
            _register(kind, reduce_tensor)
        _register(torch.UntypedStorage, reduce_storage)
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
    """PyTorch's own methods know memory of the bus from now on, and do all else as before."""
    if hasattr(kind, "_tensorbus"):
        return
    pytorchs_is_shared, pytorchs_share_memory_ = kind.is_shared, kind.share_memory_

    def is_shared(self: Any) -> bool:
        """Is it in memory that several processes may write to: of Tensorbus, or PyTorch's own?"""
        return _is_our_storage(self) or bool(pytorchs_is_shared(self))

    def share_memory_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Moves it into shared memory of PyTorch, unless it is in that of Tensorbus."""
        return self if _is_our_storage(self) else pytorchs_share_memory_(self, *args, **kwargs)

    kind.is_shared, kind.share_memory_, kind._tensorbus = is_shared, share_memory_, True
    if not hasattr(kind, "_new_shared"):
        return
    pytorchs_new_shared = kind._new_shared

    def new_shared(cls: Any, size: int, *, device: Any = "cpu") -> Any:
        """Where the workers of a DataLoader put a batch together."""
        if str(device) == "cpu" and size > 0 and _keeper.is_of_ours():
            return torch_sharing.new_storage(size)
        return pytorchs_new_shared(size, device=device)

    kind._new_shared = classmethod(new_shared)


ForkingPickler.register(_core.Memory, reduce_memory)
