"""One way into an event loop: `await subscriber.receive()`, beside a bare eventfd in the same loop.

From just before `publish()`, or the write to the eventfd, to the moment at which the waiting task
goes on, with the sample's data in hand. The loop sleeps before each. The floor's task waits for a
future that a reader of the descriptor sets, which is the least that awaiting a descriptor takes.
Both take turns in one loop, of asyncio and, where it is installed, of uvloop.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import time
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any

import torch

import tensorbus as tb
from harness.figures import latency_figures
from harness.other_process import PATIENCE, other_process
from harness.report import is_quick, report

LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]
WARM_UP = 20
ASLEEP_AFTER = 0.0003  # seconds

now = time.perf_counter_ns


class EventReader:
    """A bare eventfd, awaited."""

    def __init__(self, event: int) -> None:
        self.event = event
        self.loop = asyncio.get_running_loop()
        self.come: asyncio.Future[None] = self.loop.create_future()
        self.loop.add_reader(event, self._read)

    def _read(self) -> None:
        os.eventfd_read(self.event)
        self.come.set_result(None)

    async def receive(self) -> None:
        await self.come
        self.come = self.loop.create_future()


async def receive(link: Any, domain: str, event: int, rounds: int) -> None:
    """Each row as often as the other side sends it, in the same order."""
    reader = EventReader(event)
    async with tb.AsyncSubscriber("async", domain=domain, timeout=PATIENCE) as subscriber:

        async def data() -> Any:
            return (await subscriber.receive()).data

        takes: list[Callable[[], Awaitable[Any]]] = [reader.receive, data, data]
        await subscriber.wait_for_publishers(timeout=PATIENCE)
        gc.disable()
        for _ in range(rounds):
            for take in takes:
                taken = await take()
                there = now()
                del taken
                link.send(there)


def run_loop(link: Any, kind: str, domain: str, event: int, rounds: int) -> None:
    if kind == "uvloop":
        import uvloop

        uvloop.run(receive(link, domain, event, rounds))
    else:
        asyncio.run(receive(link, domain, event, rounds))


def send(link: Any, kind: str, domain: str, event: int, rounds: int) -> dict[str, list[int]]:
    with tb.Publisher("async", domain=domain) as publisher:
        publisher.wait_for_subscribers(timeout=PATIENCE)
        image = (1920, 1080, 3)
        rows: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
            f"{kind}: eventfd": (lambda: 1, lambda one: os.eventfd_write(event, one)),
            f"{kind}: 64 bytes": (lambda: bytes(64), publisher.publish),
            f"{kind}: 24.9 MB torch loan": (
                lambda: publisher.loan(image, dtype=torch.float32),
                publisher.publish,
            ),
        }
        times: dict[str, list[int]] = {row: [] for row in rows}
        for _ in range(rounds):
            for row, (make, publish) in rows.items():
                message = make()
                time.sleep(ASLEEP_AFTER)
                begin = now()
                publish(message)
                del message
                times[row].append(link.recv() - begin)
    return times


def main() -> None:
    quick = is_quick(__doc__)
    rounds = WARM_UP + (100 if quick else 1_000)
    torch.set_num_threads(1)
    for repetition in range(2 if quick else 3):
        for kind in LOOPS:
            with TemporaryDirectory(
                prefix="tensorbus-bench-", ignore_cleanup_errors=True
            ) as domain:
                event = os.eventfd(0, os.EFD_NONBLOCK)
                args = (kind, domain, event, rounds)
                with other_process(run_loop, *args) as link:
                    times = send(link, *args)
                os.close(event)
            for row, values in times.items():
                report(row, repetition, **latency_figures(values[WARM_UP:]))


if __name__ == "__main__":
    main()
