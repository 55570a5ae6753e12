"""tensorbus.multiprocessing with memory on GPUs, over the stand-in for the driver."""

from __future__ import annotations

from typing import Any

import pytest

import tensorbus as tb
import tensorbus.multiprocessing as mp
from support.cuda.standin import ENVIRONMENT, filled, needs_standin, seen_in
from support.harness import PATIENCE, Elsewhere, tell

pytestmark = needs_standin

BYTES = 1 << 16


def new(value: int) -> Any:
    return filled(tb.empty(BYTES, "uint8", device="cuda"), value)


def add_one(inbox: Any, outbox: Any, at_once: Any) -> None:
    """Sends back what it got and, in memory of its own, one more, until it gets nothing."""
    outbox.put([at_once, new(20)])
    while (item := inbox.get()) is not None:
        (value,) = seen_in(item["x"])
        outbox.put([item["x"], new(value + 1), item["host"]])
        del item
    assert inbox.get() == "the end"


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_queues_and_arguments_carry_it_there_and_back(elsewhere: Elsewhere, kind: str) -> None:
    def main(kind: str) -> None:
        import numpy as np

        context = mp.get_context("spawn")
        there, back = getattr(context, kind)(), getattr(context, kind)()
        process = context.Process(target=add_one, args=(there, back, new(10)))
        process.start()
        assert [seen_in(memory) for memory in back.get()] == [{10}, {20}]
        for value in range(3):
            there.put({"x": new(value), "host": np.zeros(3)})
            same, more, host = back.get()
            assert [seen_in(memory) for memory in (same, more)] == [{value}, {value + 1}]
            host[:] = value  # what is in main memory may be written to, as ever
            del same, more, host
        there.put(None)
        there.put("the end")
        process.join()
        tell(process.exitcode)

    assert elsewhere.start(main, kind, env=ENVIRONMENT).hear() == 0


def more_than(memory: Any) -> Any:
    (value,) = seen_in(memory)
    return [memory, new(value + 1)]


def test_pools_and_executors_carry_it(elsewhere: Elsewhere) -> None:
    def main() -> None:
        from concurrent.futures import ProcessPoolExecutor

        context = mp.get_context("spawn")
        with context.Pool(1) as pool:
            found = pool.map(more_than, [new(1), new(2)])
            assert [[seen_in(x) for x in pair] for pair in found] == [
                [{1}, {2}],
                [{2}, {3}],
            ]
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            same, more = executor.submit(more_than, new(5)).result(PATIENCE)
            assert [seen_in(memory) for memory in (same, more)] == [{5}, {6}]
        tell("done")

    assert elsewhere.start(main, env=ENVIRONMENT).hear() == "done"


def send_and_end(pipe: Any) -> None:
    pipe.send([new(1)])


def test_it_ends_with_who_sent_it_as_with_pytorch(elsewhere: Elsewhere) -> None:
    def main() -> None:
        context = mp.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=send_and_end, args=(there,))
        process.start()
        process.join()
        with pytest.raises(tb.Closed):
            here.recv()
        tell("done")

    assert elsewhere.start(main, env=ENVIRONMENT).hear() == "done"


def keep_in_a_fork(queue: Any) -> None:
    queue.put("forked")


def test_a_process_that_uses_gpus_is_told_what_a_fork_cannot(elsewhere: Elsewhere) -> None:
    def main() -> None:
        memory = new(1)
        context = mp.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=keep_in_a_fork, args=(queue,))
        process.start()
        assert queue.get(timeout=PATIENCE) == "forked"
        process.join()
        assert seen_in(memory) == {1}
        tell(process.exitcode)

    assert elsewhere.start(main, env=ENVIRONMENT).hear() == 0
