"""Programs of several processes that end in the middle: by SIGKILL, by Ctrl-C, by a worker."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.contexts import OURS, all_methods, context_of
from support.harness import PATIENCE, eventually
from support.warm import Warm

pytestmark = pytest.mark.usefixtures("torch")

LARGE = 20_000  # float64: goes by reference

queues = pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])


def unused() -> None:
    """Nothing that was shared is held, or mapped, here."""
    import tensorbus as tb

    gc.collect()
    eventually(lambda: tb.participant().arena["used_bytes"] == 0)


def maps_only_its_own() -> bool:
    """Has this process mapped no shared memory of others?

    Its own it may map again, for messages to itself: it does when it takes what it has kept.
    """
    import tensorbus as tb

    maps = Path("/proc/self/maps").read_text().splitlines()
    inodes = {line.split()[4] for line in maps if "memfd:tensorbus-" in line}
    own = tb.participant().arena["segments"] + 1  # and the page through which others wake it
    return len(inodes) == own


def item(number: int) -> Any:
    import numpy as np
    import torch

    return number, torch.full((1000,), float(number)), np.full(LARGE, float(number))


def is_whole(received: Any) -> bool:
    number, tensor, array = received
    return bool((tensor == number).all() and (array == number).all())


def put_for_ever(items: Any) -> None:
    number = 0
    while True:
        items.put(item(number))
        number += 1


def received_until_the_end(reader: Any) -> Iterator[Any]:
    with suppress(EOFError):
        while True:
            yield reader.recv()


def kill_a_producer(kind: str) -> None:
    context = context_of(OURS, "fork")
    items = getattr(context, kind)()
    producer = context.Process(target=put_for_ever, args=(items,))
    producer.start()
    numbers = []
    while len(numbers) < 20:
        received = items.get()
        assert is_whole(received)
        numbers.append(received[0])
    assert not maps_only_its_own()
    producer.kill()
    producer.join()
    items._writer.close()  # now what it had written is followed by an end
    for received in received_until_the_end(items._reader):
        assert is_whole(received)
        numbers.append(received[0])
    assert numbers == list(range(len(numbers)))
    del items, received
    eventually(maps_only_its_own)
    unused()


@queues
def test_what_a_killed_producer_had_put_is_whole(warm: Warm, kind: str) -> None:
    warm.run(kill_a_producer, kind)


def get_for_ever(items: Any, told: Any) -> None:
    while True:
        received = items.get()
        assert is_whole(received)
        told.send(received[0])


def kill_a_consumer(kind: str) -> None:
    context = context_of(OURS, "fork")
    items, (hears, tells) = getattr(context, kind)(), context.Pipe(False)
    consumer = context.Process(target=get_for_ever, args=(items, tells))
    consumer.start()
    for number in range(60):
        items.put(item(number))
    while hears.recv() < 10:
        continue
    consumer.kill()
    consumer.join()
    del items, consumer
    unused()


@queues
def test_the_memory_of_what_a_killed_consumer_had_not_taken_comes_back(
    warm: Warm, kind: str
) -> None:
    warm.run(kill_a_consumer, kind)


class Rows:
    """A dataset with a row that ends the worker which reads it."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> Any:
        import torch

        if index == 57:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((LARGE,), float(index))


def look_at_all(loader: Any) -> None:
    for number, batch in enumerate(loader):
        assert batch[:, 0].tolist() == list(range(4 * number, 4 * number + 4))


def lose_a_worker(method: str) -> None:
    from torch.utils.data import DataLoader

    context = context_of(OURS, method)
    loader: Any = DataLoader(
        Rows(),  # type: ignore[arg-type]
        batch_size=4,
        num_workers=2,
        multiprocessing_context=context,
    )
    with pytest.raises(RuntimeError, match=r"worker \(pid\(s\) \d+\) exited unexpectedly"):
        look_at_all(loader)
    del loader
    gc.collect()
    eventually(maps_only_its_own)
    unused()


@all_methods
def test_a_data_loader_reports_a_killed_worker_and_its_memory_comes_back(
    warm: Warm, method: str
) -> None:
    warm.run(lose_a_worker, method)


INTERRUPTED = """
import sys
import time

import torch

import tensorbus.multiprocessing as mp


def wait(tensor=None):
    sys.stdout.write("waiting\\n")  # at once: several processes do so
    sys.stdout.flush()
    time.sleep(1000)


class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        for _ in range(40):
            yield torch.ones(1000)
        wait()


def main():
    kind, method = sys.argv[1:]
    context = mp.get_context(method)
    if kind == "Pool":
        with context.Pool(2) as pool:
            pool.map(wait, [torch.ones(1000) for _ in range(8)], 1)
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=4, num_workers=2, multiprocessing_context=context
    )
    for number, batch in enumerate(loader):
        if number == 19:
            wait()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("kind", ["Pool", "DataLoader"])
@all_methods
# All of its processes sleep when the signal comes: neither the queues of CPython nor the handler of
# PyTorch for workers that end survive an exception in each of their lines.
def test_ctrl_c_ends_a_program_with_workers(tmp_path: Path, kind: str, method: str) -> None:
    program = tmp_path / "interrupted.py"
    program.write_text(INTERRUPTED)
    started = subprocess.Popen(
        [sys.executable, program, kind, method],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    waiting = 2 if kind == "Pool" else 3
    assert [started.stdout.readline() for _ in range(waiting)] == ["waiting\n"] * waiting
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=PATIENCE)  # all that have its pipes have ended
    assert started.returncode == -signal.SIGINT
    errors = [line for line in said.splitlines() if line[:1].isalpha() and ": " in line]
    assert not [line for line in errors if not line.startswith("Process ")], said
    assert "leaked" not in said
