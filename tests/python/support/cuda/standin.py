"""The stand-in for CUDA's driver (tests/cuda/standin): devices, memory and streams without a GPU.

A "kernel" here is a copy between main memory and the device, which runs in its stream's order.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import tensorbus as tb
from support.repository import BUILT

LIBRARY = BUILT / "cuda/libcuda.so.1"
needs_standin = pytest.mark.skipif(
    not LIBRARY.exists(), reason=f"{LIBRARY} is not built: scripts/test does that"
)
# For the processes that are to have it.
ENVIRONMENT = {"TENSORBUS_CUDA_DRIVER": str(LIBRARY)}


def call(name: str, *arguments: Any) -> None:
    result = getattr(ctypes.CDLL(str(LIBRARY)), name)(*arguments)
    assert result == 0, f"{name}: CUDA error {result}"


class Stream:
    """A stream of a device, and the device's context, current in this thread."""

    def __init__(self, device: int = 0) -> None:
        call("cuInit", 0)
        self._context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        call("cuCtxPushCurrent_v2", self._context)
        self._handle = ctypes.c_void_p()
        self._under_way: list[object] = []  # main memory of copies that may not have run yet
        call("cuStreamCreate", ctypes.byref(self._handle), 1)

    @property
    def cuda_stream(self) -> int:
        return self._handle.value or 0

    def pause(self) -> None:
        ctypes.CDLL(str(LIBRARY)).standin_pause(self._handle)

    def resume(self) -> None:
        ctypes.CDLL(str(LIBRARY)).standin_resume(self._handle)

    def synchronize(self) -> None:
        self._call("cuStreamSynchronize", self._handle)
        for buffer in self._under_way:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(buffer))
        self._under_way.clear()

    def write(self, memory: Any, value: int) -> None:
        """Fills a tensor of bytes."""
        source = ctypes.create_string_buffer(bytes([value]) * memory.shape[0])
        self._keep(source)
        self._copy(address_of(memory), ctypes.addressof(source), memory.shape[0])

    def read(self, memory: Any) -> ctypes.Array[ctypes.c_char]:
        """Where its bytes will be when this stream has passed."""
        target = ctypes.create_string_buffer(memory.shape[0])
        self._keep(target)
        self._copy(ctypes.addressof(target), address_of(memory), memory.shape[0])
        return target

    def _keep(self, buffer: object) -> None:
        """Until this stream has passed. Its thread may run on when the interpreter has ended."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(buffer))
        self._under_way.append(buffer)

    def _copy(self, target: int, source: int, count: int) -> None:
        self._call(
            "cuMemcpyAsync",
            ctypes.c_uint64(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(count),
            self._handle,
        )

    def _call(self, name: str, *arguments: Any) -> None:
        """In our context, whichever is current."""
        call("cuCtxPushCurrent_v2", self._context)
        call(name, *arguments)
        call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class Array:
    """Bytes on a device that another library made. In a thread that has a `Stream`."""

    def __init__(self, count: int) -> None:
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        self.address = address.value
        self.shape = (count,)

    def __del__(self) -> None:
        call("cuMemFree_v2", ctypes.c_uint64(self.address))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": "|u1", "data": (self.address, False), "version": 3}


class _DLTensor(ctypes.Structure):
    """DLManagedTensor of DLPack, for bytes on a GPU."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dims", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_described: dict[int, Any] = {}


_forget = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_described.__delitem__)


class DLPackArray(Array):
    """The same, by DLPack: what a capsule describes lives as long as that."""

    def __dlpack__(self, **_: object) -> Any:
        shape = (ctypes.c_int64 * 1)(*self.shape)
        tensor = _DLTensor(self.address, (2, 0), 1, 1, 8, 1, shape)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = make(ctypes.addressof(tensor), b"dltensor", ctypes.cast(_forget, ctypes.c_void_p))
        _described[id(capsule)] = (tensor, shape, self)
        return capsule


def finish() -> None:
    """Waits until all streams of this process have run, also the bus's own."""
    ctypes.CDLL(str(LIBRARY)).standin_finish()


def address_of(memory: Any) -> int:
    address: int = memory.__cuda_array_interface__["data"][0]
    return address


def read_on(stream: Stream, sample: tb.Sample, memory: Any) -> set[int]:
    """The different bytes of a tensor of a sample."""
    sample.use_on(stream)
    found = stream.read(memory)
    stream.synchronize()
    return set(found.raw)


def filled(memory: Any, value: int) -> Any:
    """A tensor of bytes, all of this value, which are there."""
    stream = _stream_for(memory)
    stream.write(memory, value)
    stream.synchronize()
    return memory


def seen_in(memory: Any) -> set[int]:
    """The different bytes of a tensor, read when it was written, wherever it is from."""
    stream = _stream_for(memory)
    memory.__dlpack__(stream=stream.cuda_stream)  # the stream waits for it
    found = stream.read(memory)
    stream.synchronize()
    return set(found.raw)


def _stream_for(memory: Any) -> Stream:
    ordinal: int = memory.__dlpack_device__()[1]
    if ordinal not in _streams:
        _streams[ordinal] = Stream(ordinal)
    return _streams[ordinal]


_streams: dict[int, Stream] = {}
