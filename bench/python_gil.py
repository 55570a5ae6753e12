"""How much of its pace another Python thread keeps while this one is in the bus.

A second thread, on a core of its own, counts in pure Python while this one sleeps (the floor),
waits in a `receive()` that parks at once, or publishes 100 MB that have to be copied, again and
again. A thread that holds the interpreter's lock for its time lets the other one count nothing.

The interpreter's switch interval is 100 us here, not 5 ms: who comes back from a copy of some
milliseconds asks for the lock, and what the other counts until it lets go is nobody's merit.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory

import torch

import tensorbus as tb
from harness.cores import core_pair, pin_to
from harness.report import is_quick, report


class Counter:
    """Counts in a thread of its own, for as long as the block runs."""

    def __init__(self, core: int) -> None:
        self.value = 0
        self._core = core
        self._running = True
        self._thread = threading.Thread(target=self._count)

    def _count(self) -> None:
        pin_to(self._core)
        while self._running:
            for _ in range(1000):  # a loop that Python 3.11 specializes at once, unlike `while`
                self.value += 1

    def __enter__(self) -> Counter:
        self._thread.start()
        time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._thread.join()


def counted_per_second(core: int, work: Callable[[], None]) -> float:
    """The pace of a counter on `core` while `work` runs here."""
    with Counter(core) as counter:
        begin, before = time.perf_counter_ns(), counter.value
        work()
        after, end = counter.value, time.perf_counter_ns()
    return (after - before) / (end - begin) * 1e9


def main() -> None:
    quick = is_quick(__doc__)
    seconds = 0.1 if quick else 0.5
    cores = core_pair()
    pin_to(cores.sender)
    sys.setswitchinterval(1e-4)
    image = torch.ones(25_000_000)

    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        tb.Subscriber("nobody publishes this", domain=domain, spin=0) as waiting,
        tb.Publisher("image", domain=domain) as publisher,
        tb.Subscriber("image", domain=domain, depth=1),  # without one, nothing would be copied
    ):
        publisher.wait_for_subscribers(timeout=10)

        def wait() -> None:
            with suppress(tb.Timeout):
                waiting.receive(timeout=seconds)

        def copy() -> None:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                publisher.publish(image)

        rows: dict[str, Callable[[], None]] = {
            "alone": lambda: time.sleep(seconds),
            "beside receive() that waits": wait,
            "beside publish() that copies": copy,
        }
        copy()  # the arena has its memory from here on
        for repetition in range(2 if quick else 7):
            for name, work in rows.items():
                report(name, repetition, per_second=counted_per_second(cores.receiver, work))
        if publisher.stats.bytes_copied != publisher.stats.sent * image.nbytes:
            raise RuntimeError("not every image was copied")


if __name__ == "__main__":
    main()
