"""One way for a torch tensor, from one Python process to another, through what people use today.

Each way is used as its own documentation recommends, in two processes of its own on two cores, and
all take turns, repetition by repetition. One way is what the sender's calls take from the loan on
(where memory is lent; filling it is not counted) until the receiver has the tensor in hand. `read`
adds reading a byte of each page. `release` is what the receiver then takes to let go. The stream is
as fast as it goes, two messages on their way, a byte of each page read.

Those that poll are apart from those that sleep until a message comes: all others here. Beside them
stand floors: a word or an eventfd beside memory that is never lent nor given back, and memcpy.
What is not installed, or does not work, is named with the reason.
"""

from __future__ import annotations

import mmap
import time

import torch

from harness.cores import core_pair, pinned_to
from harness.figures import latency_figures
from harness.one_way import Failed, Pace, measure
from harness.report import is_quick, progress, report, report_absent
from peers import PEERS, Peer

SIZES = {
    "64 B": 64,
    "64 KB": 1 << 16,
    "1 MB": 1 << 20,
    "24.9 MB": 1920 * 1080 * 3 * 4,
    "100 MB": 100_000_000,
}
QUICK_SIZES = ["64 B", "1 MB", "24.9 MB"]
START = 60.0  # seconds more than the rows are to take


def copy_ns(target: torch.Tensor, source: torch.Tensor) -> int:
    begin = time.perf_counter_ns()
    target.copy_(source)
    return time.perf_counter_ns() - begin


def warm_copies(source: torch.Tensor, seconds: float) -> list[int]:
    target = torch.zeros_like(source)
    until = time.monotonic() + seconds
    times = [copy_ns(target, source) for _ in range(5)]
    while time.monotonic() < until:
        times.append(copy_ns(target, source))
    return times


def first_copies(source: torch.Tensor) -> list[int]:
    """Into pages that nobody had before."""
    times = []
    for _ in range(5):
        pages = mmap.mmap(-1, source.nbytes)
        times.append(copy_ns(torch.frombuffer(pages, dtype=torch.uint8), source))
    return times


def report_copies(repetition: int, sizes: dict[str, int], pace: Pace) -> None:
    for label, size in sizes.items():
        source = torch.ones(size, dtype=torch.uint8)
        warm = latency_figures(warm_copies(source, pace.seconds / 4))
        first = latency_figures(first_copies(source))
        report(f"{label}: floor: memcpy, warm", repetition, **warm)
        report(f"{label}: floor: memcpy, first touch", repetition, **first)


class Turns:
    """The peers, one after the other, repetition by repetition; and which of them drop out."""

    def __init__(self, sizes: dict[str, int], quick: bool) -> None:
        self.sizes = sizes
        self.pace = Pace(seconds=0.01, least=2) if quick else Pace(seconds=0.2)
        self.patience = START + 10 * self.pace.seconds * len(sizes)
        self.absent = {kind: why for kind in PEERS if (why := kind.absence())}
        if quick:
            slow = [kind for kind in PEERS if kind.starts_slowly]
            self.absent |= dict.fromkeys(slow, "left out by --quick")
        self.figures: dict[type[Peer], list[dict[int, dict[str, float]]]] = {
            kind: [] for kind in PEERS if kind not in self.absent
        }

    def take(self, which: str) -> None:
        """One repetition."""
        for kind in list(self.figures):
            progress(f"{which}: {kind.name}")
            try:
                figures = measure(kind, list(self.sizes.values()), self.pace, self.patience)
                self.figures[kind].append(figures)
            except Failed as failure:
                # Without the repetitions before: each of a row's stands for one of the others'.
                del self.figures[kind]
                self.absent[kind] = f"in repetition {which}: {failure}"

    def report(self) -> None:
        for kind, repetitions in self.figures.items():
            for repetition, figures in enumerate(repetitions):
                for label, size in self.sizes.items():
                    report(f"{label}: {kind.name}", repetition, **figures[size])
        for kind, why in self.absent.items():
            report_absent(kind.name, why)


def main() -> None:
    quick = is_quick(__doc__)
    sizes = {label: SIZES[label] for label in QUICK_SIZES} if quick else SIZES
    repetitions = 1 if quick else 5
    torch.set_num_threads(1)
    turns = Turns(sizes, quick)
    for repetition in range(repetitions):
        with pinned_to(core_pair().sender):
            report_copies(repetition, sizes, turns.pace)
        turns.take(f"{repetition + 1} of {repetitions}")
    turns.report()


if __name__ == "__main__":
    main()
