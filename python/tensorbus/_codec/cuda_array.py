"""Arrays on GPUs without DLPack, for example those of Numba, by their `__cuda_array_interface__`.

https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorbus import _core
from tensorbus._base.errors import CannotTravel

if TYPE_CHECKING:
    from tensorbus._core import Outgoing

_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_FOREIGN_ORDER = ">" if sys.byteorder == "little" else "<"


def add(outgoing: Outgoing, array: Any) -> int:
    """Adds an array to the message, and returns its index.

    Raises:
        CannotTravel: the array has an unknown element type, or a mask.
    """
    description = described(array)
    return outgoing.add_memory(
        description.address,
        description.dtype,
        description.shape,
        description.strides,
        0,
        array,
        _core.cuda_device_of(description.address),
        description.stream,
    )


class Described(NamedTuple):
    """The description of an array on a GPU."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: list[int]  # in elements
    item: int  # size of an element in bytes
    stream: int


def described(array: Any) -> Described:
    """The description in an array's `__cuda_array_interface__`.

    Raises:
        CannotTravel: the array has an unknown element type, or a mask.
    """
    interface = array.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise CannotTravel(array, "an array on a GPU with a mask cannot be sent")
    typestr: str = interface["typestr"]
    item = int(typestr[2:] or 0)  # "|O" has no size
    name = "bool" if typestr[1:] == "b1" else _KINDS.get(typestr[1], "void") + str(8 * item)
    if typestr[0] == _FOREIGN_ORDER or name.startswith("void"):
        raise CannotTravel(array, f"elements of type {typestr!r} on a GPU cannot be sent")
    shape = tuple(interface["shape"])
    strides = _strides(array, interface.get("strides"), shape, item)
    return Described(interface["data"][0], name, shape, strides, item, interface.get("stream") or 0)


def _strides(array: Any, given: Any, shape: tuple[int, ...], item: int) -> list[int]:
    """The strides in elements."""
    if given is not None:
        if any(stride % item for stride in given):
            raise CannotTravel(array, f"strides of {given} bytes are not whole elements")
        return [stride // item for stride in given]
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides
