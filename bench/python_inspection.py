"""What inspecting costs: the call itself, and a reliable topic beside ten calls a second.

A publisher sends 1,000 messages of 64 B a second to a subscriber in another process, and waits for
it (`reliable`). The rows without an inspector and with one take turns.
"""

from __future__ import annotations

import subprocess
import sys
import time
from tempfile import TemporaryDirectory

import numpy as np

import tensorbus as tb
from harness.figures import latency_figures
from harness.report import is_quick, report

HZ = 1000
READER = """
import sys
import tensorbus as tb
with tb.Subscriber("topic", domain=sys.argv[1], end_of_stream=True) as subscriber:
    for sample in subscriber:
        pass
"""
INSPECTOR = """
import sys, time
import tensorbus as tb
while True:
    tb.inspect(sys.argv[1])
    time.sleep(0.1)
"""


def started(program: str, domain: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, domain])


def publish(publisher: tb.Publisher, seconds: float) -> tuple[float, list[int]]:
    """The rate that was reached, and how long each publish() took in nanoseconds."""
    message = np.zeros(8)
    times = []
    begin = time.perf_counter()
    for number in range(round(seconds * HZ)):
        time.sleep(max(begin + number / HZ - time.perf_counter(), 0))
        before = time.perf_counter_ns()
        publisher.publish(message)
        times.append(time.perf_counter_ns() - before)
    return len(times) / (time.perf_counter() - begin), times


def main() -> None:
    quick = is_quick(__doc__)
    seconds = 0.2 if quick else 5.0
    with TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain:
        with tb.Publisher("topic", domain=domain, reliable=True) as publisher:
            reader = started(READER, domain)
            publisher.wait_for_subscribers(timeout=10)
            for repetition in range(2 if quick else 5):
                for name in ("alone", "beside an inspector"):
                    inspector = started(INSPECTOR, domain) if name != "alone" else None
                    if inspector is not None:
                        time.sleep(0.5)  # it imports
                    rate, times = publish(publisher, seconds)
                    report(name, repetition, per_second=rate, **latency_figures(times))
                    if inspector is not None:
                        inspector.kill()
                        inspector.wait()
            calls = []
            for _ in range(20 if quick else 1000):
                before = time.perf_counter_ns()
                tb.inspect(domain)
                calls.append(time.perf_counter_ns() - before)
            report("inspect() of two processes", 0, **latency_figures(calls))
        reader.wait()
        publishers = [tb.Publisher(f"topic/{number}", domain=domain) for number in range(1000)]
        calls = []
        for _ in range(2 if quick else 50):
            before = time.perf_counter_ns()
            tb.inspect(domain)
            calls.append(time.perf_counter_ns() - before)
        report("inspect() of 1,000 topics", 0, **latency_figures(calls))
        del publishers


if __name__ == "__main__":
    main()
