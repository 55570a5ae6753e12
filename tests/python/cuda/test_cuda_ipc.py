"""Raw CUDA IPC handles from Python, over the stand-in for the driver."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.cuda.standin import (
    ENVIRONMENT,
    LIBRARY,
    Array,
    Stream,
    address_of,
    call,
    filled,
    needs_standin,
    seen_in,
)
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from tensorbus import cuda

pytestmark = needs_standin

BYTES = 4096


def raw_handle(array: Array) -> bytes:
    """By the driver alone."""
    handle = ctypes.create_string_buffer(64)
    call("cuIpcGetMemHandle", handle, ctypes.c_uint64(array.address))
    return handle.raw


def calls(name: str) -> int:
    count = ctypes.CDLL(str(LIBRARY)).standin_calls
    count.restype = ctypes.c_size_t
    return int(count(name.encode()))


def keep_numbers(path: str) -> None:
    """A program without Tensorbus: keeps bytes of 7, and writes the handle into a file."""
    stream = Stream()
    array = Array(BYTES)
    stream.write(array, 7)
    stream.synchronize()
    Path(path).write_bytes(raw_handle(array))
    tell("ready")
    hear()
    found = stream.read(array)
    stream.synchronize()
    tell(set(found.raw))


class Described:
    """What says that it is an array on a GPU."""

    def __init__(self, shape: tuple[int, ...], address: int, typestr: str = "<f4") -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "version": 3,
        }


def why(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[str, str]:
    try:
        function(*arguments, **named)
    except (tb.Error, TypeError) as error:
        return type(error).__name__, str(error)
    return "", ""


def test_a_handle_of_a_program_without_the_bus_is_a_tensor_over_its_memory(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def view(path: str) -> None:
        handle = Path(path).read_bytes()
        whole = cuda.open_ipc(handle, BYTES, "uint8")
        assert isinstance(whole, tb.Memory)
        assert whole.writable
        assert whole.device == "cuda:0"
        rows = cuda.open_ipc(handle, (10, 20), np.float32, strides=(32, 1), offset=64)
        assert (rows.dtype, rows.shape, rows.strides) == ("float32", (10, 20), (32, 1))
        assert address_of(rows) == address_of(whole) + 64
        tell(seen_in(whole))
        filled(whole, 9)
        tell(calls("cuIpcOpenMemHandle_v2"))
        tell(calls("cuIpcCloseMemHandle"))
        del whole, rows
        eventually(lambda: calls("cuIpcCloseMemHandle") == 1)
        tell("closed")

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    assert viewer.hear() == {7}
    assert (viewer.hear(), viewer.hear(), viewer.hear()) == (1, 0, "closed")
    owner.tell("the viewer has closed it")
    assert owner.hear() == {9}


def test_a_handle_is_closed_after_the_stream_that_took_the_tensor(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def view(path: str) -> None:
        memory = cuda.open_ipc(Path(path).read_bytes(), BYTES, "uint8")
        stream = Stream()
        memory.__dlpack__(stream=stream.cuda_stream)
        found = stream.read(memory)
        stream.synchronize()
        stream.pause()
        found = stream.read(memory)
        del memory
        gc.collect()
        tell(calls("cuIpcCloseMemHandle"))
        stream.resume()
        eventually(lambda: calls("cuIpcCloseMemHandle") == 1)
        tell(set(found.raw))

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    assert (viewer.hear(), viewer.hear()) == (0, {7})
    owner.tell("go")
    owner.hear()


def test_threads_open_a_handle_once(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def view(path: str) -> None:
        handle = Path(path).read_bytes()
        with ThreadPoolExecutor(8) as pool:
            opened = list(
                pool.map(lambda at: cuda.open_ipc(handle, 8, "uint8", None, 8 * at), range(100))
            )
        tell(
            {address_of(memory) - 8 * at for at, memory in enumerate(opened)}
            == {address_of(opened[0])}
        )
        tell(calls("cuIpcOpenMemHandle_v2"))

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    assert (viewer.hear(), viewer.hear()) == (True, 1)
    owner.tell("go")
    owner.hear()


def test_what_cannot_be_opened_says_why(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def view(path: str) -> None:
        handle = Path(path).read_bytes()
        tell(
            [
                why(cuda.open_ipc, handle[:60], 8, "uint8"),
                why(cuda.open_ipc, handle, BYTES + 1, "uint8"),
                why(cuda.open_ipc, handle, 8, "uint8", offset=BYTES),
                why(cuda.open_ipc, handle, (2, 8), "uint8", strides=(BYTES, 1)),
                why(cuda.open_ipc, handle, 8, "float32", offset=2),
                why(cuda.open_ipc, handle, 8, "uint8", strides=(1, 1)),
                why(cuda.open_ipc, handle, 8, "uint8", offset=-8),
                why(cuda.open_ipc, handle, 8, "uint8", device="cpu"),
                why(cuda.open_ipc, handle, 8, "uint8", device="cuda:1"),
                why(cuda.open_ipc, handle, 8, "uint8", device="cuda:7"),
                why(cuda.open_ipc, bytes(64), 8, "uint8"),
                why(cuda.open_ipc, handle, 8, "words"),
                why(cuda.open_ipc, handle, 8, None),
                why(cuda.open_ipc, handle, 8, "uint8", offset=2**64),
                why(cuda.open_ipc, handle, (2, 2), "uint8", strides=(2**63, 1)),
                why(cuda.open_ipc, handle, (2, 2), "uint8", strides=(1.5, 1)),
                why(cuda.open_ipc, handle.hex(), 8, "uint8"),
                why(cuda.open_ipc, None, 8, "uint8"),
            ]
        )
        Stream()
        array = Array(BYTES)
        tell(why(cuda.open_ipc, cuda.ipc_handle(array).handle, 8, "uint8"))
        hear()
        tell(why(cuda.open_ipc, handle, 8, "uint8"))

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    expected = [
        ("InvalidArgument", "handle: 60 bytes, a cudaIpcMemHandle_t has 64"),
        ("InvalidArgument", "the allocation has 4096"),
        ("InvalidArgument", "the allocation has 4096"),
        ("InvalidArgument", "the allocation has 4096"),
        ("InvalidArgument", "expected a multiple of"),
        ("InvalidArgument", "needs 1 of them"),
        ("InvalidArgument", "offset=-8: expected a whole number"),
        ("InvalidArgument", "expected a GPU to open the handle on"),
        ("InvalidArgument", "lies on cuda:0, not on cuda:1"),
        ("InvalidArgument", "there is no device cuda:7"),
        ("Closed", "the handle refers to no memory"),
        ("Unsupported", "dtype words"),
        ("InvalidArgument", "dtype=None"),
        ("InvalidArgument", "offset=18446744073709551616: expected a whole number"),
        ("InvalidArgument", "strides=(9223372036854775808, 1): expected"),
        ("InvalidArgument", "strides=(1.5, 1): expected"),
        ("TypeError", "handle: expected the bytes of a cudaIpcMemHandle_t, got str"),
        ("TypeError", "handle: expected the bytes of a cudaIpcMemHandle_t, got NoneType"),
    ]
    for (name, text), (kind, part) in zip(viewer.hear(), expected, strict=True):
        assert (name, part in text) == (kind, True), text
    name, text = viewer.hear()
    assert name == "InvalidArgument"
    assert "use the original tensor" in text
    assert "CUDA_ERROR_INVALID_CONTEXT" in text
    owner.tell("go")
    owner.hear()
    owner.finish()
    viewer.tell("the owner has ended")
    assert viewer.hear()[0] == "Closed"


def test_a_tensor_names_its_allocation_for_a_program_without_the_bus(elsewhere: Elsewhere) -> None:
    def own() -> None:
        class View:
            """A column of an array of floats, that of row 5 first."""

            def __init__(self, array: Array) -> None:
                self._array = array

            __cuda_array_interface__ = property(
                lambda self: {
                    "shape": (3,),
                    "strides": (-160,),
                    "typestr": "<f4",
                    "data": (self._array.address + 5 * 160, False),
                    "version": 3,
                }
            )

        stream = Stream()
        array = Array(BYTES)
        stream.write(array, 3)
        stream.synchronize()
        found = cuda.ipc_handle(View(array))
        assert len(found.handle) == 64
        assert found == dataclasses.replace(found)
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.offset = 0  # type: ignore[misc]
        assert found.handle == raw_handle(array) == cuda.ipc_handle(array).handle
        tell(dataclasses.asdict(found))
        hear()

    def read(found: dict[str, Any]) -> None:
        Stream()
        address = ctypes.c_uint64()

        class Handle(ctypes.Structure):
            _fields_ = (("bytes", ctypes.c_ubyte * 64),)

        handle = Handle.from_buffer_copy(found["handle"])
        call("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, 1)
        tell(ctypes.string_at(address.value + found["offset"], 4))
        call("cuIpcCloseMemHandle", address)

    owner = elsewhere.start(own, env=ENVIRONMENT)
    found = owner.hear()
    assert found | {"handle": b""} == {
        "handle": b"",
        "offset": 800,
        "allocation_bytes": BYTES,
        "device": "cuda:0",
        "dtype": "float32",
        "shape": (3,),
        "strides": (-40,),
    }
    reader = elsewhere.start(read, found, env=ENVIRONMENT)
    assert reader.hear() == b"\3\3\3\3"
    owner.tell("read")


def test_memory_without_a_handle_says_why(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def own(path: str) -> None:
        Stream()
        managed = Array(BYTES)
        call("cuMemFree_v2", ctypes.c_uint64(managed.address))
        address = ctypes.c_uint64()
        call("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(BYTES), 1)
        managed.address = address.value
        opened = cuda.open_ipc(Path(path).read_bytes(), BYTES, "uint8")
        loan = tb.empty(BYTES, "uint8", device="cuda")

        empty = Described((0,), 0)
        host = Described((1,), id(path))
        odd = Described((1,), 4096, ">f4")
        objects = Described((1,), 4096, "|O")
        huge = Described((2**62,), 4096, "<f4")
        shapeless, nowhere = Described((1,), 4096), Described((1,), 4096)
        shapeless.__cuda_array_interface__["shape"] = None
        nowhere.__cuda_array_interface__["data"] = None
        wrong = (managed, opened, loan, empty, host, odd, np.zeros(3), 5)
        wrong += (objects, huge, shapeless, nowhere)  # type: ignore[assignment]
        tell([why(cuda.ipc_handle, each) for each in wrong])

    path = str(tmp_path / "handle")
    other = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert other.hear() == "ready"
    owner = elsewhere.start(own, path, env=ENVIRONMENT)
    expected = [
        ("Unsupported", "managed memory"),
        ("Unsupported", "it was opened by a handle"),
        ("Unsupported", "virtual memory"),
        ("InvalidArgument", "no elements"),
        ("InvalidArgument", "it is not GPU memory"),
        ("Unsupported", ">f4"),
        ("InvalidArgument", "expected a tensor"),
        ("InvalidArgument", "expected a tensor"),
        ("Unsupported", "'|O'"),
        ("InvalidArgument", "shape (4611686018427387904,)"),
        ("InvalidArgument", "has no shape"),
        ("InvalidArgument", "has no shape, typestr or address"),
    ]
    for (name, text), (kind, part) in zip(owner.hear(), expected, strict=True):
        assert (name, part in text) == (kind, True), text
    other.tell("go")
    other.hear()


def test_a_tensor_of_main_memory_is_refused(torch: Any) -> None:
    with pytest.raises(tb.InvalidArgument, match="this tensor is on cpu"):
        cuda.ipc_handle(torch.zeros(3))


def test_without_a_driver_the_error_names_what_is_missing(elsewhere: Elsewhere) -> None:
    def use() -> None:
        tell(why(cuda.open_ipc, bytes(64), 8, "uint8"))
        tell(why(cuda.ipc_handle, Described((1,), 4096)))

    process = elsewhere.start(use, env={"TENSORBUS_CUDA_DRIVER": "libnone.so.1"})
    for _ in range(2):
        name, text = process.hear()
        assert name == "Unsupported"
        assert "libnone.so.1" in text
        assert "Install NVIDIA's driver" in text


def test_a_forked_child_cannot_open_and_closes_nothing(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def view(path: str) -> None:
        handle = Path(path).read_bytes()
        memory = cuda.open_ipc(handle, BYTES, "uint8")
        ends, end = os.pipe()
        if os.fork() == 0:
            name, _ = why(cuda.open_ipc, handle, BYTES, "uint8")
            del memory
            gc.collect()
            os.write(end, name.encode())
            os._exit(0)
        os.wait()
        tell(os.read(ends, 100))
        tell(seen_in(memory))

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    assert (viewer.hear(), viewer.hear()) == (b"Forked", {7})
    owner.tell("go")
    owner.hear()


def test_what_was_opened_is_published_by_one_copy(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def view(path: str) -> None:
        memory = cuda.open_ipc(Path(path).read_bytes(), BYTES, "uint8")
        with tb.Publisher("frames", reliable=True) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(memory)
            tell(publisher.stats.bytes_copied)
            hear()

    def receive() -> None:
        with tb.Subscriber("frames", timeout=PATIENCE) as subscriber:
            tell(seen_in(subscriber.receive().data))

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    receiver = elsewhere.start(receive, env=ENVIRONMENT)
    assert viewer.hear() == BYTES
    assert receiver.hear() == {7}
    viewer.tell("received")
    owner.tell("go")
    owner.hear()


def test_a_process_may_end_while_it_has_handles_open(elsewhere: Elsewhere, tmp_path: Path) -> None:
    def view(path: str) -> None:
        import builtins

        builtins.kept = cuda.open_ipc(Path(path).read_bytes(), BYTES, "uint8")  # type: ignore[attr-defined]
        tell("open")

    path = str(tmp_path / "handle")
    owner = elsewhere.start(keep_numbers, path, env=ENVIRONMENT)
    assert owner.hear() == "ready"
    viewer = elsewhere.start(view, path, env=ENVIRONMENT)
    assert viewer.hear() == "open"
    viewer.finish()
    owner.tell("go")
    assert owner.hear() == {7}
