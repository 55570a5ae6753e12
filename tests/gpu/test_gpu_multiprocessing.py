"""tensorbus.multiprocessing with PyTorch's tensors on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tensorbus as tb
import tensorbus.multiprocessing as mp
from support.cuda.gpu_tensors import (
    DEVICE,
    WORDS,
    Words,
    delay,
    not_in_rehearsal,
    own_stream,
    torch,
)
from support.harness import PATIENCE, Elsewhere, tell


def echo(inbox: Any, outbox: Any, argument: Any) -> None:
    """Sends back what it got, and something new, until it gets nothing."""
    outbox.put([argument, argument + 1])
    with own_stream():
        words = Words()
        while (item := inbox.get()) is not None:
            delay(1)
            words.check(item["words"], item["seed"])
            outbox.put({**item, "more": item["words"] + 1})
            del item
        outbox.put(words.wrong())
        assert inbox.get() == "the end"


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_queues_carry_late_tensors_there_and_back(elsewhere: Elsewhere, kind: str) -> None:
    def main(kind: str) -> None:
        context = mp.get_context("spawn")
        there, back = getattr(context, kind)(), getattr(context, kind)()
        argument = torch.ones(3, device=DEVICE)
        process = context.Process(target=echo, args=(there, back, argument))
        process.start()
        assert [tensor.tolist() for tensor in back.get()] == [[1.0] * 3, [2.0] * 3]
        with own_stream():
            words = Words()
            for seed in range(100):
                tensor = torch.empty(WORDS, dtype=torch.int32, device=DEVICE)
                delay(1)
                there.put({"words": words.fill(tensor, seed), "seed": seed})
                del tensor
                got = back.get()
                words.check(got["words"], seed)
                words.check(got["more"], seed + 1)
                del got
            wrong = words.wrong()
        there.put(None)
        assert back.get() == 0
        there.put("the end")
        process.join(PATIENCE)
        tell((wrong, process.exitcode))

    assert elsewhere.start(main, kind).hear(120) == (0, 0)


def look(item: Any) -> Any:
    base, part = item["views"]
    assert part.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    assert type(item["parameter"]) is torch.nn.Parameter
    assert item["parameter"].requires_grad
    assert item["storage"].nbytes() == 12
    assert item["twice"] is item["views"][0]
    return [base.sum(), item["host"]]


def test_pools_carry_views_parameters_storages_and_models(elsewhere: Elsewhere) -> None:
    def main() -> None:
        base = tb.empty(10, torch.float32, device=DEVICE)
        torch.arange(10.0, device=DEVICE, out=base)
        item = {
            "views": [base, base[2:4]],
            "twice": base,
            "parameter": torch.nn.Parameter(torch.ones(2, device=DEVICE)),
            "storage": torch.zeros(3, device=DEVICE).untyped_storage(),
            "host": torch.zeros(3),
            "model": torch.nn.Linear(3, 2).to(DEVICE).state_dict(),
        }
        with mp.get_context("spawn").Pool(1) as pool:
            total, host = pool.apply(look, (item,))
        assert total.item() == 45
        tell(host.tolist())

    assert elsewhere.start(main).hear(90) == [0.0] * 3


def answer(inbox: Any, outbox: Any, argument: Any) -> None:
    """PyTorch sends nothing on that it received."""
    outbox.put([argument.clone(), argument + 1])
    assert inbox.get() == "the end"


@not_in_rehearsal
def test_where_the_bus_cannot_lend_it_goes_pytorchs_own_way(elsewhere: Elsewhere) -> None:
    def main() -> None:
        context = mp.get_context("spawn")
        there, back = context.SimpleQueue(), context.SimpleQueue()
        argument = torch.ones(3, device=DEVICE)
        process = context.Process(target=answer, args=(there, back, argument))
        process.start()
        assert [tensor.tolist() for tensor in back.get()] == [[1.0] * 3, [2.0] * 3]
        there.put("the end")
        process.join(PATIENCE)
        tell(process.exitcode)

    off = {"TENSORBUS_CUDA_DRIVER": "off"}
    assert elsewhere.start(main, env=off).hear(60) == 0
