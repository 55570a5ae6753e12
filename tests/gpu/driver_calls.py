"""Calls of the CUDA driver, without Tensorbus or PyTorch: what `probe_driver.py` asks with.

TENSORBUS_CUDA_DRIVER names another driver.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

SIZE = 2 << 20
READ, READ_WRITE = 1, 3
_POSIX_FD = 1
_DEVICE = 1
_PINNED = 1
_PORTABLE_AND_MAPPED = 3
_ZERO = ctypes.c_uint64(0)


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Prop(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", ctypes.c_int))


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


class Refused(Exception):
    """A call did not succeed."""


class Driver:
    """The functions of the driver, in the primary context of the first device."""

    def __init__(self) -> None:
        name = os.environ.get("TENSORBUS_CUDA_DRIVER", "libcuda.so.1")
        self._library = ctypes.CDLL(name)
        self("cuInit", 0)
        self.context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self("cuCtxPushCurrent_v2", self.context)

    def __call__(self, name: str, *arguments: Any) -> None:
        result = self.result(name, *arguments)
        if result != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(result, ctypes.byref(text))
            raise Refused(f"{name}: {(text.value or b'?').decode()} ({result})")

    def result(self, name: str, *arguments: Any) -> int:
        result: int = getattr(self._library, name)(*arguments)
        return result

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        return value.value

    def create(self, size: int = SIZE) -> ctypes.c_uint64:
        handle = ctypes.c_uint64()
        prop = Prop(_PINNED, _POSIX_FD, Location(_DEVICE, 0))
        self("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(prop), _ZERO)
        return handle

    def export(self, handle: ctypes.c_uint64) -> int:
        descriptor = ctypes.c_int()
        self("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, _POSIX_FD, _ZERO)
        return descriptor.value

    def imported(self, descriptor: int) -> ctypes.c_uint64:
        handle = ctypes.c_uint64()
        as_pointer = ctypes.c_void_p(descriptor)
        self("cuMemImportFromShareableHandle", ctypes.byref(handle), as_pointer, _POSIX_FD)
        return handle

    def mapped(
        self, handle: ctypes.c_uint64, access: int = READ_WRITE, size: int = SIZE
    ) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        whole = ctypes.c_size_t(size)
        self("cuMemAddressReserve", ctypes.byref(address), whole, _ZERO, _ZERO, _ZERO)
        self("cuMemMap", address, whole, _ZERO, handle, _ZERO)
        wanted = Access(Location(_DEVICE, 0), access)
        self("cuMemSetAccess", address, whole, ctypes.byref(wanted), ctypes.c_size_t(1))
        return address

    def stream(self) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(stream), 1)
        return stream

    def registered(self, page: mmap.mmap) -> int:
        """The address at which streams see a page of the host, which has to stay mapped."""
        host = ctypes.c_void_p(address_of(page).value)
        self("cuMemHostRegister_v2", host, ctypes.c_size_t(len(page)), _PORTABLE_AND_MAPPED)
        address = ctypes.c_uint64()
        self("cuMemHostGetDevicePointer_v2", ctypes.byref(address), host, 0)
        return address.value

    def write(self, stream: ctypes.c_void_p, counter: int, value: int) -> None:
        """Enqueues a store of 64 bits."""
        where, what = ctypes.c_uint64(counter), ctypes.c_uint64(value)
        self("cuStreamWriteValue64_v2", stream, where, what, 0)

    def wait(self, stream: ctypes.c_void_p, counter: int, value: int) -> None:
        """Has the stream wait until the counter is at least that."""
        where, what = ctypes.c_uint64(counter), ctypes.c_uint64(value)
        self("cuStreamWaitValue64_v2", stream, where, what, 0)

    def copy(self, target: Any, source: Any, size: int) -> None:
        stream = self.stream()
        self("cuMemcpyAsync", target, source, ctypes.c_size_t(size), stream)
        self("cuStreamSynchronize", stream)


def address_of(memory: Any) -> ctypes.c_uint64:
    return ctypes.c_uint64(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
