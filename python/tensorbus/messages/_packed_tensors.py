"""Tensors in the bytes of a message."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from tensorbus import _core
from tensorbus._base.device import HOST
from tensorbus._base.errors import ProtocolError, Unsupported
from tensorbus._codec.fields import BytesRestorer
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.library import CONJUGATE, FROM_TORCH, NEGATIVE

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Plan


class Packing:
    """Copies the bytes of a message's tensors, with the interface of `tensorbus._core.Outgoing`.

    `add` and `add_buffer` accept no value, so that each tensor is passed to `add_memory`.
    """

    def __init__(self) -> None:
        self.table: list[tuple[str, list[int], int, int]] = []  # dtype, shape, flags, bytes
        self.elements: list[bytes] = []

    def __len__(self) -> int:
        return len(self.table)

    def add(self, value: object) -> int:
        return -1

    def add_buffer(self, value: object, flags: int) -> int:
        return -1

    def add_capsule(self, capsule: object, flags: int) -> NoReturn:
        raise Unsupported(
            "only NumPy arrays and torch tensors can be converted to bytes: convert other tensors "
            "to one of these first"
        )

    def add_received(self, memory: object) -> NoReturn:
        self.add_capsule(memory, 0)

    def add_memory(
        self,
        address: int,
        dtype: str,
        shape: Any,
        strides: Any,
        flags: int,
        keeper: Any,
        device: int = HOST,
        stream: int = 0,
    ) -> int:
        is_torch = flags & FROM_TORCH
        elements = _of_torch(keeper) if is_torch else _of_numpy(keeper)
        self.table.append((dtype, list(shape), flags & ~(CONJUGATE | NEGATIVE), len(elements)))
        self.elements.append(elements)
        return len(self.table) - 1


def _of_numpy(keeper: Any) -> bytes:
    array = keeper[0] if type(keeper) is tuple else keeper
    elements: bytes = array.tobytes()
    return elements


def _of_torch(tensor: Any) -> bytes:
    """The elements, copied without PyTorch's thread pool, which a forked child does not have."""
    plain = tensor.detach().cpu()
    lazy = plain.is_conj() or plain.is_neg()
    if plain.is_contiguous() and not lazy:
        return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
    name = torch_tensors.dtype_name(plain.dtype)
    copy = _core.private_copy(plain.data_ptr(), name, plain.shape, plain.stride())
    if lazy:
        for part in torch_tensors.from_memory(copy).view(-1).split(_BY_ONE_THREAD):
            part.copy_(part.conj_physical() if plain.is_conj() else part)
            part.copy_(-part if plain.is_neg() else part)
    return memoryview(copy).tobytes()  # type: ignore[arg-type]


# The number of elements up to which PyTorch uses one thread.
_BY_ONE_THREAD = 4096


class PackedTensor:
    """A tensor in bytes, with the interface of memory of the bus for `numpy_arrays`."""

    writable = True
    device = "cpu"

    def __init__(self, dtype: str, shape: tuple[int, ...], flags: int, elements: bytearray) -> None:
        self.dtype = dtype
        self.shape = shape
        self.flags = flags
        self._elements = elements

    @property
    def __array_interface__(self) -> dict[str, Any]:
        np = numpy_arrays.learn()
        known = self.dtype in numpy_arrays.OWN
        dtype = np.dtype(self.dtype if known else f"u{self._itemsize()}")
        self.check_size(dtype.itemsize)
        numpy_arrays.check_dimensions(len(self.shape))
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": dtype.str,
            "data": self._elements or bytearray(1),
        }

    def _itemsize(self) -> int:
        count = prod(self.shape)
        return len(self._elements) // count if count else 1

    def check_size(self, itemsize: int) -> None:
        """Checks the number of bytes against shape and item size.

        Raises:
            ProtocolError: the number of bytes is wrong.
        """
        if min(self.shape, default=0) < 0 or prod(self.shape) * itemsize != len(self._elements):
            raise ProtocolError(
                f"{len(self._elements)} bytes for a tensor of {self.dtype}, shape {self.shape}"
            )

    def tensor(self) -> Any:
        """The tensor, over these bytes."""
        return self._of_torch() if self.flags & FROM_TORCH else numpy_arrays.from_memory(self)  # type: ignore[arg-type]

    def _of_torch(self) -> Any:
        torch = torch_tensors.learn()
        dtype = torch_tensors.dtype_named(self.dtype)
        self.check_size(dtype.itemsize)
        if self._elements:
            plain = torch.frombuffer(self._elements, dtype=dtype).reshape(self.shape)
        else:
            plain = torch.empty(self.shape, dtype=dtype)
        return torch_tensors.finished(plain, self.flags)


class Unpacker(BytesRestorer):
    """Restores the tensors of a message in bytes."""

    def __init__(self, packed: list[PackedTensor], plan: Plan) -> None:
        super().__init__(packed, None)
        self.types = plan.types

    def tensor_of(self, view: PackedTensor) -> Any:
        try:
            return view.tensor()
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise ProtocolError(f"a tensor of {view.dtype}: {error}") from error
