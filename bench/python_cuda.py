"""Tensors on a GPU between two Python processes: there and back, and the first time of all.

There and back: from just before `publish()` in the client to the moment at which the client has
what the server published onwards. Both ends poll, and make a torch tensor of what they receive; the
server publishes that tensor. No kernel runs. Where PyTorch has no GPU (over the tests' stand-in for
the driver) both have the bare memory instead.

Attaching: `tb.attach` of memory that its process has never seen, beside what the driver itself
takes to import and map as much, and of the same memory once more.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import tensorbus as tb
from harness.report import is_quick, percentile, report
from harness.two_processes import ACKED, STAMPS, TwoProcesses
from tensorbus import doctor

PROBE = Path(__file__).resolve().parent.parent / "tests/gpu/probe_driver.py"
HAS_TORCH = torch.cuda.is_available()
FLOAT32: Any = torch.float32 if HAS_TORCH else "float32"
UINT8: Any = torch.uint8 if HAS_TORCH else "uint8"
IMAGE = (1920, 1080, 3)  # of float32: 24.9 MB
GIB = 1 << 30
ATTACHED = 64 << 20

now = time.perf_counter_ns


def rows(memory_bytes: int) -> dict[str, tuple[Any, Any, str]]:
    """Shape, dtype and origin; the large ones only where there is room for several."""
    found: dict[str, tuple[Any, Any, str]] = {
        "24.9 MB, main memory": (IMAGE, torch.float32, "cpu"),
        "24.9 MB": (IMAGE, FLOAT32, "cuda"),
        "64 B": (16, FLOAT32, "cuda"),
    }
    if HAS_TORCH:
        found["24.9 MB of PyTorch's"] = (IMAGE, FLOAT32, "torch")
    if memory_bytes > 4 * GIB:
        found["1 GiB"] = (GIB, UINT8, "cuda")
    if memory_bytes > 20 * GIB:
        found["4 GiB"] = (4 * GIB, UINT8, "cuda")
    return found


class RoundTrip:
    """One end of a row."""

    def __init__(self, both: TwoProcesses, name: str, what: Any, stack: ExitStack) -> None:
        self._both = both
        self._shape, self._dtype, self._origin = what
        ends = ["there", "back"] if both.is_sender else ["back", "there"]
        publisher, subscriber = (f"{name}, {end}" for end in ends)
        # Reliable: a reader whose stream is behind still holds what it let go of.
        self._publisher = stack.enter_context(
            tb.Publisher(publisher, reliable=True, domain=both.domain)
        )
        self._subscriber = stack.enter_context(tb.Subscriber(subscriber, domain=both.domain))
        if not self._publisher.wait_for_subscribers(timeout=60):
            raise RuntimeError("no subscriber came")
        if not self._subscriber.wait_for_publishers(timeout=60):
            raise RuntimeError("no publisher came")

    def ask(self, count: int) -> list[int]:
        words, publish, try_receive = (
            self._both.words,
            self._publisher.publish,
            self._subscriber.try_receive,
        )
        times = []
        self._both.meet()
        for message in range(1, count + 1):
            tensor = self._new()
            until = now() + 20_000 + message % 13 * 1_250
            while now() < until:
                pass
            begin = now()
            publish(tensor)
            while (sample := try_receive()) is None:
                pass
            back = sample.data
            times.append(now() - begin)
            while words[ACKED] != message:
                pass
            del tensor, sample, back
        self._both.meet()
        return times

    def answer(self, count: int) -> None:
        words, publish, try_receive = (
            self._both.words,
            self._publisher.publish,
            self._subscriber.try_receive,
        )
        words[ACKED] = 0
        self._both.meet()
        for message in range(1, count + 1):
            while (sample := try_receive()) is None:
                pass
            publish(sample.data)
            del sample
            words[ACKED] = message
        self._both.meet()

    def _new(self) -> Any:
        if self._origin == "torch":
            return torch.empty(self._shape, dtype=self._dtype, device="cuda")
        until = time.monotonic() + 30
        while True:
            try:
                return self._publisher.loan(self._shape, self._dtype, device=self._origin)
            except tb.OutOfMemory:  # what was sent before may still be on its way back
                if time.monotonic() > until:
                    raise
                time.sleep(0.001)


def measure_attach(both: TwoProcesses, repetition: int, count: int) -> None:
    """Of memory that is larger than what a process takes at once, so that none was seen before."""
    handle_at = STAMPS + 2
    if both.is_sender:
        for _ in range(count):
            tensor = tb.empty(ATTACHED, UINT8, device="cuda", domain=both.domain)
            with tb.share(tensor, domain=both.domain) as shared:
                written = bytes(shared.handle)
                both.words[STAMPS] = len(written)
                padded = written + bytes(-len(written) % 8)
                for index in range(len(padded) // 8):
                    both.words[handle_at + index] = int.from_bytes(
                        padded[8 * index : 8 * index + 8], "little"
                    )
                both.meet()
                both.meet()
        first, again = [], []
        for index in range(count):
            first.append(both.words[_times_at(index)])
            again.append(both.words[_times_at(index) + 1])
        report("attach 64 MiB, the first time", repetition, **figures(first))
        report("attach 64 MiB, again", repetition, **figures(again))
        return
    for index in range(count):
        both.meet()
        size = both.words[STAMPS]
        words = both.words[handle_at : handle_at + (size + 7) // 8].tolist()
        handle = b"".join(word.to_bytes(8, "little") for word in words)[:size]
        for attempt in range(2):
            begin = now()
            tensor = tb.attach(handle, domain=both.domain)
            both.words[_times_at(index) + attempt] = now() - begin
            del tensor
        both.meet()


def _times_at(index: int) -> int:
    return STAMPS + 256 + 2 * index


def report_driver(repetition: int) -> None:
    """What importing and mapping takes without us, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(PROBE), "cost_of_opening"], capture_output=True, text=True, timeout=60
    )
    for part in done.stdout.strip().split(", "):
        size, _, micros = part.partition(" MiB ")
        if size == "64":
            report(
                "driver: import and map 64 MiB", repetition, p50_ns=1e3 * float(micros.split()[0])
            )


def figures(times: list[int]) -> dict[str, float]:
    return {"p50_ns": percentile(times, 0.5), "p99_ns": percentile(times, 0.99)}


def main() -> None:
    quick = is_quick(__doc__)
    count = 200 if quick else 3_000
    attached = 4 if quick else 16
    repetitions = 2 if quick else 5
    memory = max((device.memory_bytes for device in doctor.examine().cuda.devices), default=0)
    if memory == 0:
        raise SystemExit("there is no GPU, or none that can share: see tensorbus doctor")
    with TwoProcesses(stamps=1024) as both, ExitStack() as stack:
        ends = {name: RoundTrip(both, name, what, stack) for name, what in rows(memory).items()}
        gc.collect()
        gc.freeze()
        gc.disable()
        for repetition in range(repetitions):
            for name, end in ends.items():
                if both.is_sender:
                    report(name, repetition, **figures(end.ask(count)[count // 10 :]))
                else:
                    end.answer(count)
            measure_attach(both, repetition, attached)
    if both.is_sender:
        for repetition in range(repetitions):
            report_driver(repetition)


if __name__ == "__main__":
    main()
