"""Any picklable object as a message: its tensors beside it, the rest as a pickle.

A pickle may run any code when it is read. So only queues and `tensorbus.multiprocessing`, whose
processes trust one another, come here; `attach` and subscribers refuse such a message.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorbus import _core, _numpy, _torch
from tensorbus._errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._fields import Flattener, Restorer, flatten, unflatten
from tensorbus._tensors import TENSOR_CLASSES, Library, library_of

_HAS_HISTORY = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
    "since autograd does not support crossing process boundaries.  "
    "If you just want to transfer the data, call detach() on the tensor "
    "before serializing (e.g., putting it on the queue)."
)


def dump(item: object, *, shared: bool = False) -> tuple[_core.Outgoing, bytes]:
    """The tensors of an object, and the fields of the rest; none for a lone tensor or array.

    Args:
        item: anything that can be pickled, with tensors and arrays anywhere in it.
        shared: as `torch.multiprocessing` sends: an ordinary CPU tensor's storage moves into memory
            of the bus that others may write to, all its views with it.

    Raises:
        RuntimeError: a tensor in it requires gradients and is no leaf.
        OutOfMemory: there is no room for what is to be shared; the message names the limit.
        Exception: whatever pickling it raises.
    """
    library = library_of(item)
    if library is not None and type(item) in _classes_of(library):
        _prepare(item, shared)
        try:
            return flatten(item)
        except Unsupported:  # an array of objects, say, which a pickle can carry
            pass
    packer = Packer(shared=shared)
    fields = packer.fields(packer.pickle(item))
    return packer.outgoing, fields


def load(core: _core.Sample, as_: Library | None = None) -> Any:
    """The object that was dumped. Runs what its pickle says, so it must come from a friend.

    Raises:
        ProtocolError: the fields make no sense.
        Exception: whatever unpickling it raises.
    """
    fields = core.fields
    if fields:
        restorer = Restorer(core, as_)
        found = restorer.decode_pickled(fields)
        if found is not None:
            return _Unpickler(*found).load()
    return unflatten(core, as_)


class Packer:
    """Puts the tensors of one object beside it."""

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._flattener = Flattener()
        self._lowered: list[Any] = []
        self._kept: list[Any] = []  # nothing that was lowered by identity may go before the end

    @property
    def outgoing(self) -> _core.Outgoing:
        return self._flattener.outgoing

    @property
    def has_tensors(self) -> bool:
        """Is there more than the pickle?"""
        return bool(self._lowered)

    def pickle(self, item: object) -> bytes:
        """The object without its tensors."""
        written = io.BytesIO()
        _Pickler(written, self._reduce).dump(item)
        return written.getvalue()

    def fields(self, pickled: bytes) -> bytes:
        """The fields of the message of that pickle."""
        return self._flattener.pickled(pickled, self._lowered)

    def _reduce(self, value: Any) -> Any:
        """What stands for a tensor in the pickle; NotImplemented for what pickles by itself."""
        if library_of(value) is not None:
            if self._shared and _is_on_gpu(value):
                return NotImplemented  # torch.multiprocessing knows a way; ours is to be read only
            _prepare(value, self._shared)
        elif type(value) is _core.Memory:
            pass
        elif _is_storage(value):
            return storage_of, (bytes_of(value),)
        else:
            return NotImplemented
        try:
            lowered = self._flattener.lower_all(value)
        except CannotTravel:
            return _reduced_otherwise(value)
        self._lowered.append(lowered)
        self._kept.append(value)
        return _tensor, (len(self._lowered) - 1,)


class _Pickler(ForkingPickler):
    """Knows what multiprocessing knows (connections, locks), and asks about everything else."""

    def __init__(self, file: io.BytesIO, reduce: Callable[[Any], Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._reduce = reduce

    def reducer_override(self, value: Any) -> Any:
        return self._reduce(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, tensors: list[Any]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == _tensor.__name__:
            return self._tensors.__getitem__
        return super().find_class(module, name)


def _tensor(index: int) -> Any:
    """Stands in a pickle for the tensor with this index; found by `_Unpickler` alone."""
    raise ProtocolError(f"tensor {index} of a pickle, without its message")


def _classes_of(library: str) -> set[type]:
    """The classes of a library's ordinary tensors, which are known from now on."""
    (_torch if library == "torch" else _numpy).learn()
    return TENSOR_CLASSES


def _prepare(value: Any, shared: bool) -> None:
    """Before a tensor or an array is taken: refuses one with a history, moves one to be shared."""
    if library_of(value) != "torch":
        return
    from tensorbus import _torch_sharing

    if value.requires_grad and not value.is_leaf:
        raise RuntimeError(_HAS_HISTORY)
    if shared:
        _torch_sharing.warn_of_hooks(value)
        _torch_sharing.move(value)


def _reduced_otherwise(value: Any) -> Any:
    """What cannot travel as a tensor: as its library pickles it, perhaps with its storage beside.

    On other devices torch.multiprocessing knows a way; in main memory, its way loses quantizers.
    """
    if library_of(value) == "torch" and value.device.type != "cpu":
        return NotImplemented
    return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _is_on_gpu(value: Any) -> bool:
    return library_of(value) == "torch" and value.device.type == "cuda"


def _is_storage(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return (
        torch is not None and isinstance(value, torch.UntypedStorage) and value.device.type == "cpu"
    )


def bytes_of(storage: Any) -> Any:
    """The tensor of all bytes of a storage."""
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(storage)


def storage_of(tensor: Any) -> Any:
    """Undoes `bytes_of`."""
    return tensor.untyped_storage()
