"""The programs of the storm of queues: python -m bridge_storm.queue_roles ROLE NAME FOLDER

`home` makes the queues. `produce` puts into all of them, `get` gets from all of them and checks
what comes. Each of both writes what it has done into one file, the ledger, a line for an item:

    put QUEUE WHO NUMBER    put() has returned
    got QUEUE WHO NUMBER    get() has returned
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tensorbus as tb
from bridge_storm.roles import Report, content, wrong

QUEUES = {"once": False, "again": True}  # and whether they redeliver
MAXSIZE = 64
GETS = 2  # that wait at a time, of one process and queue
PATIENCE = 60.0
PERIOD = 0.004  # seconds between two puts of one process into one queue
TICK = 0.05


class Ledger:
    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def home(name: str, folder: Path) -> None:
    queues = {
        queue: tb.Queue[Any](name=queue, maxsize=MAXSIZE, redeliver=redeliver)
        for queue, redeliver in QUEUES.items()
    }
    report = Report(folder / f"{name}.json")
    while True:
        report.write({queue: dict(one.stats) for queue, one in queues.items()})
        time.sleep(TICK)


def opened(queue: str) -> tb.Queue[Any]:
    while True:
        with contextlib.suppress(tb.Closed):  # the mirror that it had found is gone
            return tb.Queue[Any].open(queue, timeout=PATIENCE)


def produce(name: str, folder: Path) -> None:
    ledger, counts = Ledger(folder), Counter[str]()
    stop = folder / "stop"

    def put_all(queue: str) -> None:
        jobs = opened(queue)
        number = 0
        while not stop.exists():
            item = {
                "who": name,
                "number": number,
                "data": content(queue, name, number, size(number)),
            }
            try:
                jobs.put(item)
            except tb.Closed:  # it may be in the queue
                jobs = opened(queue)
            else:
                ledger.write("put", queue, name, number)
                counts[queue] += 1
            number += 1
            time.sleep(PERIOD)

    run(put_all, 1, counts, folder / f"{name}.json")


def get(name: str, folder: Path) -> None:
    ledger, counts = Ledger(folder), Counter[str]()

    def get_all(queue: str) -> None:
        jobs = opened(queue)
        while True:
            try:
                item = jobs.get()
                who, number, data = (item[part] for part in ("who", "number", "data"))
                ledger.write("got", queue, who, number)
                if not np.array_equal(data, content(queue, who, number, size(number))):
                    wrong(f"{queue} {number} of {who}: other bytes")
                counts[queue] += 1
                jobs.task_done()
            except tb.Closed:
                jobs = opened(queue)

    run(get_all, GETS, counts, folder / f"{name}.json")


def size(number: int) -> int:
    """The most bytes of an item."""
    return 400_000 if number % 16 == 0 else 500


def run(function: Any, count: int, counts: Counter[str], path: Path) -> None:
    """So many threads for each queue, until they end."""
    threads = [threading.Thread(target=function, args=(queue,)) for queue in [*QUEUES] * count]
    for thread in threads:
        thread.start()
    report = Report(path)
    while any(thread.is_alive() for thread in threads):
        report.write(dict(counts))
        time.sleep(TICK)


if __name__ == "__main__":
    role, name, folder = sys.argv[1:]
    {"home": home, "produce": produce, "get": get}[role](name, Path(folder))
