"""What programs of `multiprocessing` do all day, over it, PyTorch's module and ours.

Each row is one thing done: the time for one item, call or process, over each of the three in turn.
"put" is the call alone, to a queue that is read afterwards. "one way" has a process that puts while
this one gets. "echo" is there and back, one item at a time. "start" is from `start()` to the end of
`join()` of a process that does nothing.

The floor is the standard library's module. It copies tensors; what it takes for them says how much
PyTorch's module and ours add or save.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from harness.report import is_quick, report

MODULES = {
    "multiprocessing": "multiprocessing",
    "torch": "torch.multiprocessing",
    "tensorbus": "tensorbus.multiprocessing",
}

now = time.perf_counter_ns


def number_of(index: int) -> Any:
    return index


def tuple_of(index: int) -> Any:
    return ("step", index, 0.5, None)


def dict_of(index: int) -> Any:
    return {"id": index, "name": "frame", "box": [1, 2, 3, 4], "score": 0.5}


def array_of(index: int) -> Any:
    return np.full(128, index)


def tensor_of(index: int) -> Any:
    return torch.full((250_000,), float(index))


def fill(queue: Any, make: Callable[[int], Any], count: int) -> None:
    for index in range(count):
        queue.put(make(index))


def fill_and_wait(queue: Any, make: Callable[[int], Any], count: int, done: Any) -> None:
    """PyTorch's tensors come from the process that put them, when they are got."""
    torch.set_num_threads(1)
    fill(queue, make, count)
    done.wait()


def answer(inbox: Any, outbox: Any, count: int) -> None:
    for _ in range(count):
        outbox.put(inbox.get())


def negative(value: int) -> int:
    return -value


def put(context: Any, make: Callable[[int], Any], count: int) -> float:
    queue = context.Queue()
    queue.put(make(0))  # its feeder runs from here on
    queue.get()
    items = [make(index) for index in range(count)]
    begin = now()
    for item in items:
        queue.put(item)
    took = now() - begin
    for _ in items:
        queue.get()
    return took / count


def one_way(context: Any, make: Callable[[int], Any], count: int) -> float:
    queue, done = context.Queue(16), context.Event()
    other = context.Process(target=fill_and_wait, args=(queue, make, count + 1, done))
    other.start()
    queue.get()
    begin = now()
    for _ in range(count):
        queue.get()
    took = now() - begin
    done.set()
    other.join()
    return took / count


def echo(context: Any, make: Callable[[int], Any], count: int) -> float:
    inbox, outbox = context.Queue(), context.Queue()
    other = context.Process(target=answer, args=(inbox, outbox, count + 1))
    other.start()
    inbox.put(make(0))
    outbox.get()
    begin = now()
    for index in range(count):
        inbox.put(make(index))
        outbox.get()
    took = now() - begin
    other.join()
    return took / count


def map_ints(context: Any, _: Any, count: int) -> float:
    with context.Pool(1) as pool:
        pool.map(negative, range(10))
        begin = now()
        pool.map(negative, range(count), chunksize=1)
        return (now() - begin) / count


def start(context: Any, _: Any, count: int) -> float:
    begin = now()
    for _number in range(count):
        process = context.Process(target=negative, args=(1,))
        process.start()
        process.join()
    return (now() - begin) / count


# what is done, how, with which items, and how often
ROWS: list[tuple[str, Any, Any, int, str]] = [
    ("put an int", put, number_of, 5_000, "fork"),
    ("ints, one way", one_way, number_of, 5_000, "fork"),
    ("a tuple, echo", echo, tuple_of, 1_000, "fork"),
    ("a small dict, echo", echo, dict_of, 1_000, "fork"),
    ("a 1 KiB array, echo", echo, array_of, 1_000, "fork"),
    ("fresh 1 MB tensors, one way", one_way, tensor_of, 100, "fork"),
    ("Pool.map of ints", map_ints, None, 1_000, "fork"),
    ("start, fork", start, None, 10, "fork"),
    ("start, spawn", start, None, 1, "spawn"),
]


def main() -> None:
    quick = is_quick(__doc__)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    gc.disable()
    for repetition in range(3):
        for title, measure, make, count, method in ROWS:
            for name, module in MODULES.items():
                context = importlib.import_module(module).get_context(method)
                each = measure(context, make, max(count // (10 if quick else 1), 1))
                report(f"{title}: {name}", repetition, each_ns=each)


if __name__ == "__main__":
    main()
