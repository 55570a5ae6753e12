"""What inspecting costs: the call itself, and a reliable topic beside those who inspect.

A publisher sends 1,000 messages of 64 B a second to a subscriber in another process, and waits for
it (`reliable`). Beside it run, in turns: nothing; ten calls of inspect() a second; `tensorbus top`;
`tensorbus view` with a page that is open. The last two look once a second.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import numpy as np

import tensorbus as tb
from harness.figures import latency_figures
from harness.report import is_quick, report, report_absent

HZ = 1000
READER = """
import sys
import tensorbus as tb
with tb.Subscriber("topic", domain=sys.argv[1], end_of_stream=True) as subscriber:
    for sample in subscriber:
        pass
"""
INSPECTOR = """
import os, sys, time
import tensorbus as tb
while True:
    tb.inspect(sys.argv[1])
    os.write(1, b".")
    time.sleep(0.1)
"""
TOP = """
import os, sys
import tensorbus as tb
from tensorbus._top.app import Top

def look():
    os.write(1, b".")
    return tb.inspect(sys.argv[1])

Top(look).run(headless=True)
"""
VIEW = """
import asyncio, functools, os, sys
import aiohttp
from tensorbus._view.address import Address
from tensorbus._view.server import Server
from tensorbus._view.serving import others

async def main():
    address = Address()
    server = Server(functools.partial(others, sys.argv[1]), sys.argv[1], address)
    running = asyncio.create_task(server.run())
    async with aiohttp.ClientSession() as client, client.ws_connect(f"{address.url}live") as page:
        async for _ in page:
            os.write(1, b".")

asyncio.run(main())
"""
# What runs beside the topic, and the packages that it needs.
BESIDE = {
    "alone": (None, ()),
    "beside an inspector": (INSPECTOR, ()),
    "beside top": (TOP, ("textual",)),
    "beside view": (VIEW, ("aiohttp", "numpy")),
}


@contextmanager
def beside(program: str | None, domain: str) -> Iterator[None]:
    """Runs it, from when it looks at the domain, and writes a byte for each look, until the end."""
    if program is None:
        yield
        return
    process = started(program, domain)
    assert process.stdout is not None
    try:
        process.stdout.read(1)  # b"", too, if it has ended
        yield
        if process.poll() is not None:
            raise RuntimeError("what inspects has ended")
    finally:
        process.kill()
        process.communicate()


def started(program: str, domain: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, domain]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


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
                for name, (program, needs) in BESIDE.items():
                    if missing := [each for each in needs if find_spec(each) is None]:
                        if repetition == 0:
                            report_absent(name, f"no {missing[0]}")
                        continue
                    with beside(program, domain):
                        rate, times = publish(publisher, seconds)
                    report(name, repetition, per_second=rate, **latency_figures(times))
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
