"""A message as a tree: its tensors beside it, the rest as MessagePack.

MessagePack has words for None, bool, int, float, str, bytes, list and dict; these are the rest:

====  ==========================================================================================
code  payload
====  ==========================================================================================
1     a tensor: its index among the sample's tensors, u32 little-endian
2     a tuple: a MessagePack array
3     a record: a MessagePack array of a name and parts (see `tensorbus._codec.records`)
====  ==========================================================================================

Nothing is ever pickled, and nothing is silently turned into something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import DecodeError, Raw, ValidationError, msgpack

from tensorbus._base.errors import CannotTravel, MessageError, ProtocolError, Unsupported
from tensorbus._codec import records
from tensorbus._codec.torch_indices import OwnIndices, own_indices
from tensorbus._codec.typed import LoweredMessage
from tensorbus._core import Memory, Outgoing
from tensorbus._core import Sample as CoreSample
from tensorbus._tensors import torch_tensors
from tensorbus._tensors.conversion import tensor_from
from tensorbus._tensors.library import TENSOR_CLASSES, Library

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Plan

_TENSOR = 1
_TUPLE = 2
_RECORD = 3
_MAX_DEPTH = 60

Tensors = TypeVar("Tensors")

# The record that only `tensorbus._pickling.pickler` makes and reads.
PICKLED = "pickle"

_LEAVES = frozenset({type(None), bool, int, float, str, bytes})
_LEAVES_BUT_INT = _LEAVES - {int}
_REFERENCES = [msgpack.Ext(_TENSOR, index.to_bytes(4, "little")) for index in range(256)]


def flatten(data: object) -> tuple[Outgoing, bytes]:
    """The tensors of a message, and the MessagePack of the rest.

    The latter is empty if the message is nothing but one tensor.
    """
    if type(data) is dict:  # of tensors by name, as a rule
        outgoing = Outgoing()
        if (fields := outgoing.add_named(data)) is not None:
            return outgoing, fields
    return flatten_into(Outgoing, data)


def flatten_into(collect: Callable[[], Tensors], data: object) -> tuple[Tensors, bytes]:
    """The same, with the tensors in what `collect` makes, which has the methods of `Outgoing`."""
    if type(data) is bytes:  # nothing to look for in it
        return collect(), msgpack.encode(data)
    if type(data) in TENSOR_CLASSES:
        outgoing: Any = collect()
        if outgoing.add(data) == 0:
            return outgoing, b""
    try:
        try:
            return (tensors := collect()), Flattener(tensors).flatten(data)
        except OverflowError:  # an int that MessagePack has no room for
            return (tensors := collect()), Flattener(tensors, any_int=True).flatten(data)
    except CannotTravel as refusal:
        raise Unsupported(f"{_path_to(refusal.value, data)}: {refusal.why}") from refusal.__cause__
    except UnicodeEncodeError as error:
        raise Unsupported(f"data: {error}") from None


class Flattener:
    """Takes the tensors out of one message. All but `flatten` is for the modules that lower."""

    def __init__(self, outgoing: Any = None, *, any_int: bool = False) -> None:
        self.outgoing: Outgoing = Outgoing() if outgoing is None else outgoing
        self._unusual: dict[int, Any] = {}  # tensors that were lowered already, by identity
        self._leaves = _LEAVES_BUT_INT if any_int else _LEAVES

    def flatten(self, data: object) -> bytes:
        lowered = self.lower_all(data)
        return b"" if lowered is _REFERENCES[0] else self.encode(lowered)

    def lower_all(self, value: Any) -> Any:
        """The value in words that the encoder knows; a tensor, too."""
        lowered = self.lower(value)
        return self._lower_tensor(lowered) if type(lowered) in TENSOR_CLASSES else lowered

    def pickled(self, pickled: bytes, tensors: list[Any]) -> bytes:
        """The fields of a message of a pickle, and of what `lower_all` made of its tensors."""
        return self.encode(msgpack.Ext(_RECORD, self.encode([PICKLED, pickled, tensors])))

    def encode(self, lowered: Any) -> bytes:
        """The MessagePack of what `lower_all` made."""
        # An encoder of our own would hold us by its hook, and we it.
        return msgpack.encode(lowered, enc_hook=self._lower_tensor)

    def lower(self, value: Any, depth: int = 0) -> Any:
        """The value in words that the encoder knows; the value itself where it knows all of it."""
        kind = type(value)
        if kind in self._leaves or kind in TENSOR_CLASSES:
            return value
        if depth >= _MAX_DEPTH:
            raise CannotTravel(value, f"nested deeper than {_MAX_DEPTH} levels")
        if kind is dict:
            return self._lower_dict(value, depth + 1)
        if kind is list:
            return self._lower_items(value, depth + 1)
        if kind is tuple:
            return msgpack.Ext(_TUPLE, self.encode(self._lower_items(value, depth + 1)))
        return records.lower(self, value, depth)

    def record(self, name: str, *parts: Any, depth: int = 0) -> msgpack.Ext:
        """What `records` knows how to make again from its parts."""
        lowered = [name, *(self.lower(part, depth + 1) for part in parts)]
        return msgpack.Ext(_RECORD, self.encode(lowered))

    @staticmethod
    def reference(index: int) -> msgpack.Ext:
        """The tensor with this index."""
        if index < len(_REFERENCES):
            return _REFERENCES[index]
        return msgpack.Ext(_TENSOR, index.to_bytes(4, "little"))

    def _lower_items(self, items: Any, depth: int) -> list[Any]:
        kinds = set(map(type, items))
        if kinds <= self._leaves:
            return items if type(items) is list else list(items)
        if kinds <= TENSOR_CLASSES and (indices := self.outgoing.add_all(items)) is not None:
            if len(self.outgoing) <= len(_REFERENCES):
                return [_REFERENCES[index] for index in indices]
            return [self.reference(index) for index in indices]
        return [self.lower(item, depth) for item in items]

    def _lower_dict(self, items: dict[Any, Any], depth: int) -> Any:
        if not self._leaves.issuperset(map(type, items)):
            return self.record("dict", *map(list, items.items()), depth=depth)
        return dict(zip(items, self._lower_items(items.values(), depth), strict=True))

    def _lower_tensor(self, value: Any) -> Any:
        index = self.outgoing.add(value)
        if index >= 0:
            return self.reference(index)
        lowered = self._unusual.get(id(value))
        if lowered is None:
            lowered = self._unusual[id(value)] = records.lower(self, value, 0)
        return lowered


def _path_to(wanted: object, data: object) -> str:
    """Where in a message something is, as one would write it: data['a'][1]."""
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
    """The message that was flattened; if it has a type, the fields by name that this wants.

    Raises:
        ProtocolError: the fields make no sense.
        Unsupported: it needs a library that is not installed here.
    """
    if plan is None and (only := core.only(library)) is not None:
        return tensor_from(only, library) if type(only) is Memory else only
    fields = core.fields
    try:
        restorer = Restorer(core, library)
        if fields:
            return restorer.decode(fields) if plan is None else restorer.decode_for(plan, fields)
        count = core.tensor_count
        return restorer.tensor(0) if count == 1 else [restorer.tensor(i) for i in range(count)]
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"sample.fields: {error}") from None


class Restorer:
    """Puts the tensors of one sample back into their message."""

    # Methods, not closures: a cycle would keep the tensors until the garbage collector runs.

    def __init__(self, core: CoreSample, library: Library | None, *, own: bool = False) -> None:
        """`own`: the arrays can be written to, and nothing else shows these writes."""
        self.library = library
        self.types: Mapping[str, Plan] = {}  # of messages, before all others of the same name
        self._own: dict[tuple[Any, ...], OwnIndices] = {}
        self._core = core
        self._own_memories = core.own_memories() if own else None
        self._tensors = core.tensors(library) if not own else [*self._own_memories]  # type: ignore[misc]
        if len(self._tensors) > 1 and not own:
            self._share_storages()

    def decode(self, fields: bytes | memoryview | Raw) -> Any:
        return msgpack.decode(fields, ext_hook=self._extension)

    def decode_for(self, plan: Plan, fields: bytes) -> Any:
        """The fields of a typed message. Those that are not wanted need not be known here."""
        self.types = plan.types
        try:
            return self.decode(fields)
        except (Unsupported, MessageError):
            try:
                parts = msgpack.decode(fields, type=dict[str, Raw])
            except ValidationError:
                parts = {}
            if parts.keys() <= plan.names:
                raise
            return {name: self.decode(part) for name, part in parts.items() if name in plan.names}

    def decode_pickled(self, fields: bytes) -> tuple[bytes, list[Any]] | None:
        """The pickle and its tensors; None for fields of any other kind.

        Raises:
            ProtocolError: the fields make no sense.
        """
        try:
            record = msgpack.decode(fields)
            if type(record) is not msgpack.Ext or record.code != _RECORD:
                return None
            parts = self.decode(bytes(record.data))
        except (DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ProtocolError(f"sample.fields: {error}") from None
        if type(parts) is not list or parts[:1] != [PICKLED]:
            return None
        if list(map(type, parts)) != [str, bytes, list]:
            raise ProtocolError("sample.fields: a pickle that is none")
        return parts[1], parts[2]

    def tensor(self, index: int) -> Any:
        """The tensor with this index, as the subscriber asked for: the same object every time."""
        try:
            made = self._tensors[index]
        except IndexError:
            raise ProtocolError(f"sample.fields: there is no tensor {index}") from None
        if type(made) is Memory:
            made = self._tensors[index] = tensor_from(made, self.library)
        return made

    def _share_storages(self) -> None:
        """Torch tensors that overlap in memory share a storage, as views of one another do."""
        for whole, members in self._core.shared_storages(self.library):
            memories = [(self._core.memory(index), offset) for index, offset in members]
            shared = torch_tensors.in_one_storage(whole, memories)
            for (index, _), (memory, _), tensor in zip(members, memories, shared, strict=True):
                self._tensors[index] = memory if tensor is None else tensor

    def own_indices(self, tensor: Any) -> OwnIndices:
        """A copy of indices or offsets: of the same memory the same one, as it was when sent."""
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        own = self._own.get(place)
        if own is None:
            own = self._own[place] = own_indices(tensor)
        return own

    def memory(self, index: int) -> Memory:
        """What the tensor with this index lies in."""
        own = self._own_memories
        return self._core.memory(index) if own is None else own[index]

    def _extension(self, code: int, payload: memoryview) -> Any:
        if code == _TENSOR:
            index = int.from_bytes(payload, "little")
            # The call costs as much as the rest, and there may be hundreds of them.
            if index < len(self._tensors) and type(made := self._tensors[index]) is not Memory:
                return made
            return self.tensor(index)
        if code == _TUPLE:
            items = self.decode(payload)
            if type(items) is not list:
                raise ProtocolError(f"sample.fields: a tuple of a {type(items).__name__}")
            return tuple(items)
        if code == _RECORD:
            return records.restore(self, self.decode(payload))
        return msgpack.Ext(code, bytes(payload))
