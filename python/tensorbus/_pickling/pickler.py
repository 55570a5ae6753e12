"""Messages of any object that can be pickled: its tensors by reference, all else as a pickle.

Reading a pickle may run any code. Therefore only queues and `tensorbus.multiprocessing` use
pickles: their processes trust one another. `attach` and subscribers refuse these messages.

Plain values (numbers, text, small containers) are pickled by the C pickler, without a search for
tensors: `plain_fields` and `plain_pickle` of the core. Their message has the same format, and its
first bytes identify it.
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
from tensorbus._codec.received import Received
from tensorbus._pickling import lending, torch_sharing
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import TENSOR_CLASSES, Library, library_of

_HAS_HISTORY = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
    "since autograd does not support crossing process boundaries.  "
    "If you just want to transfer the data, call detach() on the tensor "
    "before serializing (e.g., putting it on the queue)."
)


# For all messages without tensors: it holds no memory, and can be sent any number of times.
NO_TENSORS = _core.Outgoing()


def dump(item: object, *, shared: bool = False, stream: Any = None) -> tuple[_core.Outgoing, bytes]:
    """Splits an object into its tensors and fields; a lone tensor or array has no fields.

    Args:
        item: any object that can be pickled, with tensors and arrays anywhere in it. A received
            sample in it stands for its data.
        shared: like `torch.multiprocessing`: the storage of an ordinary CPU tensor, with all its
            views, is moved into memory of the bus that other processes may write to. Tensors on
            GPUs in read-only memory are lent, see `tensorbus._pickling.lending`.
        stream: see `tensorbus.Queue.put`.

    Raises:
        RuntimeError: a tensor in it requires gradients and is not a leaf.
        OutOfMemory: there is no room for the shared tensors; the message names the limit.
        Exception: pickling the object raised it.
    """
    if stream is None and (plain := _core.plain_fields(item)) is not None:
        return NO_TENSORS, plain
    if isinstance(item, Received):
        return dump(item.data, shared=shared, stream=stream)
    handle = None if stream is None else stream_of(stream)
    library = library_of(item)
    if library is not None and type(item) in _classes_of(library) and not _is_apart(item, shared):
        _prepare(item, shared)
        try:
            outgoing, fields = flatten(item)
            if handle is not None:
                outgoing.set_stream(handle)
            return outgoing, fields
        except Unsupported:  # for example, an array of objects, which can be pickled
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
    """The object of a `dump`. Unpickling may run any code, so the sender must be trusted.

    Args:
        parts: the other messages of a `Packer` with parts, each with True if its arrays belong only
            to this process.
        own: `core` is also the first part, because the pickle has no tensors of its own; the arrays
            of `core` belong only to this process.

    Raises:
        ProtocolError: the fields are malformed.
        Exception: unpickling the object raised it.
    """
    fields = core.fields
    if fields:
        plain = _core.plain_pickle(fields)
        if plain is not None:
            return pickle.loads(plain)
        restorer = Restorer(core, library, own=own)
        decoded = restorer.decode_pickled(fields)
        if decoded is not None:
            pickled, tensors = decoded
            others = [tensors] if own else []
            for part, is_own in parts:
                others.append(Restorer(part, library, own=is_own).decode(part.fields))
            return _Unpickler(pickled, tensors, others, library).load()
    return unflatten(core, library)


# Arrays of fewer bytes stay in the pickle: a pipe can take them in one write.
_MIN_ARRAY_BYTES = 65536


class Part:
    """Tensors in a separate message, beside the message of the pickle."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared  # other processes may write to the tensors
        self.outgoing = _core.Outgoing()
        self.packed: list[bytes] = []

    @property
    def fields(self) -> bytes:
        return list_of(self.packed)


class Packer:
    """Pickles one object, and packs its tensors separately."""

    def __init__(
        self, *, shared: bool, stream: int | None = None, in_parts: bool = False, carrier: int = 0
    ) -> None:
        """Makes a packer for one object.

        Args:
            shared: see `dump`.
            stream: the stream that writes tensors on GPUs; None: the library's own.
            in_parts: put tensors into `parts`: the object may then have any number of tensors, and
                its arrays belong only to the receiver.
            carrier: see `lending.lend`.
        """
        self._shared = shared
        self._in_parts = in_parts
        self._carrier = carrier
        self.parts: list[Part] = []
        self._storages: dict[int, Any] = {}  # storages with views, as tensors of all their bytes
        self._moved: torch_sharing.Moved = {}
        self._stream = stream
        self._packed: list[bytes] = []
        self._lent: list[bytes] = []
        self._kept: list[Any] = []  # keeps all packed values until the packer ends

    # Made on demand: most items have no tensors.
    @cached_property
    def outgoing(self) -> _core.Outgoing:
        return _core.Outgoing()

    @cached_property
    def _apart(self) -> _core.Outgoing:
        """The lent tensors on GPUs."""
        return _core.Outgoing()

    @property
    def has_tensors(self) -> bool:
        return bool(self._kept)

    def pickle(self, item: object) -> bytes:
        """The pickle of an object, without its tensors."""
        written = io.BytesIO()
        _Pickler(written, self._reduce).dump(item)
        return written.getvalue()

    def fields(self, pickled: bytes) -> bytes:
        """The fields of a message with this pickle. It also shares the lent tensors."""
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
        """Whether all tensors are in parts, and none is in the message of the pickle."""
        return bool(self.parts) and not self._packed and not self._lent

    def _reduce(self, value: Any) -> Any:
        """The reduction that replaces a tensor in the pickle; NotImplemented for other objects."""
        library = library_of(value)
        if isinstance(value, Received):
            return _data, (value.data,)
        if library is None and not _is_memory(type(value)):
            _ordinary.add(type(value))
            return NotImplemented
        if self._in_parts and library == "numpy" and value.nbytes < _MIN_ARRAY_BYTES:
            return NotImplemented  # the array is pickled, as in the standard library
        if self._in_parts and library == "numpy" and not value.flags.forc:
            value = value.copy()  # like a pickle: contiguous, and no elements share memory
        apart = _is_apart(value, self._shared)
        if apart and not _can_lend(value):
            return NotImplemented  # torch.multiprocessing may support it
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
            if isinstance(refusal.__cause__, ProtocolError):  # the receiver would refuse it, too
                raise Unsupported(str(refusal)) from None
            return _reduced_otherwise(value)
        all_packed.append(packed)
        self._kept.append(value)
        return stand_in, (*place, len(all_packed) - 1)

    def _view(self, tensor: Any) -> Any:
        """The reduction of a view of a shared storage, which is sent whole; None for all others."""
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
        """The number of the part for the next array or tensor; None for the main message."""
        if not self._in_parts:
            return None
        if not is_array and len(self.outgoing) < lending.MAX_TENSORS:
            return None
        for number, part in enumerate(self.parts):
            if part.shared != is_array and len(part.outgoing) < lending.MAX_TENSORS:
                return number
        self.parts.append(Part(shared=not is_array))
        return len(self.parts) - 1


# A cache of classes whose instances are neither tensors, storages nor memory of the bus.
_ordinary: set[type] = set()


_multiprocessing_reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]


class _Pickler(pickle.Pickler):
    """Calls `reduce` first, then the reducers of multiprocessing (connections, locks)."""

    def __init__(self, file: io.BytesIO, reduce: Callable[[Any], Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._reduce = reduce

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind not in _ordinary and (reduced := self._reduce(value)) is not NotImplemented:
            return reduced
        # Not a dispatch table: it would be a ChainMap, whose look-up is slow for small objects.
        reduce = _multiprocessing_reducers.get(kind)
        return NotImplemented if reduce is None else reduce(value)


# Functions of PyTorch that use indices unchecked, and their replacements that check them first.
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
    """Looks up tensors by part and index. It is not a method for the same reason as `_Lent`."""

    def __init__(self, parts: list[list[Any]]) -> None:
        self._parts = parts

    def __call__(self, part: int, index: int) -> Any:
        return self._parts[part][index]


class _Lent:
    """Looks up lent tensors by index.

    This is not a method of the unpickler, which keeps references to the functions that it has
    called: a method would make a cycle, which would keep the tensors until a garbage collection.
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


def _data(data: Any) -> Any:
    """Stands in a pickle for a sample, whose data it has."""
    return data


def _tensor(index: int) -> Any:
    """Placeholder in a pickle for the tensor with this index; `_Unpickler` replaces it."""
    raise ProtocolError(f"a pickle refers to tensor {index}, but its message is missing")


def _lent_tensor(index: int) -> Any:
    """Placeholder for a lent tensor; the last tensor of the message is the handle."""
    return _tensor(index)


def _tensor_of_part(part: int, index: int) -> Any:
    """Placeholder for a tensor of a part."""
    raise ProtocolError(
        f"part {part} of a pickle refers to tensor {index}, but its message is missing"
    )


def _classes_of(library: str) -> set[type]:
    """The registered classes of ordinary tensors; registers those of this library first."""
    (torch_tensors if library == "torch" else numpy_arrays).learn()
    return TENSOR_CLASSES


def _prepare(value: Any, shared: bool, moved: torch_sharing.Moved | None = None) -> None:
    """Prepares a torch tensor for packing: checks it, and moves it if it is to be shared."""
    if library_of(value) != "torch":
        return
    if value.requires_grad and not value.is_leaf:
        raise RuntimeError(_HAS_HISTORY)
    if shared:
        torch_sharing.warn_of_hooks(value)
        torch_sharing.move(value, moved)


def _reduced_otherwise(value: Any) -> Any:
    """The reduction of a value that cannot be sent as a tensor: the reduction of its library.

    On devices other than main memory it is the reduction of torch.multiprocessing, which in main
    memory would lose quantizers.
    """
    if library_of(value) != "torch" or value.device.type == "cpu":
        return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if type(value) not in TENSOR_CLASSES:
        return NotImplemented
    # Not the registered reducer, which may be one of Tensorbus.
    from torch.multiprocessing import reductions

    return reductions.reduce_tensor(value)  # type: ignore[no-untyped-call]


def _is_memory(kind: type) -> bool:
    """Whether this is the class of memory of the bus, or of PyTorch's storages."""
    return kind is _core.Memory or _is_storage_class(kind)


def _is_storage_class(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.UntypedStorage)


def _is_apart(value: Any, shared: bool) -> bool:
    """Whether a value is lent: it is in read-only memory of a GPU, and `shared` is set."""
    return shared and _ordinal_of(value) != HOST and not _is_shared(value)


def _is_shared(value: Any) -> bool:
    """Whether a tensor on a GPU is in memory to which other processes can get write access."""
    if type(value) is _core.Memory:
        return _core.is_shared(value, participant())
    return torch_sharing.is_shared(value.untyped_storage())


def _ordinal_of(value: Any) -> int:
    """The ordinal of the GPU of a tensor or of memory of the bus, or `HOST`."""
    if type(value) is _core.Memory:
        return ordinal_of(value.device)
    return _ordinal_in_torch(value) if library_of(value) == "torch" else HOST


def _ordinal_in_torch(value: Any) -> int:
    return int(value.device.index) if value.device.type == "cuda" else HOST


def _can_lend(value: Any) -> bool:
    return type(value) is _core.Memory or can_lend(value)


def can_lend(value: Any) -> bool:
    """Whether a tensor or storage of PyTorch is on a GPU whose memory the bus can share."""
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
    """A view of the storage of `whole`, which is the tensor of all its bytes."""
    import torch

    view = torch.empty(0, dtype=dtype).set_(whole.untyped_storage(), offset, size, stride)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(view, requires_grad)
    return view.requires_grad_(requires_grad)


def bytes_of(storage: Any) -> Any:
    """The uint8 tensor of all bytes of a storage."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def storage_of(tensor: Any) -> Any:
    """The inverse of `bytes_of`."""
    return tensor.untyped_storage()
