"""How much faster several threads of one process receive than one of them does.

Each thread has a topic and a subscriber of its own, and a core of its own, four at most. The
messages, small dicts with an array, wait in the queues before the clock starts, so no publisher
takes a core; then each thread receives all of its own, and looks at them. `publish` is the way
back, into queues that drop the oldest. `count` is a loop of pure Python: what this interpreter and
this machine make of so many threads. With a GIL the rows of several threads say so.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads look for work on all cores

import numpy as np

import tensorbus as tb
from harness.cores import pin_to
from harness.report import is_quick, report

MAX_THREADS = 4
PATIENCE = 30.0

Work = Callable[[int], None]


def threads_row(threads: int) -> str:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return f"{threads} threads" + (", with a GIL" if has_gil else "")


def per_second(work: Work, count: int, threads: int, cores: list[int]) -> float:
    """How often all threads together do what `work` does `count` times, each for its own number."""
    barrier = threading.Barrier(threads)
    times: list[tuple[float, float]] = []
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            pin_to(cores[number])
            barrier.wait(PATIENCE)
            begin = time.perf_counter()
            work(number)
            times.append((begin, time.perf_counter()))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]
    return threads * count / (max(end for _, end in times) - min(begin for begin, _ in times))


def message(number: int) -> dict[str, Any]:
    return {"id": number, "frame": "camera", "pose": np.arange(12.0)}


class Topics:
    """A topic for each thread, both ends in this process."""

    def __init__(self, stack: ExitStack, threads: int, count: int, domain: str) -> None:
        self._count = count
        options = {"domain": domain, "depth": count}
        self._publishers = [
            stack.enter_context(tb.Publisher(f"threads/{number}", **options))
            for number in range(threads)
        ]
        self._subscribers = [
            stack.enter_context(tb.Subscriber(f"threads/{number}", timeout=PATIENCE, **options))
            for number in range(threads)
        ]
        for publisher in self._publishers:
            publisher.wait_for_subscribers(timeout=PATIENCE)
        self._messages = [[message(number) for number in range(count)] for _ in range(threads)]

    def publish(self, thread: int) -> None:
        publish = self._publishers[thread].publish
        for each in self._messages[thread]:
            publish(each)

    def receive(self, thread: int) -> None:
        receive = self._subscribers[thread].receive
        for number in range(self._count):
            if receive().data["id"] != number:
                raise RuntimeError("not the message that was sent")


def count_up(times: int) -> None:
    value = 0
    for number in range(times):
        value += number & 3


def main() -> None:
    quick = is_quick(__doc__)
    count = 1000 if quick else 10_000
    cores = sorted(os.sched_getaffinity(0))[:MAX_THREADS]
    gc.disable()
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        ExitStack() as stack,
    ):
        topics = Topics(stack, len(cores), count, domain)
        for repetition in range(2 if quick else 9):
            for threads, row in ((1, "one thread"), (len(cores), threads_row(len(cores)))):
                paces = {
                    "publish": per_second(topics.publish, count, threads, cores),
                    "receive": per_second(topics.receive, count, threads, cores),
                    "count": per_second(lambda _: count_up(20 * count), 20 * count, threads, cores),
                }
                for name, pace in paces.items():
                    report(f"{name}: {row}", repetition, per_second=pace)


if __name__ == "__main__":
    main()
