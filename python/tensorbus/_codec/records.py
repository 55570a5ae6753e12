"""Records: encoding and decoding of values that MessagePack does not have.

A record is a name and parts; the parts may be any values that a message may contain.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import CannotTravel, Error, InvalidArgument, ProtocolError, Unsupported

# Imported here, not on first use: a child forked during an import in another thread could never
# finish that import.
from tensorbus._codec import cuda_array, numpy_records, torch_records
from tensorbus._codec.handle import Handle
from tensorbus._codec.received import Received, SampleInside
from tensorbus._codec.typed import LoweredMessage
from tensorbus._core import Memory
from tensorbus._tensors.conversion import tensor_from
from tensorbus._tensors.numpy_arrays import learn

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Lowered, Restorer
    from tensorbus._core import Outgoing

_CAN_TRAVEL = (
    "supported are tensors and arrays, dict, list, tuple, set, str, bytes, int, float, complex, "
    "bool, None, handles, and objects with DLPack or the buffer protocol"
)


# Class, encoder and decoder that other packages have registered, by the name of the record.
_registered: dict[str, tuple[type, Callable[[Any], Any], Callable[..., Any]]] = {}
# By the name of a record: a function that imports the package that registers it. It is called for
# the first record of this name that is received.
registrars: dict[str, Callable[[], object]] = {}


def register(
    name: str, kind: type, lower: Callable[[Any], Any], restore: Callable[..., Any]
) -> None:
    """Registers a class: its values are sent as records of this name.

    Args:
        lower: converts a value into one of a class that can be sent already.
        restore: makes the value; called with the restorer and the parts of the record.
    """
    _registered[name] = kind, lower, restore


def lower(outgoing: Outgoing, value: Any) -> Lowered:
    """The record of a value, or the index of a tensor; tensors are added to `outgoing`.

    Raises:
        CannotTravel: the value cannot be sent.
    """
    if type(value) is LoweredMessage:
        return "message", *value
    if type(value) is Handle:
        return "handle", str(value)
    if isinstance(value, Received):
        return _lower_data(outgoing, value)
    parts_of = _BUILT_IN.get(type(value))
    if parts_of is not None:
        if attributes := getattr(value, "__dict__", None):  # for example, of a state_dict()
            return "attributes", dict(attributes), [type(value).__name__, *parts_of(value)]
        return type(value).__name__, *parts_of(value)
    lowered = numpy_records.lower(outgoing, value)
    if lowered is None:
        lowered = _lower_registered(outgoing, value)
    if lowered is None:
        lowered = _lower_torch(outgoing, value)
    if lowered is None:
        lowered = _lower_foreign(outgoing, value)
    if lowered is None:
        kind = type(value)
        raise CannotTravel(
            value, f"{kind.__module__}.{kind.__qualname__} cannot be sent; {_CAN_TRAVEL}"
        )
    return lowered


_BUILT_IN: dict[type, Callable[[Any], Any]] = {
    set: list,  # an atomic copy, also without a GIL; tuple() is not atomic
    frozenset: list,
    OrderedDict: lambda value: [list(item) for item in list(value.items())],
}


def _lower_data(outgoing: Outgoing, sample: Received) -> Lowered:
    """The record of a sample's data, or the index of its tensor.

    Raises:
        SampleInside: the data have no record, because MessagePack has a type for them.
    """
    data = sample.data
    if type(data) in _OF_MESSAGE_PACK:
        raise SampleInside(sample)
    index = outgoing.add(data)
    return index if index >= 0 else lower(outgoing, data)


_OF_MESSAGE_PACK = (dict, list, tuple, str, bytes, bool, int, float, complex, type(None))


def _lower_registered(outgoing: Outgoing, value: Any) -> Lowered | None:
    message = encoded(value)
    return None if message is None else lower(outgoing, message)


def encoded(value: Any) -> Any:
    """What the function of a registered class makes of a value; None for any other value."""
    for kind, encode, _ in list(_registered.values()):
        if isinstance(value, kind):
            return encode(value)
    return None


def _lower_torch(outgoing: Outgoing, value: Any) -> Lowered | None:
    if "torch" not in sys.modules:
        return None
    return torch_records.lower(outgoing, value)


def _lower_foreign(outgoing: Outgoing, value: Any) -> Lowered | None:
    """The record of a tensor of any other library; None for any other value."""
    kind = type(value)
    if kind is Memory:
        return "dlpack", outgoing.add_received(value)
    if hasattr(kind, "__dlpack__"):
        jax = sys.modules.get("jax")
        origin = "jax" if jax is not None and isinstance(value, jax.Array) else "dlpack"
        return origin, outgoing.add_capsule(_capsule_of(value), 0)
    if hasattr(value, "__cuda_array_interface__"):
        return "dlpack", cuda_array.add(outgoing, value)
    if hasattr(value, "__array_interface__"):  # for example, a Pillow image
        return numpy_records.lower_array(outgoing, learn().asarray(value))
    try:
        # The view pins the memory until it is copied: a bytearray cannot be resized meanwhile.
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None
    index = outgoing.add_buffer(view, 0)
    if index < 0:
        index = numpy_records.add_buffer(outgoing, view)
    return ("memoryview", index) if index >= 0 else None


def _capsule_of(value: Any) -> Any:
    try:
        try:
            return value.__dlpack__(max_version=(1, 3))
        except TypeError:  # a library older than DLPack 1.0
            return value.__dlpack__()
    except Exception as error:  # each library has its own exceptions
        raise CannotTravel(value, f"its __dlpack__() failed: {error}") from error


def restore(restorer: Restorer, record: Any) -> Any:
    """The value of a record.

    Raises:
        ProtocolError: the record is malformed.
        Unsupported: this process, or the requested library, cannot represent the value.
    """
    try:
        name, *parts = record
        if name == "pickle":
            raise Unsupported(
                "this is a pickle, which may run any code: only queues and "
                "tensorbus.multiprocessing read one"
            )
        make = _RESTORERS.get(name) or _restorer_elsewhere(name)
        if make is None:
            raise ProtocolError(f"sample.fields: there is no record {name!r}")
        return make(restorer, *parts)
    except Error:
        raise
    except Exception as error:  # malformed parts may cause any exception in other libraries
        raise ProtocolError(f"sample.fields: {error}") from error


def _restorer_elsewhere(name: str) -> Callable[..., Any] | None:
    if name.startswith("torch."):
        return torch_records.RESTORERS.get(name)
    if name not in _registered and name in registrars:
        registrars[name]()
    return _registered[name][2] if name in _registered else None


def _restore_foreign(origin: Any) -> Callable[[Restorer, int], Any]:
    return lambda restorer, index: tensor_from(restorer.memory(index), restorer.library or origin)


def _restore_hashed(container: Callable[[Any], Any]) -> Callable[..., Any]:
    """The decoder of a container whose items, or keys, must be hashable."""

    def restore_hashed(restorer: Restorer, *items: Any) -> Any:
        try:
            return container(items)
        except TypeError as error:
            if restorer.library is None:
                raise
            raise Unsupported(
                "a tensor in a set or a key has no hash when received with "
                f'library="{restorer.library}"'
            ) from error

    return restore_hashed


def _restore_view(restorer: Restorer, index: int) -> Any:
    memory: Memory = restorer.memory(index)
    if restorer.library is not None:
        return tensor_from(memory, restorer.library)
    if type(memory) is Memory:
        return memoryview(memory)  # type: ignore[arg-type]
    return memoryview(learn().asarray(memory))  # the bytes of a message or of a file


def _restore_handle(_: Restorer, text: str) -> Handle:
    try:
        return Handle(text)
    except InvalidArgument as error:
        raise ProtocolError(f"sample.fields: {error}") from None


def _restore_attributes(restorer: Restorer, attributes: dict[str, Any], record: Any) -> Any:
    """A container with attributes beside its items; only `OrderedDict` may have them."""
    if record[0] != "OrderedDict" or not all(type(name) is str for name in attributes):
        raise ProtocolError(f"sample.fields: attributes of {record[0]!r}")
    made = restore(restorer, record)
    vars(made).update(attributes)
    return made


_RESTORERS: dict[str, Callable[..., Any]] = {
    "int": lambda _, text: int(text, 16),
    "complex": lambda _, real, imag: complex(real, imag),
    "set": _restore_hashed(set),
    "frozenset": _restore_hashed(frozenset),
    "dict": _restore_hashed(dict),
    "OrderedDict": _restore_hashed(OrderedDict),
    "handle": _restore_handle,
    "attributes": _restore_attributes,
    "dlpack": _restore_foreign("dlpack"),
    "jax": _restore_foreign("jax"),
    "memoryview": _restore_view,
    **numpy_records.RESTORERS,
}
