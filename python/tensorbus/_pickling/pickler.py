"""Any picklable object as a message: its tensors beside it, the rest as a pickle.

A pickle may run any code when it is read. So only queues and `tensorbus.multiprocessing`, whose
processes trust one another, come here; `attach` and subscribers refuse such a message.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tensorbus import _core
from tensorbus._base.device import HOST, ordinal_of, stream_of
from tensorbus._base.errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._base.participant import participant
from tensorbus._codec import torch_indices
from tensorbus._codec.fields import Restorer, fields_of_pickle, flatten, list_of, unflatten
from tensorbus._pickling import lending, torch_sharing
from tensorbus._pickling.plain import plain_fields, plain_pickle
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import TENSOR_CLASSES, Library, library_of

_HAS_HISTORY = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
    "since autograd does not support crossing process boundaries.  "
    "If you just want to transfer the data, call detach() on the tensor "
    "before serializing (e.g., putting it on the queue)."
)


# Of all messages without tensors: it keeps nothing, and may be sent any number of times.
NO_TENSORS = _core.Outgoing()


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
    if stream is None and (plain := plain_fields(item)) is not None:
        return NO_TENSORS, plain
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


def load(
    core: _core.Sample,
    library: Library | None = None,
    parts: Sequence[tuple[_core.Sample, bool]] = (),
    *,
    own: bool = False,
) -> Any:
    """The object that was dumped. Runs what its pickle says, so it must come from a friend.

    Args:
        parts: the other messages of a `Packer` with parts; for each: are its arrays our own?
        own: is `core` the first of the parts, since no tensor went with the pickle itself? Then its
            arrays are our own.

    Raises:
        ProtocolError: the fields make no sense.
        Exception: whatever unpickling it raises.
    """
    fields = core.fields
    if fields:
        plain = plain_pickle(fields)
        if plain is not None:
            return pickle.loads(plain)
        restorer = Restorer(core, library, own=own)
        found = restorer.decode_pickled(fields)
        if found is not None:
            pickled, tensors = found
            others = [tensors] if own else []
            for part, is_own in parts:
                others.append(Restorer(part, library, own=is_own).decode(part.fields))
            return _Unpickler(pickled, tensors, others, library).load()
    return unflatten(core, library)


# Arrays of fewer bytes are in the pickle: a pipe takes them in one piece.
_LEAST_ARRAY = 65536


class Part:
    """Tensors that go as a message of their own, beside the one that has the pickle."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared  # may others write to them?
        self.outgoing = _core.Outgoing()
        self.packed: list[bytes] = []

    @property
    def fields(self) -> bytes:
        return list_of(self.packed)


class Packer:
    """Puts the tensors of one object beside it."""

    def __init__(
        self, *, shared: bool, stream: int | None = None, in_parts: bool = False, carrier: int = 0
    ) -> None:
        """Args: shared, stream: see `dump`.

        in_parts: arrays are their receiver's own, and any number of tensors can go: in `parts`.
        carrier: see `lending.lend`.
        """
        self._shared = shared
        self._in_parts = in_parts
        self._carrier = carrier
        self.parts: list[Part] = []
        self._storages: dict[int, Any] = {}  # of which views were found: all their bytes
        self._moved: torch_sharing.Moved = {}
        self._stream = stream  # on which what lies on GPUs is written; None: as its library says
        self._packed: list[bytes] = []
        self._lent: list[bytes] = []
        self._kept: list[Any] = []  # nothing that was packed may go before the end

    # Made when they are needed: most items have no tensors.
    @cached_property
    def outgoing(self) -> _core.Outgoing:
        return _core.Outgoing()

    @cached_property
    def _apart(self) -> _core.Outgoing:
        """What lies on GPUs, if the rest may be written to by others."""
        return _core.Outgoing()

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
        packed = list(self._packed)
        if self._stream is not None:
            self.outgoing.set_stream(self._stream)
        if self._lent:
            if self._stream is not None:
                self._apart.set_stream(self._stream)
            lent = lending.lend(self._apart, list_of(self._lent), self._carrier)
            packed.append(_core.pack_value(self._apart, [lent]))
        return fields_of_pickle(pickled, packed)

    def has_only_parts(self) -> bool:
        """Is there no tensor that goes with the pickle itself?"""
        return bool(self.parts) and not self._packed and not self._lent

    def _reduce(self, value: Any) -> Any:
        """What stands for a tensor in the pickle; NotImplemented for what pickles by itself."""
        library = library_of(value)
        if library is None and not _is_memory(type(value)):
            _ordinary.add(type(value))
            return NotImplemented
        if self._in_parts and library == "numpy" and value.nbytes < _LEAST_ARRAY:
            return NotImplemented  # as the standard library has it
        if self._in_parts and library == "numpy" and not value.flags.forc:
            value = value.copy()  # a pickle packs the elements, and no two share memory
        apart = _is_apart(value, self._shared)
        if apart and not _can_lend(value):
            return NotImplemented  # torch.multiprocessing may know a way
        if library is not None:
            _prepare(value, self._shared, self._moved)
            if self._in_parts and library == "torch" and (view := self._view(value)) is not None:
                return view
        elif type(value) is _core.Memory:
            pass
        elif _is_storage(value):
            return storage_of, (bytes_of(value),)
        else:
            return NotImplemented
        stand_in: Callable[..., Any]
        place: tuple[int, ...]
        if apart:
            outgoing, all_packed, stand_in, place = self._apart, self._lent, _lent_tensor, ()
        elif (number := self._part_for(library == "numpy")) is None:
            outgoing, all_packed, stand_in, place = self.outgoing, self._packed, _tensor, ()
        else:
            part = self.parts[number]
            outgoing, all_packed, stand_in = part.outgoing, part.packed, _tensor_of_part
            place = (number,)
        try:
            packed = _core.pack_value(outgoing, value)
        except CannotTravel as refusal:
            if isinstance(refusal.__cause__, ProtocolError):  # its receiver would refuse it, too
                raise Unsupported(str(refusal)) from None
            return _reduced_otherwise(value)
        all_packed.append(packed)
        self._kept.append(value)
        return stand_in, (*place, len(all_packed) - 1)

    def _view(self, tensor: Any) -> Any:
        """A view of a shared storage goes with all of it, as PyTorch sends it; None for others."""
        torch = sys.modules["torch"]
        kind = type(tensor)
        if kind not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            return None
        if tensor.device.type != "cpu" or tensor.is_nested or tensor.is_quantized:
            return None
        storage = tensor.untyped_storage()
        if tensor.nbytes == storage.nbytes() or tensor.is_conj() or tensor.is_neg():
            return None
        whole = self._storages.get(storage.data_ptr())
        if whole is None:
            if not torch_sharing.is_shared(storage):
                return None
            whole = self._storages[storage.data_ptr()] = bytes_of(storage)
        place = tensor.storage_offset(), tuple(tensor.size()), tensor.stride()
        return _view_of, (whole, kind, tensor.dtype, tensor.requires_grad, *place)

    def _part_for(self, is_array: bool) -> int | None:
        """The number of the part that takes the next array or tensor; None: the message itself."""
        if not self._in_parts:
            return None
        if not is_array and len(self.outgoing) < lending.MOST_TENSORS:
            return None
        for number, part in enumerate(self.parts):
            if part.shared != is_array and len(part.outgoing) < lending.MOST_TENSORS:
                return number
        self.parts.append(Part(shared=not is_array))
        return len(self.parts) - 1


# Classes of which no instance is a tensor, a storage or memory of the bus: known after one look.
_ordinary: set[type] = set()


_known_to_multiprocessing: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]


class _Pickler(pickle.Pickler):
    """Knows what multiprocessing knows (connections, locks), and asks about everything else."""

    def __init__(self, file: io.BytesIO, reduce: Callable[[Any], Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._reduce = reduce

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind not in _ordinary and (reduced := self._reduce(value)) is not NotImplemented:
            return reduced
        # Here, not in a dispatch table: a ChainMap takes longer than all else of an object.
        reduce = _known_to_multiprocessing.get(kind)
        return NotImplemented if reduce is None else reduce(value)


# Functions of PyTorch's that follow the numbers which they are given, and ours that look first.
_CHECKED = {
    "_rebuild_sparse_tensor": "rebuild_sparse",
    "_rebuild_nested_tensor": "rebuild_nested",
}


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        pickled: bytes,
        tensors: list[Any],
        parts: list[list[Any]],
        library: Library | None,
    ) -> None:
        super().__init__(io.BytesIO(pickled))
        self._tensors = tensors
        self._parts = _Parts(parts)
        self._lent = _Lent(tensors, library)

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == _tensor.__name__:
            return self._tensors.__getitem__
        if module == __name__ and name == _lent_tensor.__name__:
            return self._lent
        if module == __name__ and name == _tensor_of_part.__name__:
            return self._parts
        if module == "torch._utils" and name in _CHECKED:
            return getattr(torch_indices, _CHECKED[name])
        return super().find_class(module, name)


class _Parts:
    """The tensors of the parts, by part and index. Not a method, for the reason of `_Lent`."""

    def __init__(self, parts: list[list[Any]]) -> None:
        self._parts = parts

    def __call__(self, part: int, index: int) -> Any:
        return self._parts[part][index]


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


def _tensor_of_part(part: int, index: int) -> Any:
    """The same for one that went in a part."""
    raise ProtocolError(f"tensor {index} of part {part} of a pickle, without its message")


def _classes_of(library: str) -> set[type]:
    """The classes of a library's ordinary tensors, which are known from now on."""
    (torch_tensors if library == "torch" else numpy_arrays).learn()
    return TENSOR_CLASSES


def _prepare(value: Any, shared: bool, moved: torch_sharing.Moved | None = None) -> None:
    """Before a tensor or an array is taken: refuses one with a history, moves one to be shared."""
    if library_of(value) != "torch":
        return
    if value.requires_grad and not value.is_leaf:
        raise RuntimeError(_HAS_HISTORY)
    if shared:
        torch_sharing.warn_of_hooks(value)
        torch_sharing.move(value, moved)


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


def _is_apart(value: Any, shared: bool) -> bool:
    """Does it lie on a GPU, in memory that is only read, and travel with what may be written to?"""
    return shared and _ordinal_of(value) != HOST and not _is_shared(value)


def _is_shared(value: Any) -> bool:
    """Does this tensor on a GPU lie where others may be let write to it?"""
    if type(value) is _core.Memory:
        return _core.is_shared(value, participant())
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


def _view_of(
    whole: Any,
    kind: Any,
    dtype: Any,
    requires_grad: bool,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
) -> Any:
    """A view of the storage whose bytes `whole` has."""
    import torch

    view = torch.empty(0, dtype=dtype).set_(whole.untyped_storage(), offset, size, stride)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(view, requires_grad)
    return view.requires_grad_(requires_grad)


def bytes_of(storage: Any) -> Any:
    """The tensor of all bytes of a storage."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def storage_of(tensor: Any) -> Any:
    """Undoes `bytes_of`."""
    return tensor.untyped_storage()
