"""What the CUDA driver of this machine does where its documentation leaves doubt.

    python tests/gpu/probe_driver.py

Calls it directly, without Tensorbus or PyTorch, and prints one line for each question. Whatever may
leave a context broken is asked in a process of its own.
"""

from __future__ import annotations

import array
import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from driver_calls import READ, SIZE, Driver, IpcHandle, Refused, address_of


def two_mappings_of_one_memfd(cuda: Driver) -> str:
    """Registered in one process, as a timeline between two participants of one process has it."""
    descriptor = os.memfd_create("probe")
    os.ftruncate(descriptor, 8192)
    pages = [mmap.mmap(descriptor, 8192) for _ in range(2)]
    written, waited_for = map(cuda.registered, pages)
    writer, waiter = cuda.stream(), cuda.stream()
    cuda.wait(waiter, waited_for, 7)
    waits = cuda.result("cuStreamQuery", waiter) != 0
    cuda.write(writer, written, 7)
    cuda("cuStreamSynchronize", waiter)
    seen = int.from_bytes(pages[1][:8], "little")
    return f"yes; a wait through one {'waited' if waits else 'did not wait'}, the host sees {seen}"


def a_write_by_the_host_ends_a_wait(cuda: Driver) -> str:
    """What a survivor does when its peer dies."""
    page, stream = mmap.mmap(-1, 8192), cuda.stream()
    cuda.wait(stream, cuda.registered(page), 7)
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


def what_waits_while_a_stream_waits(cuda: Driver) -> str:
    """Calls in a thread while a stream waits for a counter, which the host writes after 300 ms.

    What takes as long must not be called by whoever ends such waits, nor under a lock of theirs.
    """
    whole = ctypes.c_size_t(SIZE)
    page, spare, registered = (mmap.mmap(-1, 8192) for _ in range(3))
    counter = cuda.registered(page)
    cuda.registered(registered)
    here = ctypes.c_void_p(address_of(registered).value)
    memory, handle, event = ctypes.c_uint64(), cuda.create(), ctypes.c_void_p()
    cuda("cuMemAlloc_v2", ctypes.byref(memory), whole)
    cuda("cuEventCreate", ctypes.byref(event), 2)
    mapped, idle, other = cuda.mapped(cuda.create()), cuda.stream(), cuda.stream()
    cuda("cuEventRecord", event, idle)
    cuda("cuStreamSynchronize", idle)
    kernels: list[ctypes.c_void_p] = []
    calls: list[tuple[str, Callable[[], object]]] = [
        ("cuEventQuery", lambda: cuda("cuEventQuery", event)),
        ("cuStreamWriteValue64", lambda: cuda.write(idle, counter + 64, 1)),
        ("cuStreamCreate", cuda.stream),
        ("cuMemHostRegister", lambda: cuda.registered(spare)),
        ("create, map, access", lambda: cuda.mapped(cuda.create())),
        ("cuMemUnmap", lambda: cuda("cuMemUnmap", mapped, whole)),
        ("cuMemRelease", lambda: cuda("cuMemRelease", handle)),
        ("cuMemAlloc", lambda: cuda("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), whole)),
        ("cuStreamDestroy", lambda: cuda("cuStreamDestroy_v2", idle)),
        ("cuEventDestroy", lambda: cuda("cuEventDestroy_v2", event)),
        ("cuMemHostUnregister", lambda: cuda("cuMemHostUnregister", here)),
        ("cuMemFree", lambda: cuda("cuMemFree_v2", memory)),
        ("cuModuleLoadData", lambda: kernels.append(_load_kernel(cuda))),
        ("a kernel's first launch", lambda: cuda("cuLaunchKernel", kernels[0], *ONE, other, *NONE)),
    ]
    found = []
    for number, (name, call) in enumerate(calls, 1):
        waiting = cuda.stream()
        cuda.wait(waiting, counter, number)
        ending = threading.Timer(0.3, _store, (page, number))
        ending.start()
        begin = time.perf_counter()
        try:
            call()
            text = f"{(time.perf_counter() - begin) * 1e3:.2f} ms"
        except (Refused, AttributeError, IndexError) as refusal:
            text = str(refusal)
        found.append(f"{name} {text}")
        ending.join()
        cuda("cuStreamSynchronize", waiting)
    return ", ".join(found)


_KERNEL = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry nothing() { ret; }
"""


ONE = (1, 1, 1, 1, 1, 1, 0)  # thread of one block, without shared memory
NONE = (None, None)  # parameters


def _load_kernel(cuda: Driver) -> ctypes.c_void_p:
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    cuda("cuModuleLoadData", ctypes.byref(module), _KERNEL)
    cuda("cuModuleGetFunction", ctypes.byref(kernel), module, b"nothing")
    return kernel


def _store(page: mmap.mmap, value: int) -> None:
    page[:8] = value.to_bytes(8, "little")


def read_only_memory_is_registered(cuda: Driver) -> str:
    """What `Subscriber(pin=True)` needs: pages of a memfd that are mapped for reading."""
    supported = ctypes.c_int()
    result = cuda.result("cuDeviceGetAttribute", ctypes.byref(supported), 113, 0)
    pages = ctypes.c_size_t(8192)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    descriptor = os.memfd_create("probe")
    os.ftruncate(descriptor, 8192)
    writer = mmap.mmap(descriptor, 8192)
    parts = [f"attribute {supported.value} ({result})"]
    for name, protection, flags in (
        ("read-only flag", mmap.PROT_READ, 9),
        ("no flag", mmap.PROT_READ, 1),
        ("mapped writable", mmap.PROT_READ | mmap.PROT_WRITE, 1),
    ):
        page = libc.mmap(None, 8192, protection, mmap.MAP_SHARED, descriptor, 0)
        result = cuda.result("cuMemHostRegister_v2", ctypes.c_void_p(page), pages, flags)
        parts.append(f"{name} {result}")
        if result == 0:
            writer[:8] = b"stays in"
            memory = ctypes.c_uint64()
            cuda("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
            cuda.copy(memory, ctypes.c_uint64(page), 8)
            target = ctypes.create_string_buffer(8)
            cuda.copy(ctypes.c_uint64(ctypes.addressof(target)), memory, 8)
            parts[-1] += f", a copy has what was written later: {target.raw == b'stays in'}"
    return "; ".join(parts)


def a_hop_from_process_to_process(cuda: Driver) -> str:
    """Two processes' streams pass a counter to and fro, while both enqueue what comes next."""
    descriptor = os.memfd_create("probe")
    os.ftruncate(descriptor, 8192)
    other = subprocess.Popen(
        [sys.executable, __file__, "hop", str(descriptor)],
        pass_fds=[descriptor],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdout.readline()
    other.stdin.write(b"\n")
    other.stdin.flush()
    seconds = _hop(cuda, descriptor, 0)
    other.wait()
    return f"{seconds / (2 * _HOPS) * 1e6:.1f} us each, of {2 * _HOPS}"


_HOPS = 500


def _hop(cuda: Driver, descriptor: int, side: int) -> float:
    page = mmap.mmap(descriptor, 8192)  # stays mapped
    counters, stream = cuda.registered(page), cuda.stream()
    mine, theirs = counters + 4096 * side, counters + 4096 * (1 - side)
    if side == 1:
        print("ready", flush=True)
        sys.stdin.readline()
    begin = time.perf_counter()
    for value in range(1, _HOPS + 1):
        if side == 1:
            cuda.wait(stream, theirs, value)
        cuda.write(stream, mine, value)
        if side == 0:
            cuda.wait(stream, theirs, value)
    cuda("cuStreamSynchronize", stream)
    return time.perf_counter() - begin


def a_killed_process_writes_no_more(cuda: Driver) -> str:
    """Its stream writes a counter again and again; looked at when its parent has waited for it."""
    answers = []
    for child in ("", "child"):
        descriptor = os.memfd_create("probe")
        os.ftruncate(descriptor, 8192)
        page = mmap.mmap(descriptor, 8192)
        other = subprocess.Popen(
            [sys.executable, __file__, "count", str(descriptor), child],
            pass_fds=[descriptor],
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None
        left = int(other.stdout.readline())
        other.kill()
        other.wait()
        seen = page[:8]
        time.sleep(0.2)
        answers.append(f"{'forked ' + child if child else 'alone'}: {page[:8] == seen}")
        if left:
            os.kill(left, signal.SIGKILL)
    return ", ".join(answers)


def count_and_wait(number: int, child: str) -> None:
    """The other process."""
    cuda = Driver()
    page = mmap.mmap(number, 8192)  # stays mapped
    counter, stream = cuda.registered(page), cuda.stream()
    left = os.fork() if child else 0
    if child and left == 0:
        signal.pause()
    for value in range(1, 2_000):
        cuda.write(stream, counter, value)
    print(left, flush=True)
    for value in range(2_000, 1_000_000):
        cuda.write(stream, counter, value)


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
    read_only_memory_is_registered,
    a_hop_from_process_to_process,
    what_waits_while_a_stream_waits,
    a_killed_process_writes_no_more,
]


def answer(question: Callable[[Driver], str]) -> str:
    try:
        return question(Driver())
    except Refused as refusal:
        return f"no: {refusal}"


def ask(name: str) -> str:
    """In a process of its own, which may hang."""
    asked = subprocess.Popen(
        [sys.executable, __file__, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        answered, errors = asked.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(asked.pid, signal.SIGKILL)  # whom it has started, too
        asked.communicate()
        return "no answer in 20 s"
    return answered.strip() or f"no answer (exit {asked.returncode}): {errors[-300:]}"


def main() -> None:
    for question in QUESTIONS:
        print(f"{question.__name__.replace('_', ' ')}: {ask(question.__name__)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["export"]:
        export_and_wait(int(sys.argv[2]))
    elif sys.argv[1:2] == ["keep"]:
        keep_small_memory()
    elif sys.argv[1:2] == ["hop"]:
        _hop(Driver(), int(sys.argv[2]), 1)
        os._exit(0)
    elif sys.argv[1:2] == ["count"]:
        count_and_wait(int(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) > 1:
        print(answer({each.__name__: each for each in QUESTIONS}[sys.argv[1]]), flush=True)
        os._exit(0)  # memory that was left behind is no matter
    else:
        main()
