"""Pickling of tensors and arrays by reference.

The queues, pipes, processes, pools and managers of this package use this module, which has its own
pickler. The standard library's `ForkingPickler`, and the reducers that PyTorch has registered with
it, are not changed, except for tensors in memory of the bus: once this package is used, every
`ForkingPickler` passes these tensors by reference.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorbus import _core
from tensorbus._codec.fields import fields_of_pickle
from tensorbus._core import is_plain
from tensorbus._pickling import pickler, torch_sharing
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus.multiprocessing import _keeper

# A part of a message: its handle, the participant that also keeps it (or ""), and whether the
# receiver's writes are visible to all.
Offered = tuple[bytes, str, bool]

__all__ = ["ForkingPickler", "dumps", "is_shared", "loads", "reduce_storage", "reduce_tensor"]


def __getattr__(name: str) -> Any:
    """Other names of `torch.multiprocessing.reductions`.

    These functions reduce a tensor as PyTorch does, unless it is in memory of the bus: PyTorch's
    pickler calls the reducers of this module for tensors and storages.
    """
    if name.startswith(("rebuild_", "reduce_")) or name == "StorageWeakRef":
        try:
            return getattr(importlib.import_module("torch.multiprocessing.reductions"), name)
        except (ImportError, AttributeError):
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dumps(item: object, carrier: int = 0) -> bytes:
    """A pickle that refers to tensors and large arrays. Any unpickler can read it, once.

    Args:
        item: any object that can be pickled. Its tensors are shared; its arrays belong only to the
            receiver.
        carrier: the inode of the pipe that it is sent through; the message is released when no
            process can read the pipe. 0: unknown; the message is kept until it is received.

    Raises:
        RuntimeError: a tensor in the item requires gradients and is not a leaf.
        OutOfMemory: a limit was reached; the message names it.
    """
    return Dumped(item, carrier).pickled


loads = pickle.loads


class Dumped:
    """The pickle of `dumps`, with the handles of the messages that it refers to."""

    def __init__(self, item: object, carrier: int = 0) -> None:
        self.handles: list[bytes] = []
        self.own_arrays = False  # it refers to arrays
        if is_plain(item):
            self.pickled = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
            return
        packer = pickler.Packer(shared=True, in_parts=True, carrier=carrier)
        pickled = packer.pickle(item)
        if not packer.has_tensors:
            self.pickled = pickled
            return
        try:
            self.pickled = pickle.dumps(_Attached(self._offer(packer, pickled, carrier)))
        except BaseException:
            self.withdraw()
            raise

    def withdraw(self) -> None:
        """Closes the messages, if the pickle will not be received."""
        _keeper.withdraw(self.handles)

    def _offer(self, packer: pickler.Packer, pickled: bytes, carrier: int) -> Sequence[Offered]:
        offered = []
        parts = list(packer.parts)
        if packer.has_only_parts():
            first = parts.pop(0)
            fields = fields_of_pickle(pickled, first.packed)
            offered.append(self._offer_one(first.outgoing, fields, first.shared, carrier))
        else:
            fields = packer.fields(pickled)
            offered.append(self._offer_one(packer.outgoing, fields, True, carrier))
        for part in parts:
            offered.append(self._offer_one(part.outgoing, part.fields, part.shared, carrier))
        return offered

    def _offer_one(
        self, outgoing: _core.Outgoing, fields: bytes, shared: bool, carrier: int
    ) -> Offered:
        handle, keeper = _keeper.offer(outgoing, fields, shared=shared, carrier=carrier)
        self.handles.append(handle)
        self.own_arrays = self.own_arrays or not shared
        return handle, keeper, shared


class _Attached:
    def __init__(self, offered: Sequence[Offered]) -> None:
        self._offered = offered

    def __reduce__(self) -> Any:
        return attached, (*self._offered,)


def attached(*offered: Offered) -> Any:
    """The item of a message with tensors. Unpickling calls it, with the parts of the message."""
    learn_libraries()
    first, *others = [(_received(one), not one[2]) for one in offered]
    return pickler.load(first[0], None, others, own=first[1])


def _received(offered: Offered) -> _core.Sample:
    handle, keeper, shared = offered
    access = _core.Access.SHARED if shared else _core.Access.COPY_ON_WRITE
    return _keeper.receive(handle, keeper, access)


def reduce_tensor(tensor: Any) -> Any:
    """Reduces a PyTorch tensor for `ForkingPickler`: by reference if it is in memory of the bus."""
    if not _is_ours(tensor):
        from torch.multiprocessing import reductions

        return reductions.reduce_tensor(tensor)  # type: ignore[no-untyped-call]
    return attached, ((*_keeper.offer(*pickler.dump(tensor, shared=True)), True),)


def reduce_memory(memory: _core.Memory) -> Any:
    """Reduces memory of the bus (a loan, or received memory) for `ForkingPickler`."""
    return attached, ((*_keeper.offer(*pickler.dump(memory, shared=True)), True),)


def reduce_storage(storage: Any) -> Any:
    """Reduces a PyTorch storage for `ForkingPickler`: by reference if in memory of the bus."""
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
    """Registers the reducers for tensors in memory of the bus, for each imported library."""
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
    """True if a PyTorch tensor is in memory that several processes may write to.

    This is memory of the bus, or PyTorch's own shared memory.
    """
    learn_libraries()
    shared: bool = tensor.is_shared()
    return shared


def _teach_storages(kind: Any) -> None:
    """Extends PyTorch's methods of storages for memory of the bus."""
    if hasattr(kind, "_tensorbus"):
        return
    pytorchs_is_shared, pytorchs_share_memory_ = kind.is_shared, kind.share_memory_

    def is_shared(self: Any) -> bool:
        """True if the storage is in memory, of Tensorbus or PyTorch, that processes share."""
        return _is_our_storage(self) or bool(pytorchs_is_shared(self))

    def share_memory_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Moves the storage into PyTorch's shared memory, unless it is in memory of Tensorbus."""
        return self if _is_our_storage(self) else pytorchs_share_memory_(self, *args, **kwargs)

    kind.is_shared, kind.share_memory_, kind._tensorbus = is_shared, share_memory_, True
    if not hasattr(kind, "_new_shared"):
        return
    pytorchs_new_shared = kind._new_shared

    def new_shared(cls: Any, size: int, *, device: Any = "cpu") -> Any:
        """The storage in which a worker of a DataLoader stacks a batch."""
        if str(device) == "cpu" and size > 0 and _keeper.was_started_here():
            return torch_sharing.new_storage(size)
        return pytorchs_new_shared(size, device=device)

    kind._new_shared = classmethod(new_shared)


ForkingPickler.register(_core.Memory, reduce_memory)
