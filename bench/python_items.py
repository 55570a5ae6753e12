"""Small items through queues and services, beside a topic there and back and multiprocessing.Queue.

Two processes, each on a core of its own; this one makes the queues. "echo" is an item there and its
answer back, through two queues; before each there is a pause in which both fall asleep. "polled"
has no pause, so both look for a moment before they would sleep. "one way" has the other process put
while this one gets, or "to a worker" the other way round: nanoseconds for one item, with as many on
their way as there is room for. Everything takes short turns, so that a change of the machine's load
meets all rows alike.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import torch

import tensorbus as tb
import tensorbus.multiprocessing
from harness.cores import core_pair, pin_to
from harness.report import is_quick, percentile, report

PAUSE = 0.0005  # seconds: everybody sleeps again
MANY = 64  # items of a put_many
ROOM = 1024  # items that may wait
PATIENCE = 60.0

now = time.perf_counter_ns
fork = multiprocessing.get_context("fork")
END = "end"


def an_int() -> Any:
    return 7


def a_tensor() -> Any:
    made: Any = tb.empty((16,), torch.float32)
    return made.zero_()


def a_dict() -> Any:
    return {"id": 7, "name": "frame", "box": [1, 2, 3, 4], "score": 0.5}


ITEMS: dict[str, Callable[[], Any]] = {
    "int": an_int,
    "64 B tensor": a_tensor,
    "small dict": a_dict,
}
QUEUES = ["multiprocessing", "tensorbus", "tensorbus.multiprocessing"]


def make_queues() -> dict[str, tuple[Any, Any]]:
    """By way: there, and back."""
    ours = tensorbus.multiprocessing.get_context("fork")
    return {
        "multiprocessing": (fork.Queue(ROOM), fork.Queue(ROOM)),
        "tensorbus": (tb.Queue(maxsize=ROOM), tb.Queue(maxsize=ROOM)),
        "tensorbus.multiprocessing": (ours.Queue(ROOM), ours.Queue(ROOM)),
    }


class Topics:
    """A topic there and one back, with the calls of a queue."""

    def __init__(self, put: str, get: str) -> None:
        options: Any = {"reliable": True, "timeout": PATIENCE}
        self._publisher = tb.Publisher(put, **options)
        self._subscriber = tb.Subscriber(get, timeout=PATIENCE, spin=0)  # both ways it sleeps

    def wait(self) -> None:
        self._publisher.wait_for_subscribers()
        self._subscriber.wait_for_publishers()

    def put(self, item: Any) -> None:
        self._publisher.publish(item)

    def get(self) -> Any:
        return self._subscriber.receive().data


def be_other(link: Connection, queues: dict[str, tuple[Any, Any]]) -> None:
    """The other process: does what it is told, until it is told nothing."""
    torch.set_num_threads(1)
    pin_to(core_pair().receiver)
    topics = Topics("back", "there")
    topics.wait()
    ends = {**queues, "topic": (topics, topics)}
    node = tb.Node("echo")
    node.create_service("echo", callback=lambda data: data, mode="sync")
    threading.Thread(target=node.spin, daemon=True).start()
    link.send("ready")
    while (told := link.recv()) is not None:
        verb, way, item, count = told
        there, back = ends[way]
        if verb == "echo":
            for _ in range(count):
                back.put(there.get())
        elif verb == "put":
            sent = ITEMS[item]()
            for _ in range(count):
                back.put(sent)
            back.put(END)
        elif verb == "get":
            while there.get() != END:
                pass
            link.send("done")
        elif verb == "put_many":
            some = [ITEMS[item]() for _ in range(MANY)]
            for _ in range(count // MANY):
                back.put_many(some)
            back.put(END)
    node.stop()


class Bench:
    def __init__(self, link: Connection, queues: dict[str, tuple[Any, Any]]) -> None:
        self._link = link
        topics = Topics("there", "back")
        topics.wait()
        self._ends: dict[str, tuple[Any, Any]] = {**queues, "topic": (topics, topics)}
        assert link.recv() == "ready"
        self._client = tb.Client("echo")
        self._client.call_sync(0, timeout=PATIENCE)

    def echo(self, way: str, item: str, count: int, pause: float = PAUSE) -> list[int]:
        there, back = self._ends[way]
        self._link.send(("echo", way, item, count))
        times = []
        for _ in range(count):
            sent = ITEMS[item]()
            if pause:
                time.sleep(pause)
            begin = now()
            there.put(sent)
            back.get()
            times.append(now() - begin)
        return times

    def call(self, count: int, pause: float = PAUSE) -> list[int]:
        times = []
        for _ in range(count):
            if pause:
                time.sleep(pause)
            begin = now()
            self._client.call_sync(7, timeout=PATIENCE)
            times.append(now() - begin)
        return times

    def one_way(self, way: str, item: str, count: int) -> list[int]:
        _, back = self._ends[way]
        self._link.send(("put", way, item, count))
        return [per_item(count, lambda: drain(back))]

    def to_a_worker(self, way: str, item: str, count: int) -> list[int]:
        there, _ = self._ends[way]
        self._link.send(("get", way, item, count))
        sent = ITEMS[item]()

        def put_all() -> None:
            for _ in range(count):
                there.put(sent)
            there.put(END)
            self._link.recv()

        return [per_item(count, put_all)]

    def many(self, way: str, item: str, count: int) -> list[int]:
        _, back = self._ends[way]
        self._link.send(("put_many", way, item, count))

        def get_all() -> None:
            while back.get_many(MANY)[-1] != END:
                pass

        return [per_item(count, get_all)]


def drain(queue: Any) -> None:
    while queue.get() != END:
        pass


def per_item(count: int, work: Callable[[], None]) -> int:
    begin = now()
    work()
    return (now() - begin) // count


@contextmanager
def quiet() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


def rows_of(bench: Bench) -> dict[str, Callable[[], list[int]]]:
    """What takes its turn, by row. Each call is one turn, of some 50 ms."""
    rows: dict[str, Callable[[], list[int]]] = {
        "int: topic, there and back": lambda: bench.echo("topic", "int", 40),
        "int: service call": lambda: bench.call(40),
        "int: service call, polled": lambda: bench.call(2_000, pause=0.0),
    }
    for item in ITEMS:
        for way in QUEUES:
            rows[f"{item}: echo, {way}"] = lambda w=way, i=item: bench.echo(w, i, 40)  # type: ignore[misc]
    for item in ("int", "64 B tensor"):
        rows[f"{item}: echo, polled, tensorbus"] = lambda i=item: bench.echo(  # type: ignore[misc]
            "tensorbus", i, 1_000, pause=0.0
        )
    for way in QUEUES:
        rows[f"int: one way, {way}"] = lambda w=way: bench.one_way(w, "int", 2_000)  # type: ignore[misc]
        rows[f"int: to a worker, {way}"] = lambda w=way: bench.to_a_worker(w, "int", 2_000)  # type: ignore[misc]
    if hasattr(tb.Queue, "put_many"):
        rows["int: put_many, get_many, tensorbus"] = lambda: bench.many("tensorbus", "int", 12_800)
    return rows


def main() -> None:
    quick = is_quick(__doc__)
    torch.set_num_threads(1)
    queues = make_queues()
    ours, theirs = fork.Pipe()
    other = fork.Process(target=be_other, args=(theirs, queues), daemon=True)
    other.start()
    pin_to(core_pair().sender)
    bench = Bench(ours, queues)
    with quiet():
        rows = rows_of(bench)
        for turn in rows.values():
            turn()  # warm
        for repetition in range(1 if quick else 3):
            times: dict[str, list[int]] = {row: [] for row in rows}
            for _ in range(2 if quick else 10):
                for row, turn in rows.items():
                    times[row] += turn()
            for row, some in times.items():
                figures = {"p50_ns": statistics.median(some), "p99_ns": percentile(some, 0.99)}
                report(row, repetition, **figures)
    ours.send(None)
    other.join(PATIENCE)
    for there, back in queues.values():
        for queue in (there, back):
            queue.close()


if __name__ == "__main__":
    main()
