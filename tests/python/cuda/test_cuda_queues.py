"""Queues, shares and pools of workers with tensors on GPUs, over the stand-in for the driver."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import tensorbus as tb
from support.cuda.standin import (
    ENVIRONMENT,
    Stream,
    address_of,
    filled,
    finish,
    needs_standin,
    seen_in,
)
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from tensorbus._base import device

pytestmark = needs_standin

BYTES = 1 << 16
BLIND = {"TENSORBUS_CUDA_DRIVER": "off"}


@pytest.mark.parametrize("shared", [False, True])
def test_queues_carry_them_in_any_item_by_reference(elsewhere: Elsewhere, shared: bool) -> None:
    def put(shared: bool) -> None:
        import numpy as np

        with tb.Queue(name="items", shared=shared) as queue:
            for value in range(4):
                memory = filled(tb.empty(BYTES, "uint8", device="cuda:1"), value)
                queue.put({"x": memory, "again": memory, "host": np.full(3, value), "set": {value}})
                queue.put(memory)
            assert queue.join(timeout=PATIENCE)
            tell("gone")

    other = elsewhere.start(put, shared, env=ENVIRONMENT)

    def get() -> None:
        with tb.Queue.open("items", timeout=PATIENCE) as queue:
            for value in range(4):
                item = queue.get(timeout=PATIENCE)
                assert item["set"] == {value}
                assert item["host"].tolist() == [value] * 3
                assert item["again"] is item["x"]
                assert item["x"].device == "cuda:1"
                alone = queue.get(timeout=PATIENCE)
                assert seen_in(item["x"]) == seen_in(alone) == {value}
                queue.task_done()
                queue.task_done()

    elsewhere.run(get, env=ENVIRONMENT)
    assert other.hear() == "gone"


def host_items() -> None:
    with tb.Queue(name="items"):
        hear()


def put_slowly() -> None:
    """Puts an item that is written when it is told so."""
    stream = Stream(1)
    with tb.Queue.open("items", timeout=PATIENCE) as queue:
        memory = tb.empty(BYTES, "uint8", device="cuda:1")
        stream.pause()
        stream.write(memory, 7)
        queue.put([memory], stream=stream)
        tell("put")
        hear()
        stream.resume()
        finish()
        tell("written")
        hear()


async def get_twice() -> None:
    with tb.Queue.open("items", timeout=PATIENCE) as queue:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.get_async(), 0.2)
        eventually(lambda: queue.qsize() == 1)  # it is on its way back
        tell("waiting")
        (data,) = await asyncio.wait_for(queue.get_async(), PATIENCE)
        assert set(bytes(data)) == {7}


def get_in_a_loop() -> None:
    asyncio.run(get_twice())


@pytest.mark.parametrize("killed", [False, True])
def test_a_host_without_a_gpu_passes_them_on_by_reference(
    elsewhere: Elsewhere, killed: bool
) -> None:
    host = elsewhere.start(host_items, env=BLIND)
    putter = elsewhere.start(put_slowly, env=ENVIRONMENT)
    assert putter.hear() == "put"
    putter.tell()
    assert putter.hear() == "written"
    if killed:
        putter.kill()

    def get() -> None:
        with tb.Queue.open("items", timeout=PATIENCE) as queue:
            (memory,) = queue.get(timeout=PATIENCE)
            assert memory.device == "cuda:1"
            assert seen_in(memory) == {7}

    elsewhere.run(get, env=ENVIRONMENT)
    if not killed:
        putter.tell()
    host.tell()


def test_what_a_dead_producer_had_not_written_is_refused(elsewhere: Elsewhere) -> None:
    host = elsewhere.start(host_items, env=BLIND)
    putter = elsewhere.start(put_slowly, env=ENVIRONMENT)
    assert putter.hear() == "put"
    putter.kill()

    def get() -> None:
        with tb.Queue.open("items", timeout=PATIENCE) as queue:
            with pytest.raises(tb.Closed):
                queue.get(timeout=PATIENCE)
            assert queue.empty()

    elsewhere.run(get, env=ENVIRONMENT)
    host.tell()


def test_an_event_loop_without_a_gpu_waits_for_the_copy(elsewhere: Elsewhere) -> None:
    host = elsewhere.start(host_items, env=ENVIRONMENT)
    putter = elsewhere.start(put_slowly, env=ENVIRONMENT)
    assert putter.hear() == "put"

    getter = elsewhere.start(get_in_a_loop, env=BLIND)
    assert getter.hear() == "waiting"
    putter.tell()
    assert putter.hear() == "written"
    getter.finish()
    putter.tell()
    host.tell()


def test_what_was_got_from_a_queue_is_put_into_another(elsewhere: Elsewhere) -> None:
    def middle() -> None:
        with (
            tb.Queue(name="in", shared=True) as inbox,
            tb.Queue(name="out", shared=True) as outbox,
        ):
            for _ in range(3):
                outbox.put(["passed on", inbox.get(timeout=PATIENCE)])
            hear()

    def ends() -> None:
        with (
            tb.Queue.open("in", timeout=PATIENCE) as inbox,
            tb.Queue.open("out", timeout=PATIENCE) as outbox,
        ):
            for value in range(3):
                inbox.put(filled(tb.empty(BYTES, "uint8", device="cuda"), value))
                text, memory = outbox.get(timeout=PATIENCE)
                assert (text, seen_in(memory)) == ("passed on", {value})
                del memory

    other = elsewhere.start(middle, env=ENVIRONMENT)
    elsewhere.run(ends, env=ENVIRONMENT)
    other.tell()


def test_a_share_and_a_queue_wait_for_the_stream_they_are_told(elsewhere: Elsewhere) -> None:
    def own() -> None:
        stream = Stream()
        with tb.Queue(name="items") as queue:
            shared, put = (tb.empty(BYTES, "uint8", device="cuda") for _ in range(2))
            stream.pause()
            stream.write(shared, 1)
            with tb.share(shared, stream=stream) as share:
                tell(str(share.handle))
                stream.write(put, 2)
                queue.put([put], stream=stream)
                hear()
                stream.resume()
                hear()

    owner = elsewhere.start(own, env=ENVIRONMENT)

    def read(handle: str) -> None:
        stream = Stream()
        attached = tb.attach(handle)
        (taken,) = tb.Queue.open("items", timeout=PATIENCE).get(timeout=PATIENCE)
        for memory in (attached, taken):
            memory.__dlpack__(stream=stream.cuda_stream)  # it waits from here on
        found = [stream.read(memory) for memory in (attached, taken)]
        tell("under way")
        stream.synchronize()
        tell([set(bytes_.raw) for bytes_ in found])

    reader = elsewhere.start(read, owner.hear(), env=ENVIRONMENT)
    assert reader.hear() == "under way"
    owner.tell()
    assert reader.hear() == [{1}, {2}]
    owner.tell()


def brighter(memory: Any, device: str) -> Any:
    """On the worker's own GPU, which is its current one."""
    (value,) = seen_in(memory)
    answer = tb.empty(BYTES, "uint8", device="cuda")
    assert answer.device == device
    return device, filled(answer, value + 1)


def test_a_pool_has_a_worker_on_each_gpu(elsewhere: Elsewhere) -> None:
    def main() -> None:
        items = [filled(tb.empty(BYTES, "uint8", device="cuda"), i) for i in range(6)]
        used = set()
        with tb.WorkerPool(brighter, devices=["cuda:0", "cuda:1"]) as pool:
            for value, (device, memory) in enumerate(pool.map(items)):
                assert memory.device == device
                used.add(device)
                assert seen_in(memory) == {value + 1}
        tell(sorted(used))

    pool = elsewhere.start(main, env=ENVIRONMENT)
    assert set(pool.hear()) <= {"cuda:0", "cuda:1"}


def current_device(_: object) -> str:
    device: str = tb.empty(1, "uint8", device="cuda").device
    return device


def test_workers_on_gpus_need_no_parameter_for_them(elsewhere: Elsewhere) -> None:
    def main() -> None:
        with tb.WorkerPool(current_device, devices=["cuda:1"]) as pool:
            tell(pool.map(range(2)))
        with pytest.raises(tb.InvalidArgument, match="cuda:x"):
            tb.WorkerPool(current_device, devices=["cuda:x"])

    assert elsewhere.start(main, env=ENVIRONMENT).hear() == ["cuda:1"] * 2


def test_memory_that_went_beside_a_shared_item_comes_back(elsewhere: Elsewhere) -> None:
    def put() -> None:
        addresses = set()
        with tb.Queue(name="items", shared=True, maxsize=2) as queue:
            for value in range(100):
                memory = tb.empty(BYTES, "uint8", device="cuda")
                addresses.add(address_of(memory))
                queue.put([filled(memory, value)])
                del memory
            assert queue.join(timeout=PATIENCE)
            taken = {}

            # What is free and fits exactly is taken first. What was never put is kept, too: let go
            # of, it would be taken again and again, before what comes back later.
            def all_of_it_is_here() -> bool:
                memory = tb.empty(BYTES, "uint8", device="cuda")
                taken[address_of(memory)] = memory
                return addresses <= taken.keys()

            eventually(all_of_it_is_here)
            tell("all of it")
            hear()

    def get() -> None:
        gc.disable()  # it goes with the last reference
        with tb.Queue.open("items", timeout=PATIENCE) as queue:
            for value in range(100):
                (memory,) = queue.get(timeout=PATIENCE)
                assert seen_in(memory) == {value}
                del memory
                queue.task_done()
            hear()

    putter = elsewhere.start(put, env=ENVIRONMENT)
    getter = elsewhere.start(get, env=ENVIRONMENT)
    putter.hear()
    putter.tell()
    getter.tell()


@pytest.mark.parametrize("by", ["topic", "queue", "handle"])
def test_who_may_write_to_it_does_for_all(elsewhere: Elsewhere, by: str) -> None:
    def own(by: str) -> None:
        memory = filled(tb.empty(BYTES, "uint8", shared=True, device="cuda"), 1)
        with tb.Publisher("frames", shared=True) as publisher, tb.share(memory, shared=True) as it:
            tell(str(it.handle))
            queue = tb.Queue(name="items", shared=True)
            if by == "topic":
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                publisher.publish({"x": memory})
            elif by == "queue":
                queue.put({"x": memory})
            assert hear() == {1}
            tell((seen_in(memory), publisher.stats["bytes_copied"]))
            hear()

    def write(by: str, handle: str) -> None:
        if by == "topic":
            with tb.Subscriber("frames", access="shared", timeout=PATIENCE) as subscriber:
                x = subscriber.receive().data["x"]
        elif by == "queue":
            x = tb.Queue.open("items", timeout=PATIENCE).get(timeout=PATIENCE)["x"]
        else:
            x = tb.attach(handle, access="shared")
        assert x.writable
        before = seen_in(x)
        stream = Stream()
        stream.write(x, 2)
        stream.synchronize()
        tell(before)
        hear()

    owner = elsewhere.start(own, by, env=ENVIRONMENT)
    writer = elsewhere.start(write, by, owner.hear(), env=ENVIRONMENT)
    owner.tell(writer.hear())
    assert owner.hear() == ({2}, 0)
    for process in (owner, writer):
        process.tell()


def test_a_gpu_becomes_current_in_pytorch_as_soon_as_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current: list[int] = []
    cuda = SimpleNamespace(is_available=lambda: True, set_device=current.append)
    monkeypatch.setattr(device, "_current", 0)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not device.make_current("cuda:1")  # to be called again
    assert device.ordinal_of("cuda") == 1
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert device.make_current("cuda:1")
    assert current == [1]
    assert device.make_current("tpu:3")
    assert device.make_current(None)
    assert current == [1]


def put_batches() -> None:
    """Puts arrays of 64 KiB, and stays until it is told to end: it owns their memory."""
    import numpy as np

    with tb.Queue.open("items", timeout=PATIENCE) as queue:
        for value in range(6):
            queue.put({"x": np.full(BYTES, value, dtype=np.uint8), "id": {value}})
        hear()


def count_of_pins() -> int:
    import ctypes

    calls = ctypes.CDLL(ENVIRONMENT["TENSORBUS_CUDA_DRIVER"]).standin_calls
    return int(calls(b"cuMemHostRegister_v2") - calls(b"cuMemHostUnregister"))


def took_six(queue: tb.Queue[Any]) -> list[int]:
    """Takes six items in three ways: their number, that of the pins, and whether one may write."""

    async def one() -> Any:
        return await asyncio.wait_for(queue.get_async(), PATIENCE)

    items = [queue.get(timeout=PATIENCE), asyncio.run(one())]
    while len(items) < 6:
        items += queue.get_many(6 - len(items), timeout=PATIENCE)
    for item in items:
        (value,) = item["id"]
        assert set(item["x"].tobytes()) == {value}
    return [len(items), count_of_pins(), int(items[0]["x"].flags.writeable)]


def test_items_are_pinned_on_request_however_the_queue_was_opened(elsewhere: Elsewhere) -> None:
    host = elsewhere.start(host_items, env=BLIND)

    def get(way: str) -> None:
        if way == "open":
            queue: tb.Queue[Any] = tb.Queue.open("items", timeout=PATIENCE, pin=True)
        elif way == "open_async":
            queue = asyncio.run(tb.Queue.open_async("items", timeout=PATIENCE, pin=True))
        elif way == "reopen":
            queue = tb.Queue.open("items", timeout=PATIENCE, pin=True, reopen=True)
        elif way == "pickle":
            opened = tb.Queue.open("items", timeout=PATIENCE, pin=True)
            queue = pickle.loads(pickle.dumps(opened))
            del opened
        else:
            queue = tb.Queue.open("items", timeout=PATIENCE)
        tell(took_six(queue))

    for way in ("open", "open_async", "reopen", "pickle", "plain"):
        putter = elsewhere.start(put_batches, env=BLIND)
        getter = elsewhere.start(get, way, env=BLIND if way == "plain" else ENVIRONMENT)
        count, pinned, writeable = getter.hear()
        putter.tell()
        assert count == 6
        assert (pinned > 0, writeable) == ((False, 1) if way == "plain" else (True, 0)), way
    host.tell()


def test_a_process_that_puts_into_a_pinned_queue_starts_no_cuda(elsewhere: Elsewhere) -> None:
    def serve() -> None:
        with tb.Queue[Any](pin=True) as queue:
            tell(pickle.dumps(queue).hex())
            tell([queue.get(timeout=PATIENCE)["id"], count_of_pins()])
            hear()

    def put(pickled: str) -> None:
        import numpy as np

        queue = pickle.loads(bytes.fromhex(pickled))
        queue.put({"x": np.ones(BYTES, dtype=np.uint8), "id": 7})
        with pytest.raises(tb.Unsupported, match="pin"):
            queue.get(timeout=PATIENCE)
        hear()

    server = elsewhere.start(serve, env=ENVIRONMENT)
    putter = elsewhere.start(put, server.hear(), env=BLIND)
    assert server.hear() == [7, 1]
    server.tell()
    putter.tell()


def test_without_a_driver_no_queue_and_no_results_are_pinned(elsewhere: Elsewhere) -> None:
    def refuse() -> None:
        with pytest.raises(tb.Unsupported, match="pin"):
            tb.Queue(name="items", pin=True)
        with tb.Queue(name="items") as queue:  # the name is free
            for wrong in (
                lambda: tb.Queue.open("items", pin=True),
                lambda: tb.Queue.open("no such queue", pin=True),  # before the wait for it
                lambda: asyncio.run(tb.Queue.open_async("items", pin=True)),
                lambda: tb.WorkerPool(len, workers=1, pin_results=True),
            ):
                with pytest.raises(tb.Unsupported, match="pin"):
                    wrong()
            queue.put(1)
            assert queue.get() == 1
        for wrong in (
            lambda: tb.Queue(pin=True, access="private"),
            lambda: tb.WorkerPool(len, workers=1, pin=True, access="private"),
            lambda: tb.WorkerPool(len, workers=1, pin_results=True, access="private"),
        ):
            with pytest.raises(tb.InvalidArgument, match="pin"):
                wrong()
        tell("told")

    assert elsewhere.start(refuse, env=BLIND).hear() == "told"


def pins_of_worker(item: Any) -> list[int]:
    assert not item.flags.writeable
    return [int(item[0]), count_of_pins()]


def ones_of(count: int) -> Any:
    import numpy as np

    return np.ones(count, dtype=np.uint8)


def test_a_pool_pins_items_in_its_workers_and_results_here(elsewhere: Elsewhere) -> None:
    def items() -> None:
        with tb.WorkerPool(pins_of_worker, workers=1, pin=True) as pool:
            tell(pool.submit(ones_of(BYTES)).result(PATIENCE))

    assert elsewhere.start(items, env=ENVIRONMENT).hear() == [1, 1]

    def results() -> None:
        with tb.WorkerPool(ones_of, workers=1, pin_results=True) as pool:
            result = pool.submit(BYTES).result(PATIENCE)
            tell([len(result), bool(result.flags.writeable), count_of_pins()])

    assert elsewhere.start(results, env=ENVIRONMENT).hear() == [BYTES, False, 1]


def test_a_worker_that_cannot_pin_fails_as_one_whose_initializer_does(
    elsewhere: Elsewhere,
) -> None:
    def fail() -> None:
        with tb.WorkerPool(pins_of_worker, workers=1, pin=True) as pool:
            with pytest.raises(tb.Unsupported) as caught:
                pool.submit(ones_of(BYTES)).result(PATIENCE)
            tell(str(caught.value))

    assert "memory cannot be pinned" in elsewhere.start(fail, env=BLIND).hear()
