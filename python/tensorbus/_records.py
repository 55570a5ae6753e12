"""What MessagePack has no word for: how each kind of value is taken apart, and made again.

A record is a name and parts; the parts may hold anything that a message may hold.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorbus import _cuda_array, _numpy, _torch, _torch_indices, _torch_kinds
from tensorbus._core import Memory
from tensorbus._errors import CannotTravel, Error, ProtocolError, Unsupported
from tensorbus._tensors import TENSOR_CLASSES, tensor_from

if TYPE_CHECKING:
    from tensorbus._fields import Flattener, Restorer

_CAN_TRAVEL = (
    "tensors and arrays, dict, list, tuple, set, str, bytes, int, float, complex, bool, None and "
    "what offers DLPack or the buffer protocol can"
)


class LoweredMessage(NamedTuple):
    """A typed message: the name of its type, and its fields in words that travel."""

    name: str
    fields: dict[str, Any]


def lower(flattener: Flattener, value: Any, depth: int) -> Any:
    """A value in words that the encoder knows.

    Raises:
        CannotTravel: there are none.
    """
    if type(value) is LoweredMessage:
        return flattener.record("message", *value, depth=depth)
    take_apart = _BUILT_IN.get(type(value))
    if take_apart is not None:
        return flattener.record(type(value).__name__, *take_apart(value), depth=depth)
    lowered = _lower_numpy(flattener, value)
    if lowered is None:
        lowered = _lower_message(flattener, value, depth)
    if lowered is None:
        lowered = _lower_torch(flattener, value, depth)
    if lowered is None:
        lowered = _lower_foreign(flattener, value)
    if lowered is None:
        kind = type(value)
        raise CannotTravel(
            value, f"{kind.__module__}.{kind.__qualname__} cannot travel; {_CAN_TRAVEL}"
        )
    return lowered


_BUILT_IN: dict[type, Callable[[Any], Any]] = {
    int: lambda value: (hex(value),),  # only those of more than 64 bits come here
    complex: lambda value: (value.real, value.imag),
    set: tuple,
    frozenset: tuple,
    OrderedDict: lambda value: [list(item) for item in value.items()],
}


def _lower_torch(flattener: Flattener, value: Any, depth: int) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(value, torch.Tensor):
        if torch.Tensor not in TENSOR_CLASSES:
            _torch.learn()
            if (index := flattener.outgoing.add(value)) >= 0:
                return flattener.reference(index)
        return _torch_kinds.lower(flattener, value, depth)
    if type(value) is torch.Size:
        return flattener.record("torch.Size", *value)
    if isinstance(value, torch.dtype):
        return flattener.record("torch.dtype", _torch.dtype_name(value))
    if isinstance(value, torch.device):
        return flattener.record("torch.device", str(value))
    return None


def _lower_numpy(flattener: Flattener, value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray):
        if numpy.ndarray not in TENSOR_CLASSES:
            _numpy.learn()
            if (index := flattener.outgoing.add(value)) >= 0:
                return flattener.reference(index)
        return _numpy.lower(flattener, value)
    if isinstance(value, numpy.generic):
        return _numpy.lower_scalar(flattener, value)
    if isinstance(value, numpy.dtype):
        return flattener.record("numpy.dtype", _numpy.description(value))
    return None


def _lower_message(flattener: Flattener, value: Any, depth: int) -> Any:
    messages = sys.modules.get("tensorbus.messages._message")
    if messages is None or not isinstance(value, messages.Message):
        return None
    return lower(flattener, messages.lower_message(value), depth)


def _lower_foreign(flattener: Flattener, value: Any) -> Any:
    """A tensor of any other library."""
    kind = type(value)
    if kind is Memory:
        return flattener.record("dlpack", flattener.outgoing.add_received(value))
    if hasattr(kind, "__dlpack__"):
        jax = sys.modules.get("jax")
        origin = "jax" if jax is not None and isinstance(value, jax.Array) else "dlpack"
        return flattener.record(origin, flattener.outgoing.add_capsule(_capsule_of(value), 0))
    if hasattr(value, "__cuda_array_interface__"):
        return flattener.record("dlpack", _cuda_array.add(flattener, value))
    if hasattr(value, "__array_interface__"):  # a Pillow image
        return _numpy.lower(flattener, _numpy.learn().asarray(value))
    try:
        # Until it is copied, the view holds its memory: a bytearray cannot be resized meanwhile.
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None
    index = flattener.outgoing.add_buffer(view, 0)
    if index < 0:
        index = _numpy.add_buffer(flattener, view)
    return flattener.record("memoryview", index) if index >= 0 else None


def _capsule_of(value: Any) -> Any:
    try:
        try:
            return value.__dlpack__(max_version=(1, 3))
        except TypeError:  # from before DLPack 1.0
            return value.__dlpack__()
    except Exception as error:  # each library refuses with an exception of its own
        raise CannotTravel(value, f"its __dlpack__ refuses: {error}") from error


def restore(restorer: Restorer, record: Any) -> Any:
    """The value that was taken apart.

    Raises:
        ProtocolError: the record makes no sense.
        Unsupported: it does, but it cannot be made here, or not in the library asked for.
    """
    try:
        name, *parts = record
        if name == "pickle":
            raise Unsupported(
                "this is a pickle, which may run any code: only queues and "
                "tensorbus.multiprocessing read one"
            )
        make = _RESTORERS.get(name)
        if make is None:
            raise ProtocolError(f"sample.fields: there is no record {name!r}")
        return make(restorer, *parts)
    except Error:
        raise
    except Exception as error:  # what a peer says reaches deep into other libraries
        raise ProtocolError(f"sample.fields: {error}") from error


def _restore_foreign(origin: Any) -> Callable[[Restorer, int], Any]:
    return lambda restorer, index: tensor_from(restorer.memory(index), restorer.as_ or origin)


def _restore_hashed(container: Callable[[Any], Any]) -> Callable[..., Any]:
    """A container whose items, or keys, must have a hash."""

    def restore_hashed(restorer: Restorer, *items: Any) -> Any:
        try:
            return container(items)
        except TypeError as error:
            if restorer.as_ is None:
                raise
            raise Unsupported(
                f'a tensor in a set or a key has no hash when received with as_="{restorer.as_}"'
            ) from error

    return restore_hashed


def _restore_message(restorer: Restorer, name: str, fields: dict[str, Any]) -> Any:
    from tensorbus.messages._registry import (
        restore_named,
    )  # where nobody sends one, it costs nothing

    return restore_named(name, fields, restorer.as_, restorer.types)


def _restore_view(restorer: Restorer, index: int) -> Any:
    memory: Memory = restorer.memory(index)
    return memoryview(memory) if restorer.as_ is None else tensor_from(memory, restorer.as_)  # type: ignore[arg-type]


_RESTORERS: dict[str, Callable[..., Any]] = {
    "int": lambda _, text: int(text, 16),
    "complex": lambda _, real, imag: complex(real, imag),
    "set": _restore_hashed(set),
    "frozenset": _restore_hashed(frozenset),
    "dict": _restore_hashed(dict),
    "OrderedDict": _restore_hashed(OrderedDict),
    "dlpack": _restore_foreign("dlpack"),
    "jax": _restore_foreign("jax"),
    "memoryview": _restore_view,
    "message": _restore_message,
    "numpy.ndarray": _numpy.restore_array,
    "numpy.scalar": _numpy.restore_scalar,
    "numpy.dtype": lambda _, description: _numpy.dtype_of(description),
    "torch.Size": lambda _, *sizes: _torch.learn().Size(sizes),
    "torch.dtype": lambda _, name: _torch.dtype_named(name),
    "torch.device": lambda _, text: _torch.learn().device(text),
    "torch.meta": _torch_kinds.restore_meta,
    "torch.sparse": _torch_indices.restore_sparse,
    "torch.nested": _torch_indices.restore_nested,
    "torch.jagged": _torch_indices.restore_jagged,
    "torch.subclass": _torch_kinds.restore_subclass,
}
