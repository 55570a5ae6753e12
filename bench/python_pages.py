"""New memory of the bus, in pages of 4 KiB and in huge pages: 24 MiB at a time.

`written`: from before `loan()` until every byte is written. `read`: another process, which has just
received it, reads a byte of each page. `freed`: the last tensor over it goes, and the kernel gets
the memory back, as more is warm than may be. `rewritten`, to compare with: writing it once more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tensorbus as tb
from harness.other_process import PATIENCE, other_process
from harness.report import is_quick, report, report_absent
from tensorbus import doctor

BYTES = 24 << 20
WARM = 16  # so many are kept warm, and more (256 MiB)
PAGE = 4096


def timed(call: Callable[[], Any]) -> int:
    begin = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begin


def read(link: Any, domain: str, count: int) -> None:
    """The other process: how long it takes to read each, for the first time."""
    times = []
    with tb.Subscriber("pages", domain=domain, timeout=PATIENCE) as subscriber:
        link.send("ready")
        for _ in range(count):
            sample = subscriber.receive()
            pages = sample.data[::PAGE]
            times.append(timed(pages.max))
            del sample, pages
            link.send("read")
        link.send(times)


def measure(count: int, small: bool) -> dict[str, float]:
    """What is warm is taken first, so that the last ones are new.

    The second of two rounds: a hypervisor that was given back what the first one has freed may not
    have taken it yet, and its page faults are not what this is about.
    """
    os.environ["TENSORBUS_HUGE_PAGES"] = "0" if small else "1"
    times: dict[str, list[int]] = {}
    frames: list[Any] = []

    def write() -> None:
        frames.append(publisher.loan((BYTES,), dtype="uint8"))
        frames[-1].fill(1)

    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        other_process(read, domain, 2 * count) as link,
    ):
        link.recv()
        with tb.Publisher("pages", domain=domain, reliable=True, timeout=PATIENCE) as publisher:
            publisher.wait_for_subscribers(timeout=PATIENCE)
            for _ in range(2):
                times = {"written": [], "rewritten": [], "freed": []}
                for _ in range(count):
                    times["written"].append(timed(write))
                    times["rewritten"].append(timed(lambda: frames[-1].fill(2)))
                    publisher.publish(frames[-1])
                    link.recv()
                while frames:
                    times["freed"].append(timed(frames.pop))
            times["read"] = link.recv()[count:]
    keys = ("written", "read", "freed", "rewritten")
    return {f"{key}_ns": median(times[key][WARM:]) for key in keys}


def main() -> None:
    quick = is_quick(__doc__)
    np.zeros(1)
    huge = doctor.examine().host.huge_pages
    if not huge.can:
        report_absent("huge pages", str(huge.why_not))
    for repetition in range(2 if quick else 5):
        report("4 KiB pages", repetition, **measure(WARM + 8, small=True))
        if huge.can:
            report("huge pages", repetition, **measure(WARM + 8, small=False))


if __name__ == "__main__":
    main()
