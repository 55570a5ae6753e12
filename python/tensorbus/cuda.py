"""CUDA IPC handles: GPU memory of programs that do not use Tensorbus (docs/tasks/cuda_ipc.md).

from tensorbus import cuda

x = cuda.open_ipc(handle, (480, 640), "float32")    # by 64 bytes that another program sent
found = cuda.ipc_handle(y)                          # for another program
send(found.handle, found.offset, found.shape)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any

from tensorbus import _core
from tensorbus._base.arguments import whole_number
from tensorbus._base.device import HOST, ordinal_of
from tensorbus._base.errors import CannotTravel, InvalidArgument, Unsupported
from tensorbus._codec import cuda_array
from tensorbus._tensors import torch_tensors
from tensorbus._tensors.allocation import dtype_name
from tensorbus._tensors.library import library_of, sizes_of

_MAX = 2**63 - 1  # of bytes, and of elements

__all__ = ["IpcHandle", "ipc_handle", "open_ipc"]


@dataclass(frozen=True)
class IpcHandle:
    """The address of a tensor, for a program that opens CUDA IPC handles.

    The handle keeps no memory alive. It is valid while the process that made it keeps the tensor:
    PyTorch reuses the memory of a freed tensor, and the handle of freed memory opens other memory
    or none. The other program must close the handle before the memory is freed; otherwise the
    behaviour is undefined. The handle does not order streams: synchronise the stream that writes
    the tensor before another program reads it.
    """

    handle: bytes
    """The 64 bytes of the `cudaIpcMemHandle_t` of the whole allocation."""
    offset: int
    """Position of the first element in the allocation, in bytes."""
    allocation_bytes: int
    """The size of the allocation. The other program sees all of it, other tensors included."""
    device: str
    """The GPU, in this process: "cuda:0"."""
    dtype: str
    """The name of the element type: "float32"."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""


def open_ipc(
    handle: bytes,
    shape: Any,
    dtype: Any,
    strides: Iterable[int] | None = None,
    offset: int = 0,
    device: Any = None,
) -> Any:
    """A tensor over GPU memory of another program, by its CUDA IPC handle. Nothing is copied.

    This process opens the memory once for each GPU, for any number of tensors. It closes the memory
    when the last of these tensors is freed and the work on their streams has run. The stream of a
    tensor is PyTorch's current stream at the time of this call, or the stream that takes the tensor
    by DLPack. If other streams use a tensor, keep it until their work has run. Both programs can
    write to the memory.

    Args:
        handle: the 64 bytes of a `cudaIpcMemHandle_t`, made by `cudaIpcGetMemHandle`.
        shape: the sizes of the tensor, or one size.
        dtype: a dtype of PyTorch or NumPy, or its name: `torch.float32`, "float32".
        strides: in elements. None: row-major, without gaps.
        offset: position of the first element in the allocation, in bytes.
        device: the GPU that has the memory, by its ordinal in this process. None: the current GPU.

    Returns:
        A `torch.Tensor` if PyTorch is imported and can use the GPU. Else a `tensorbus.Memory`,
        which offers DLPack and `__cuda_array_interface__`.

    Raises:
        TypeError: the handle is not bytes.
        InvalidArgument: the handle does not have 64 bytes, was made by this process, or is of
            memory on another GPU; or shape, strides and offset reach beyond the allocation.
        Closed: the other program has freed the memory.
        Unsupported: there is no driver, or the GPU cannot reach the memory.
        Forked: CUDA was initialised before this process was forked.

    >>> x = open_ipc(handle, (480, 640), "float32")  # doctest: +SKIP
    """
    ordinal = ordinal_of("cuda" if device is None else device)
    if ordinal == HOST:
        raise InvalidArgument(f"device={device!r}: expected a GPU to open the handle on")
    sizes = sizes_of(shape)
    steps = None if strides is None else _steps_of(tuple(strides))
    if steps is not None and len(steps) != len(sizes):
        raise InvalidArgument(f"strides={steps}: shape={tuple(sizes)} needs {len(sizes)} of them")
    offset = whole_number("offset", offset, low=0, high=_MAX)
    if dtype is None:
        raise InvalidArgument("dtype=None: required, because a handle contains no dtype")
    as_torch = _torch_can_use(ordinal)
    if as_torch and steps is not None and min(steps, default=0) < 0:
        raise InvalidArgument(f"strides={steps}: PyTorch has no negative strides")
    try:
        raw = memoryview(handle).tobytes()
    except TypeError:
        kind = type(handle).__name__
        raise TypeError(f"handle: expected the bytes of a cudaIpcMemHandle_t, got {kind}") from None
    memory = _core.open_ipc(raw, offset, dtype_name(dtype), sizes, steps, ordinal)
    return torch_tensors.from_memory(memory) if as_torch else memory


def ipc_handle(tensor: Any) -> IpcHandle:
    """The CUDA IPC handle of a tensor on a GPU, for a program that does not use Tensorbus.

    Args:
        tensor: a tensor of PyTorch, or an object with `__cuda_array_interface__`. Keep it while
            the other program uses the handle.

    Returns:
        The handle of the whole allocation, and the position of the tensor in it.

    Raises:
        InvalidArgument: the tensor is not on a GPU, or has no elements.
        Unsupported: CUDA makes no handle of this memory; the message names the reason. The memory
            is from a pool (`cudaMallocAsync`) or from `cuMemCreate` (PyTorch's expandable
            segments, memory of the bus), is managed, or was itself opened by a handle. Or there is
            no driver.

    >>> found = ipc_handle(x)  # doctest: +SKIP
    >>> len(found.handle), found.offset  # doctest: +SKIP
    (64, 512)
    """
    found = _described(tensor)
    if 0 in found.shape:
        raise InvalidArgument(f"a tensor of shape {found.shape} has no elements, and no memory")
    steps = zip(found.shape, found.strides, strict=True)
    reaches = [(size - 1) * stride * found.item for size, stride in steps]
    before = -sum(reach for reach in reaches if reach < 0)
    bytes_ = before + sum(reach for reach in reaches if reach > 0) + found.item
    if not before <= found.address <= _MAX or bytes_ > _MAX:
        raise InvalidArgument(
            f"a tensor of shape {found.shape} at {found.address}: the address range is invalid"
        )
    handle, offset, size, ordinal = _core.ipc_handle_of(found.address - before, bytes_)
    return IpcHandle(
        handle=handle,
        offset=offset + before,
        allocation_bytes=size,
        device=f"cuda:{ordinal}",
        dtype=found.dtype,
        shape=found.shape,
        strides=tuple(found.strides),
    )


def _steps_of(strides: tuple[Any, ...]) -> list[int]:
    try:
        steps = [index(stride) for stride in strides]
    except TypeError:
        steps = [_MAX + 1]
    if any(abs(step) > _MAX for step in steps):
        raise InvalidArgument(f"strides={strides}: expected whole numbers below 2**63")
    return steps


def _torch_can_use(ordinal: int) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and ordinal < torch.cuda.device_count()


def _described(tensor: Any) -> cuda_array.Described:
    if library_of(tensor) == "torch":
        if tensor.device.type != "cuda":
            raise InvalidArgument(f"this tensor is on {tensor.device}: only GPU memory has handles")
        return cuda_array.Described(
            tensor.data_ptr(),
            torch_tensors.dtype_name(tensor.dtype),
            tuple(tensor.shape),
            list(tensor.stride()),
            tensor.element_size(),
            0,
        )
    if not hasattr(tensor, "__cuda_array_interface__"):
        raise InvalidArgument(
            f"{type(tensor).__name__}: expected a tensor of PyTorch on a GPU, or an object with "
            "__cuda_array_interface__"
        )
    try:
        return cuda_array.described(tensor)
    except CannotTravel as refused:
        raise Unsupported(str(refused)) from None
    except (KeyError, TypeError, ValueError) as error:
        kind = type(tensor).__name__
        raise InvalidArgument(
            f"{kind}: its __cuda_array_interface__ has no shape, typestr or address: {error!r}"
        ) from None
