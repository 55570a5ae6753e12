"""Any picklable object as a message: its tensors beside it, the rest as a pickle.

A pickle may run any code when it is read. So only queues and `tensorbus.multiprocessing`, whose
processes trust one another, come here; `attach` and subscribers refuse such a message.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable
from functools import cached_property
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorbus import _core
from tensorbus._base.device import HOST, ordinal_of, stream_of
from tensorbus._base.errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._base.participant import has_participant, participant
from tensorbus._codec import torch_indices
from tensorbus._codec.fields import Flattener, Restorer, flatten, unflatten
from tensorbus._pickling import lending
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import TENSOR_CLASSES, Library, library_of

_HAS_HISTORY = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
    "since autograd does not support crossing process boundaries.  "
    "If you just want to transfer the data, call detach() on the tensor "
    "before serializing (e.g., putting it on the queue)."
)


def dump(item: object, *, shared: bool = False, stream: Any = None) -> tuple[_core.Outgoing, bytes]:
    """The tensors of an object, and the fields of the rest; none for a lone tensor or array.

    Args:
        item: anything that can be pickled, with tensors and arrays anywhere in it.
        shared: as `torch.multiprocessing` sends: an ordinary CPU tensor's storage moves into memory
            of the bus that others may write to, all its views with it. Those on GPUs, which nobody
            else writes to, go beside it as a handle.
        stream: see `tensorbus.Queue.put`.

    Raises:
        RuntimeError: a tensor in it requires gradients and is no leaf.
        OutOfMemory: there is no room for what is to be shared; the message names the limit.
        Exception: whatever pickling it raises.
    """
    handle = None if stream is None else stream_of(stream)
    library = library_of(item)
    if library is not None and type(item) in _classes_of(library) and not _is_apart(item, shared):
        _prepare(item, shared)
        try:
            outgoing, fields = flatten(item)
            if handle is not None:
                outgoing.set_stream(handle)
            return outgoing, fields
        except Unsupported:  # an array of objects, say, which a pickle can carry
            pass
    packer = Packer(shared=shared, stream=handle)
    fields = packer.fields(packer.pickle(item))
    return packer.outgoing, fields


def load(core: _core.Sample, library: Library | None = None) -> Any:
    """The object that was dumped. Runs what its pickle says, so it must come from a friend.

    Raises:
        ProtocolError: the fields make no sense.
        Exception: whatever unpickling it raises.
    """
    fields = core.fields
    if fields:
        restorer = Restorer(core, library)
        found = restorer.decode_pickled(fields)
        if found is not None:
            return _Unpickler(*found, library).load()
    return unflatten(core, library)


class Packer:
    """Puts the tensors of one object beside it."""

    def __init__(self, *, shared: bool, stream: int | None = None) -> None:
        self._shared = shared
        self._stream = stream  # on which what lies on GPUs is written; None: as its library says
        self._lowered: list[Any] = []
        self._lent: list[Any] = []
        self._kept: list[Any] = []  # nothing that was lowered by identity may go before the end

    # Made when they are needed: most items have no tensors.
    @cached_property
    def _flattener(self) -> Flattener:
        return Flattener()

    @cached_property
    def _apart(self) -> Flattener:
        """What lies on GPUs, if the rest may be written to by others."""
        return Flattener()

    @property
    def outgoing(self) -> _core.Outgoing:
        return self._flattener.outgoing

    @property
    def has_tensors(self) -> bool:
        """Is there more than the pickle?"""
        return bool(self._kept)

    def pickle(self, item: object) -> bytes:
        """The object without its tensors."""
        written = io.BytesIO()
        _Pickler(written, self._reduce).dump(item)
        return written.getvalue()

    def fields(self, pickled: bytes) -> bytes:
        """The fields of the message of that pickle. What goes beside it is lent now."""
        lowered = list(self._lowered)
        if self._stream is not None:
            self.outgoing.set_stream(self._stream)
        if self._lent:
            if self._stream is not None:
                self._apart.outgoing.set_stream(self._stream)
            lowered.append([lending.lend(self._apart.outgoing, self._apart.encode(self._lent))])
        return self._flattener.pickled(pickled, lowered)

    def _reduce(self, value: Any) -> Any:
        """What stands for a tensor in the pickle; NotImplemented for what pickles by itself."""
        library = library_of(value)
        if library is None and not _is_memory(type(value)):
            _ordinary.add(type(value))
            return NotImplemented
        if self._shared and library == "numpy" and _is_small(value):
            return NotImplemented
        apart = _is_apart(value, self._shared)
        if apart and not _can_lend(value):
            return NotImplemented  # torch.multiprocessing may know a way
        if library is not None:
            _prepare(value, self._shared)
        elif type(value) is _core.Memory:
            pass
        elif _is_storage(value):
            return storage_of, (bytes_of(value),)
        else:
            return NotImplemented
        flattener, all_lowered, stand_in = (
            (self._apart, self._lent, _lent_tensor)
            if apart
            else (self._flattener, self._lowered, _tensor)
        )
        try:
            lowered = flattener.lower_all(value)
        except CannotTravel:
            return _reduced_otherwise(value)
        all_lowered.append(lowered)
        self._kept.append(value)
        return stand_in, (len(all_lowered) - 1,)


# Classes of which no instance is a tensor, a storage or memory of the bus: known after one look.
_ordinary: set[type] = set()


class _Pickler(pickle.Pickler):
    """Knows what multiprocessing knows (connections, locks), and asks about everything else."""

    # That of a ForkingPickler, which makes it anew for each item: a third of what an int takes.
    dispatch_table = ChainMap(
        ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
        copyreg.dispatch_table,
    )

    def __init__(self, file: io.BytesIO, reduce: Callable[[Any], Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._reduce = reduce

    def reducer_override(self, value: Any) -> Any:
        return NotImplemented if type(value) in _ordinary else self._reduce(value)


# Functions of PyTorch's that follow the numbers which they are given, and ours that look first.
_CHECKED = {
    "_rebuild_sparse_tensor": "rebuild_sparse",
    "_rebuild_nested_tensor": "rebuild_nested",
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, tensors: list[Any], library: Library | None) -> None:
        super().__init__(io.BytesIO(pickled))
        self._tensors = tensors
        self._lent = _Lent(tensors, library)

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == _tensor.__name__:
            return self._tensors.__getitem__
        if module == __name__ and name == _lent_tensor.__name__:
            return self._lent
        if module == "torch._utils" and name in _CHECKED:
            return getattr(torch_indices, _CHECKED[name])
        return super().find_class(module, name)


class _Lent:
    """The tensors that were lent apart from their item, by index.

    Not a method of the unpickler, which remembers what it has called: that would be a cycle, which
    keeps the tensors until the garbage collector runs.
    """

    def __init__(self, tensors: list[Any], library: Library | None) -> None:
        self._tensors = tensors
        self._library = library
        self._borrowed: list[Any] | None = None

    def __call__(self, index: int) -> Any:
        if self._borrowed is None:
            (handle,) = self._tensors[-1]
            self._borrowed = unflatten(lending.borrow(handle), self._library)
        return self._borrowed[index]


def _tensor(index: int) -> Any:
    """Stands in a pickle for the tensor with this index; found by `_Unpickler` alone."""
    raise ProtocolError(f"tensor {index} of a pickle, without its message")


def _lent_tensor(index: int) -> Any:
    """The same for one of those that were lent apart, whose handle is the last of the tensors."""
    return _tensor(index)


def _classes_of(library: str) -> set[type]:
    """The classes of a library's ordinary tensors, which are known from now on."""
    (torch_tensors if library == "torch" else numpy_arrays).learn()
    return TENSOR_CLASSES


def _prepare(value: Any, shared: bool) -> None:
    """Before a tensor or an array is taken: refuses one with a history, moves one to be shared."""
    if library_of(value) != "torch":
        return
    from tensorbus._pickling import torch_sharing

    if value.requires_grad and not value.is_leaf:
        raise RuntimeError(_HAS_HISTORY)
    if shared:
        torch_sharing.warn_of_hooks(value)
        torch_sharing.move(value)


def _reduced_otherwise(value: Any) -> Any:
    """What cannot travel as a tensor: as its library pickles it, perhaps with its storage beside.

    On other devices torch.multiprocessing knows a way; in main memory, its way loses quantizers.
    """
    if library_of(value) != "torch" or value.device.type == "cpu":
        return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if type(value) not in TENSOR_CLASSES:
        return NotImplemented
    from torch.multiprocessing import reductions  # not as registered: that may be our own way

    return reductions.reduce_tensor(value)  # type: ignore[no-untyped-call]


def _is_memory(kind: type) -> bool:
    """Is this the class of memory of the bus, or of storages?"""
    return kind is _core.Memory or _is_storage_class(kind)


def _is_storage_class(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.UntypedStorage)


# To copy so many bytes into the pickle takes less than to share them: those of an array, which is
# a copy for its receiver anyhow.
_SMALL_BYTES = 16 * 1024


def _is_small(array: Any) -> bool:
    """Is it a small array of NumPy's, and not in memory that others may be let write to?"""
    return array.nbytes <= _SMALL_BYTES and not (
        array.base is not None
        and array.nbytes > 0
        and has_participant()
        and _core.is_shared(array.ctypes.data, array.nbytes, participant())
    )


def _is_apart(value: Any, shared: bool) -> bool:
    """Does it lie on a GPU, in memory that is only read, and travel with what may be written to?"""
    return shared and _ordinal_of(value) != HOST and not _is_shared(value)


def _is_shared(value: Any) -> bool:
    """Does this tensor on a GPU lie where others may be let write to it?"""
    if type(value) is _core.Memory:
        return _core.is_shared(value, participant())
    from tensorbus._pickling import torch_sharing

    return torch_sharing.is_shared(value.untyped_storage())


def _ordinal_of(value: Any) -> int:
    """Of the GPU on which a tensor or memory of the bus lies, or `HOST`."""
    if type(value) is _core.Memory:
        return ordinal_of(value.device)
    return _ordinal_in_torch(value) if library_of(value) == "torch" else HOST


def _ordinal_in_torch(value: Any) -> int:
    return int(value.device.index) if value.device.type == "cuda" else HOST


def _can_lend(value: Any) -> bool:
    return type(value) is _core.Memory or can_lend(value)


def can_lend(value: Any) -> bool:
    """Does this tensor or storage of PyTorch's lie on a GPU whose memory the bus can hand over?"""
    ordinal = _ordinal_in_torch(value)
    return ordinal != HOST and lending.can_lend(ordinal)


def _is_storage(value: Any) -> bool:
    return _is_storage_class(type(value)) and (value.device.type == "cpu" or can_lend(value))


def bytes_of(storage: Any) -> Any:
    """The tensor of all bytes of a storage."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def storage_of(tensor: Any) -> Any:
    """Undoes `bytes_of`."""
    return tensor.untyped_storage()
