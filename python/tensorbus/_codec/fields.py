"""The codec of messages: tensors are sent by reference, all other values as MessagePack.

MessagePack itself has None, bool, int, float, str, bytes, list and dict. Other values are
extensions:

====  ==========================================================================================
code  payload
====  ==========================================================================================
1     a tensor: its index among the sample's tensors, u32 little-endian
2     a tuple: a MessagePack array
3     a record: a MessagePack array of a name and parts (see `tensorbus._codec.records`)
====  ==========================================================================================

No value is ever pickled, and no value is silently converted to another type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import DecodeError, Raw, msgpack

from tensorbus import _core
from tensorbus._base.errors import CannotTravel, ProtocolError, Unsupported
from tensorbus._codec import records, torch_records
from tensorbus._codec.received import SampleInside
from tensorbus._codec.torch_indices import OwnIndices, own_indices
from tensorbus._codec.typed import LoweredMessage
from tensorbus._codec.unwrapping import without_samples
from tensorbus._core import Memory, Outgoing
from tensorbus._core import Sample as CoreSample
from tensorbus._tensors import torch_tensors
from tensorbus._tensors.conversion import tensor_from
from tensorbus._tensors.library import Library

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Plan

_RECORD = 3

Tensors = TypeVar("Tensors")

# The name of the record that only `tensorbus._pickling.pickler` makes and reads.
PICKLED = "pickle"


def flatten(data: object) -> tuple[Outgoing, bytes]:
    """Splits a message into its tensors and its fields (MessagePack).

    The fields are empty if the message is a single tensor. A received sample stands for its data.

    Raises:
        Unsupported: the message contains a value that cannot be sent; the text gives its place.
    """
    return packed_into(Outgoing, data)


def packed_into(kind: Callable[[], Tensors], data: object) -> tuple[Tensors, bytes]:
    """`flatten` with the tensors in another class that has the methods of `Outgoing`."""
    tensors = kind()
    try:
        return tensors, _core.pack_message(tensors, data)
    except SampleInside:
        tensors = kind()
    try:
        return tensors, _core.pack_message(tensors, without_samples(data))
    except SampleInside as refusal:  # in an attribute of a container
        raise Unsupported(f"data: {refusal.why}") from None


def list_of(packed: list[bytes]) -> bytes:
    """The fields of a list of values that were packed by `pack_value`."""
    return msgpack.encode(list(map(Raw, packed)))


def fields_of_pickle(pickle: bytes, packed: list[bytes]) -> bytes:
    """The fields of a pickle and of its tensors, which were packed by `pack_value`."""
    parts = [PICKLED, pickle, list(map(Raw, packed))]
    return msgpack.encode(msgpack.Ext(_RECORD, msgpack.encode(parts)))


def _refused(error: BaseException, message: object) -> None:
    """Raises an `Unsupported` that gives the place of the refused value in the message."""
    if isinstance(error, CannotTravel) and not isinstance(error, SampleInside):
        path = _path_to(error.value, message)
        raise Unsupported(f"{path}: {error.why}") from error.__cause__
    if isinstance(error, UnicodeEncodeError):
        raise Unsupported(f"data: {error}") from None


def _path_to(wanted: object, data: object) -> str:
    """The place of a value in a message, as a Python expression: data['a'][1]."""
    seen: set[int] = set()
    stack: list[tuple[object, str]] = [(data, "data")]
    while stack:
        value, path = stack.pop()
        if value is wanted:
            return path
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            if any(key is wanted for key in value):
                return path
            stack += [(item, f"{path}[{key!r}]") for key, item in value.items()]
        elif isinstance(value, LoweredMessage):
            stack += [(item, f"{path}.{name}") for name, item in value.fields.items()]
        elif isinstance(value, (list, tuple)):
            stack += [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return "data"


def unflatten(core: CoreSample, library: Library | None, plan: Plan | None = None) -> Any:
    """Decodes a message that was flattened; with a type, into an instance of its class.

    Raises:
        ProtocolError: the fields are malformed.
        MessageError: a field is missing, or has the wrong type.
        Unsupported: the message needs a library that is not installed here.
    """
    return core.message(library, None if plan is None else plan.core)


class Restorer:
    """Decodes the records of one sample, and makes those tensors that the core does not make."""

    # Methods, not closures: a reference cycle would keep the tensors until a garbage collection.

    def __init__(self, core: CoreSample, library: Library | None, *, own: bool = False) -> None:
        """`own`: the arrays are writable, in memory that no other object shares."""
        self.library = library
        self.types: Mapping[str, Plan] = {}  # message types that take precedence, by name
        self._own: dict[tuple[Any, ...], OwnIndices] = {}
        self._core = core
        self._own_memories = core.own_memories() if own else None
        self._tensors: list[Any] | None = None

    def decode(self, fields: bytes) -> Any:
        return _core.unpack(fields, self)

    def decode_pickled(self, fields: bytes) -> tuple[bytes, list[Any]] | None:
        """The pickle and its tensors; None for fields of any other kind.

        Raises:
            ProtocolError: the fields are malformed.
        """
        try:
            record = msgpack.decode(fields)
        except (DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ProtocolError(f"sample.fields: {error}") from None
        if type(record) is not msgpack.Ext or record.code != _RECORD:
            return None
        parts = self.decode(bytes(record.data))
        if type(parts) is not list or parts[:1] != [PICKLED]:
            return None
        if list(map(type, parts)) != [str, bytes, list]:
            raise ProtocolError("sample.fields: a malformed pickle")
        return parts[1], parts[2]

    def tensor(self, index: int) -> Any:
        """The tensor with this index, in the requested library; each call returns the same one."""
        if self._tensors is None:
            self._tensors = self._made_by_core()
        try:
            made = self._tensors[index]
        except IndexError:
            raise ProtocolError(f"sample.fields: there is no tensor {index}") from None
        if type(made) is Memory:
            made = self._tensors[index] = tensor_from(made, self.library)
        return made

    def _made_by_core(self) -> list[Any]:
        if self._own_memories is not None:
            return [*self._own_memories]
        tensors = self._core.tensors(self.library)
        for index, tensor in _shared_tensors(self._core, self.library).items():
            tensors[index] = tensor
        return tensors

    def own_indices(self, tensor: Any) -> OwnIndices:
        """A copy of indices or offsets. Tensors over the same memory share one copy, as sent."""
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        own = self._own.get(place)
        if own is None:
            own = self._own[place] = own_indices(tensor)
        return own

    def memory(self, index: int) -> Memory:
        """The memory of the tensor with this index."""
        own = self._own_memories
        return self._core.memory(index) if own is None else own[index]


class BytesRestorer(Restorer, ABC):
    """Decodes a message whose tensors are views of bytes, not memory of the bus."""

    def __init__(self, views: Sequence[Any], library: Library | None) -> None:
        """`views` are the tensors, with the interface of `Memory`."""
        self.library = library
        self.types = {}
        self._own = {}
        self._views = views
        self._made: dict[int, Any] = {}

    @abstractmethod
    def tensor_of(self, view: Any) -> Any:
        """The tensor over a view, in the requested library."""

    def tensor(self, index: int) -> Any:
        made = self._made.get(index)
        if made is None:
            made = self._made[index] = self.tensor_of(self.memory(index))
        return made

    def memory(self, index: int) -> Any:
        if not 0 <= index < len(self._views):
            raise ProtocolError(f"sample.fields: there is no tensor {index}")
        return self._views[index]


def _restorer(core: CoreSample, library: Library | None, plan: Plan | None) -> Restorer:
    restorer = Restorer(core, library)
    if plan is not None:
        restorer.types = plan.types
    return restorer


def _shared_tensors(core: CoreSample, library: Library | None) -> dict[int, Any]:
    """Torch tensors that overlap in memory, as views of one storage; by index."""
    tensors: dict[int, Any] = {}
    for whole, members in core.shared_storages(library):
        memories = [(core.memory(index), offset) for index, offset in members]
        shared = torch_tensors.in_one_storage(whole, memories)
        for (index, _), (memory, _), tensor in zip(members, memories, shared, strict=True):
            tensors[index] = tensor_from(memory, library) if tensor is None else tensor
    return tensors


def _extension(data: bytes) -> Any:
    """Decodes an extension that Tensorbus does not define: an `Ext`, or a time."""
    try:
        return msgpack.decode(data)
    except DecodeError as error:
        raise ProtocolError(f"sample.fields: {error}") from None


_core.set_codec(
    lower=records.lower,
    cannot_travel=CannotTravel,
    blamed=torch_records.blamed,
    refused=_refused,
    restorer=_restorer,
    restore=records.restore,
    extension=_extension,
    tensor_from=tensor_from,
    shared_tensors=_shared_tensors,
)
