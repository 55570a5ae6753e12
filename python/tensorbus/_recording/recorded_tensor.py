"""Tensors over the bytes of a recorded message, without the core."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._codec.fields import BytesRestorer
from tensorbus._tensors import numpy_arrays, torch_tensors
from tensorbus._tensors.conversion import tensor_from
from tensorbus._tensors.library import FROM_TORCH

if TYPE_CHECKING:
    from collections.abc import Sequence

# By their numbers in the protocol (docs/internals/protocol.md, section 4); 0 is not a dtype.
_NAMES = (
    "- bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 "
    "complex64 complex128 complex32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float4_e2m1fn_x2 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float6_e2m3fn "
    "float6_e3m2fn float4_e2m1fn bcomplex32 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 "
    "uint4 uint5 uint6 uint7 bits8 bits16 bits1x8 bits2x4 bits4x2"
)
DTYPES = _NAMES.split()
_ITEM_BYTES = {
    **dict.fromkeys(("uint16", "int16", "float16", "bfloat16", "bits16"), 2),
    **dict.fromkeys(("uint32", "int32", "float32", "complex32", "bcomplex32"), 4),
    **dict.fromkeys(("uint64", "int64", "float64", "complex64"), 8),
    "complex128": 16,
}  # other elements have one byte


class RecordedTensor:
    """A tensor over the bytes of a message, with the interface of memory of the bus.

    Its arrays are read-only views of the bytes. If the elements are not aligned in memory, the
    arrays are views of a copy.
    """

    writable = False
    device = "cpu"

    def __init__(
        self,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int],
        flags: int,
        data: memoryview,
        offset: int,
        published_on: str,
    ) -> None:
        """`strides` are in elements, `offset` is that of the first element in `data`, in bytes."""
        self.dtype = dtype
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.flags = flags
        self.published_on = published_on
        self._data = data
        self._offset = offset

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The elements, as unsigned integers if NumPy has no such dtype."""
        array = self._array(self._data)
        return array.astype(dtype) if dtype is not None and dtype != array.dtype else array

    def __dlpack__(self, **options: Any) -> Any:
        return numpy_arrays.from_memory(self).__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def torch(self) -> Any:
        """The tensor of PyTorch, over the same bytes: it must not be written to."""
        torch_tensors.dtype_named(self.dtype)
        array = self._array(_writable(self._data))
        if min(array.strides, default=0) < 0:
            array = array.copy()
        plain = torch_tensors.from_array(array, self.dtype)
        tensor: Any = torch_tensors.finished(plain, self.flags)
        if self.published_on != self.device:
            tensor.published_on = self.published_on
        return tensor

    def _array(self, data: Any) -> Any:
        """The elements in `data`.

        Raises:
            InvalidArgument: they do not lie within the data.
        """
        np = numpy_arrays.learn()
        numpy_arrays.check_dimensions(len(self.shape))
        size = _ITEM_BYTES.get(self.dtype, 1)
        bits = self.dtype if self.dtype in numpy_arrays.OWN else f"u{size}"
        if 0 in self.shape:
            return np.empty(self.shape, bits)
        strides = [stride * size for stride in self.strides]
        try:
            array = np.ndarray(self.shape, bits, data, self._offset, strides)
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidArgument(
                f"a tensor of {self.dtype} {self.shape} lies outside of its message: {error}"
            ) from None
        if array.flags.aligned:
            return array
        return numpy_arrays.of_each(lambda elements: elements.copy(), array)


def _writable(data: memoryview) -> Any:
    """The same bytes as a writable buffer: PyTorch warns of every other buffer."""
    first = numpy_arrays.learn().frombuffer(data, "u1")
    if not first.size:
        return bytearray()
    buffer = (ctypes.c_ubyte * first.size).from_address(first.ctypes.data)
    buffer.keeper = first
    return buffer


class TensorRestorer(BytesRestorer):
    """Restores a message over tensors of recorded data."""

    def tensor_of(self, view: RecordedTensor) -> Any:
        is_torch = self.library == "torch" or (
            self.library is None and bool(view.flags & FROM_TORCH)
        )
        return view.torch() if is_torch else tensor_from(view, self.library)  # type: ignore[arg-type]
