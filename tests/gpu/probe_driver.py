"""What the CUDA driver of this machine does where its documentation leaves doubt.

    python tests/gpu/probe_driver.py

Calls it directly, without Tensorbus or PyTorch, and prints one line for each question. Whatever may
leave a context broken is asked in a process of its own. TENSORBUS_CUDA_DRIVER names another driver.
"""

from __future__ import annotations

import array
import ctypes
import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SIZE = 2 << 20
READ, READ_WRITE = 1, 3
_POSIX_FD = 1
_DEVICE = 1
_PINNED = 1
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

    def copy(self, target: Any, source: Any, size: int) -> None:
        stream = self.stream()
        self("cuMemcpyAsync", target, source, ctypes.c_size_t(size), stream)
        self("cuStreamSynchronize", stream)


def address_of(memory: Any) -> ctypes.c_uint64:
    return ctypes.c_uint64(ctypes.addressof(ctypes.c_char.from_buffer(memory)))


def two_mappings_of_one_memfd(cuda: Driver) -> str:
    """Registered in one process, as a timeline between two participants of one process has it."""
    descriptor = os.memfd_create("probe")
    os.ftruncate(descriptor, 8192)
    pages = [mmap.mmap(descriptor, 8192) for _ in range(2)]
    on_device = []
    for page in pages:
        host = ctypes.c_void_p(address_of(page).value)
        cuda("cuMemHostRegister_v2", host, ctypes.c_size_t(8192), 3)
        device = ctypes.c_uint64()
        cuda("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        on_device.append(device)
    writer, waiter = cuda.stream(), cuda.stream()
    cuda("cuStreamWaitValue64_v2", waiter, on_device[1], ctypes.c_uint64(7), 0)
    waits = cuda.result("cuStreamQuery", waiter) != 0
    cuda("cuStreamWriteValue64_v2", writer, on_device[0], ctypes.c_uint64(7), 0)
    cuda("cuStreamSynchronize", waiter)
    seen = int.from_bytes(pages[1][:8], "little")
    return f"yes; a wait through one {'waited' if waits else 'did not wait'}, the host sees {seen}"


def a_write_by_the_host_ends_a_wait(cuda: Driver) -> str:
    """What a survivor does when its peer dies."""
    page = mmap.mmap(-1, 8192)
    host = ctypes.c_void_p(address_of(page).value)
    cuda("cuMemHostRegister_v2", host, ctypes.c_size_t(8192), 3)
    device = ctypes.c_uint64()
    cuda("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
    stream = cuda.stream()
    cuda("cuStreamWaitValue64_v2", stream, device, ctypes.c_uint64(7), 0)
    page[:8] = (1 << 62).to_bytes(8, "little")
    cuda("cuStreamSynchronize", stream)
    return "yes"


def import_where_it_was_exported(cuda: Driver) -> str:
    handle = cuda.create()
    first = cuda.mapped(handle)
    descriptor = cuda.export(handle)
    second = cuda.mapped(cuda.imported(descriptor))
    value = (ctypes.c_ubyte * 16)(*range(16))
    cuda.copy(first, ctypes.c_uint64(ctypes.addressof(value)), 16)
    found = (ctypes.c_ubyte * 16)()
    cuda.copy(ctypes.c_uint64(ctypes.addressof(found)), second, 16)
    return f"yes; both mappings show the same bytes: {bytes(found) == bytes(value)}"


def open_legacy_handle_where_it_was_made(cuda: Driver) -> str:
    memory = ctypes.c_uint64()
    cuda("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))

    handle = IpcHandle()
    cuda("cuIpcGetMemHandle", ctypes.byref(handle), memory)
    opened = ctypes.c_uint64()
    cuda("cuIpcOpenMemHandle_v2", ctypes.byref(opened), handle, 1)
    return "yes"


def what_a_legacy_handle_of_another_process_opens(cuda: Driver) -> str:
    """A small allocation may lie in a larger block, of which the driver shares the whole."""
    other = subprocess.Popen(
        [sys.executable, __file__, "keep"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    handle = IpcHandle.from_buffer_copy(bytes.fromhex(other.stdout.readline()))
    opened, again, base = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    size, ordinal, capable = ctypes.c_size_t(), ctypes.c_int(), ctypes.c_bool()
    cuda("cuIpcOpenMemHandle_v2", ctypes.byref(opened), handle, 1)
    second = cuda.result("cuIpcOpenMemHandle_v2", ctypes.byref(again), handle, 1)
    cuda("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), opened)
    asked = (ctypes.c_int * 2)(9, 10)  # the ordinal, and whether it has a handle
    to = (ctypes.c_void_p * 2)(ctypes.addressof(ordinal), ctypes.addressof(capable))
    cuda("cuPointerGetAttributes", 2, asked, to, opened)
    onward = cuda.result("cuIpcGetMemHandle", ctypes.byref(handle), opened)
    other.communicate("")
    return (
        f"{opened.value - base.value} bytes into a range of {size.value}, for 4096 on device 0: "
        f"device {ordinal.value}; a second open gives {second}, the same address: "
        f"{opened.value == again.value}; has a handle: {capable.value}, {onward}"
    )


def keep_small_memory() -> None:
    """The other process."""
    cuda = Driver()
    memory, handle = ctypes.c_uint64(), IpcHandle()
    for _ in range(2):  # the second one does not begin a block
        cuda("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
    cuda("cuIpcGetMemHandle", ctypes.byref(handle), memory)
    print(bytes(handle.bytes).hex(), flush=True)
    sys.stdin.readline()


def map_for_reading(cuda: Driver) -> str:
    cuda.mapped(cuda.create(), READ)
    return "yes"


def write_to_what_is_mapped_for_reading(cuda: Driver) -> str:
    memory = cuda.mapped(cuda.create(), READ)
    source = ctypes.create_string_buffer(b"written", 16)
    try:
        cuda.copy(memory, ctypes.c_uint64(ctypes.addressof(source)), 16)
    except Refused as refusal:
        return f"no, the stream says {refusal}"
    return "yes: reading is not all that it allows"


def memory_outlives_its_exporter(cuda: Driver) -> str:
    """Read after the process that made it was killed."""
    here, there = socket.socketpair()
    other = subprocess.Popen(
        [sys.executable, __file__, "export", str(there.fileno())], pass_fds=[there.fileno()]
    )
    there.close()
    _, (ancillary, *_), *_ = here.recvmsg(1, socket.CMSG_SPACE(4))
    descriptor = array.array("i", ancillary[2])[0]
    begin = time.perf_counter()
    memory = cuda.mapped(cuda.imported(descriptor), READ)
    micros = (time.perf_counter() - begin) * 1e6
    os.close(descriptor)
    other.kill()
    other.wait()
    found = ctypes.create_string_buffer(8)
    cuda.copy(ctypes.c_uint64(ctypes.addressof(found)), memory, 8)
    return f"yes, {found.raw!r}; import, reserve, map and access took {micros:.0f} us for 2 MiB"


def export_and_wait(number: int) -> None:
    """The other process."""
    cuda = Driver()
    handle = cuda.create()
    memory = cuda.mapped(handle)
    source = ctypes.create_string_buffer(b"survives", 8)
    cuda.copy(memory, ctypes.c_uint64(ctypes.addressof(source)), 8)
    wire = socket.socket(fileno=number)
    rights = array.array("i", [cuda.export(handle)])
    wire.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    wire.recv(1)


def cost_of_opening(cuda: Driver) -> str:
    """What Tensorbus's first attach of an allocation is compared with."""
    parts = []
    for size in (SIZE, 64 << 20, 1 << 30, 4 << 30):
        try:
            handle = cuda.create(size)
        except Refused:
            break
        descriptor = cuda.export(handle)
        begin = time.perf_counter()
        cuda.mapped(cuda.imported(descriptor), size=size)
        micros = (time.perf_counter() - begin) * 1e6
        parts.append(f"{size >> 20} MiB {micros:.0f} us")
        cuda("cuMemRelease", handle)
    return ", ".join(parts)


def stream_memory_operations(cuda: Driver) -> str:
    return f"CAN_USE_64_BIT_STREAM_MEM_OPS {cuda.attribute(122)}, IPC_EVENT {cuda.attribute(125)}"


QUESTIONS: list[Callable[[Driver], str]] = [
    stream_memory_operations,
    two_mappings_of_one_memfd,
    a_write_by_the_host_ends_a_wait,
    import_where_it_was_exported,
    open_legacy_handle_where_it_was_made,
    what_a_legacy_handle_of_another_process_opens,
    map_for_reading,
    write_to_what_is_mapped_for_reading,
    memory_outlives_its_exporter,
    cost_of_opening,
]


def answer(question: Callable[[Driver], str]) -> str:
    try:
        return question(Driver())
    except Refused as refusal:
        return f"no: {refusal}"


def main() -> None:
    for question in QUESTIONS:
        done = subprocess.run(
            [sys.executable, __file__, question.__name__],
            capture_output=True,
            text=True,
            timeout=60,
        )
        text = done.stdout.strip() or f"no answer (exit {done.returncode}): {done.stderr[-300:]}"
        print(f"{question.__name__.replace('_', ' ')}: {text}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["export"]:
        export_and_wait(int(sys.argv[2]))
    elif sys.argv[1:2] == ["keep"]:
        keep_small_memory()
    elif len(sys.argv) > 1:
        print(answer({each.__name__: each for each in QUESTIONS}[sys.argv[1]]), flush=True)
        os._exit(0)  # memory that was left behind is no matter
    else:
        main()
