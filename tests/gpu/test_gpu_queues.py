"""Queues, shares, services and pools of workers with tensors on a GPU."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tensorbus as tb
from support.cuda.gpu_tensors import (
    DEVICE,
    WORDS,
    Words,
    delay,
    not_in_rehearsal,
    own_stream,
    torch,
)
from support.harness import PATIENCE, Elsewhere, hear, tell


@pytest.mark.parametrize("shared", [False, True])
def test_queues_carry_late_tensors_in_order(elsewhere: Elsewhere, shared: bool) -> None:
    def put(count: int, shared: bool) -> None:
        with tb.Queue(name="items", shared=shared, maxsize=4) as queue, own_stream():
            words = Words()
            for seed in range(count):
                if seed % 2:
                    tensor = tb.empty(WORDS, torch.int32, device=DEVICE)
                else:
                    tensor = torch.empty(WORDS, dtype=torch.int32, device=DEVICE)
                delay(1)
                queue.put({"words": words.fill(tensor, seed), "seed": {seed}})
                del tensor
            hear()

    def get(count: int) -> None:
        with tb.Queue.open("items", timeout=PATIENCE) as queue, own_stream():
            words = Words()
            for seed in range(count):
                item = queue.get(timeout=PATIENCE)
                assert item["seed"] == {seed}
                delay(1)
                words.check(item["words"], seed)
                del item
            tell(words.wrong())

    putter = elsewhere.start(put, 200, shared)
    assert elsewhere.start(get, 200).hear(120) == 0
    putter.tell()


def test_shares_are_attached_and_shared_onwards(elsewhere: Elsewhere) -> None:
    def own() -> None:
        with own_stream():
            words = Words()
            tensor = tb.empty(WORDS, torch.int32, device=DEVICE)
            delay(50)
            with tb.share([words.fill(tensor, 5), torch.ones(3, device=DEVICE)]) as shared:
                tell(str(shared.handle))
                hear()

    def pass_on(handle: str) -> None:
        first, _ = tb.attach(handle)
        with tb.share(first) as shared:
            tell(str(shared.handle))
            hear()

    def check(handle: str) -> None:
        with own_stream():
            words = Words()
            words.check(tb.attach(handle), 5)
            tell(words.wrong())

    owner = elsewhere.start(own)
    middle = elsewhere.start(pass_on, owner.hear())
    assert elsewhere.start(check, middle.hear()).hear() == 0
    middle.tell()
    owner.tell()


def test_services_answer_with_tensors(elsewhere: Elsewhere) -> None:
    def serve() -> None:
        def double(request: Any) -> Any:
            delay(5)
            return {"x": request["x"] * 2, "same": request["x"]}

        with tb.Node("server") as node:
            node.create_service("double", callback=double, mode="sync")
            tell("ready")
            node.spin()

    def ask() -> None:
        with tb.Client("double", timeout=PATIENCE) as client, own_stream():
            words = Words()
            for seed in range(50):
                tensor = torch.empty(WORDS, dtype=torch.int32, device=DEVICE)
                delay(1)
                words.fill(tensor, seed)
                reply = client.call_sync({"x": tensor})
                words.check(reply["same"], seed)
                words.check(reply["x"] - tensor, seed)
                del tensor, reply
            wrong = words.wrong()
            reply = asyncio.run(client.call_async({"x": torch.ones(3, device=DEVICE)}))
            tell((wrong, reply["x"].tolist()))

    server = elsewhere.start(serve)
    assert server.hear() == "ready"
    assert elsewhere.start(ask).hear(60) == (0, [2.0] * 3)
    server.kill()


def load(device: str) -> Any:
    model = torch.nn.Linear(4, 2).to(device)
    torch.nn.init.ones_(model.weight)
    torch.nn.init.zeros_(model.bias)
    return model


def infer(model: Any, frame: Any, device: str) -> Any:
    assert frame.device.type == DEVICE
    if DEVICE == "cuda":
        assert torch.cuda.current_device() == int(device[-1])
        assert tb.empty(1, torch.float32, device="cuda").device == torch.device(device)
    with torch.no_grad():
        return model(frame), torch.full((2,), 3.0, device=DEVICE)


def test_a_pool_has_a_worker_for_each_gpu(elsewhere: Elsewhere) -> None:
    def main() -> None:
        devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu:0"]
        with tb.WorkerPool(infer, devices=devices, initializer=load) as pool:
            frames = [torch.full((3, 4), float(i), device=DEVICE) for i in range(20)]
            for number, (found, threes) in enumerate(pool.imap(frames)):
                assert found.tolist() == [[4.0 * number] * 2] * 3
                assert threes.tolist() == [3.0] * 2
        tell("done")

    assert elsewhere.start(main).hear(90) == "done"


@not_in_rehearsal
@pytest.mark.parametrize("way", ["get", "get_many", "get_async"])
def test_main_memory_of_items_is_pinned_and_goes_to_the_gpu(elsewhere: Elsewhere, way: str) -> None:
    count = 8

    def put() -> None:
        with tb.Queue(name="batches") as queue:
            tell("made")
            for seed in range(count):
                batch = tb.empty(1 << 20, torch.int32)
                queue.put({"x": batch.fill_(seed), "seed": {seed}})
                del batch
            hear()

    def get(way: str) -> None:
        try:
            queue: tb.Queue[Any] = tb.Queue.open("batches", timeout=PATIENCE, pin=True)
        except tb.Unsupported as error:
            return tell(str(error))

        def next_items() -> list[Any]:
            if way == "get_many":
                return queue.get_many(3, timeout=PATIENCE)
            if way == "get":
                return [queue.get(timeout=PATIENCE)]
            return [asyncio.run(asyncio.wait_for(queue.get_async(), PATIENCE))]

        with queue, own_stream():
            taken = 0
            while taken < count:
                for item in next_items():
                    assert item["x"].is_pinned()
                    there = item["x"].to("cuda", non_blocking=True)
                    torch.cuda.current_stream().synchronize()  # then the item may go
                    (seed,) = item["seed"]
                    assert bool((there == seed).all())
                    taken += 1
        tell("")

    putter = elsewhere.start(put)
    assert putter.hear() == "made"
    why_not = elsewhere.start(get, way).hear()
    putter.tell()
    if why_not:  # drivers of many GPUs register no memory that a process maps for reading
        pytest.skip(why_not)


def fill_batch(seed: int) -> Any:
    return tb.empty(1 << 20, torch.int32).fill_(seed)


def sum_on_gpu(batch: Any) -> tuple[bool, int]:
    with own_stream():
        return batch.is_pinned(), int(batch.to("cuda", non_blocking=True)[:1000].sum())


@not_in_rehearsal
def test_a_pool_pins_items_in_its_workers_and_results_here(elsewhere: Elsewhere) -> None:
    def pool() -> None:
        try:
            with tb.WorkerPool(fill_batch, workers=1, pin_results=True) as loaders:
                batches = loaders.map(range(4))
                assert all(batch.is_pinned() for batch in batches)
                assert sum_on_gpu(batches[3]) == (True, 3000)
            with tb.WorkerPool(sum_on_gpu, workers=1, pin=True) as models:
                assert models.map([fill_batch(1), fill_batch(2)]) == [(True, 1000), (True, 2000)]
        except tb.Unsupported as error:
            return tell(str(error))
        tell("")

    if why_not := elsewhere.start(pool).hear(120):
        pytest.skip(why_not)
