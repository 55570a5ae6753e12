"""Ten nodes in a graph, a process each, on two cores: 300 kB arrays at 100 Hz for a minute.

The camera's timer publishes an array. Each other node receives from one or two before it, and for
every array of the first of them publishes one that it computes into a loan. Queues are of ten.

`lost` is what the nodes before it have sent and it has not received, which its counter of what was
dropped should say, too. A latency is from the camera's tick, the array there included, to a node's
callback. Every node is an event loop (`tb.run`) with plain callbacks.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import tensorbus as tb
from harness.cores import core_pair
from harness.report import is_quick, percentile, report

GRAPH: dict[str, list[str]] = {  # a node, and those it receives from
    "camera": [],
    "left": ["camera"],
    "right": ["camera"],
    "depth": ["left", "right"],
    "edges": ["left"],
    "colours": ["right"],
    "objects": ["depth", "edges"],
    "regions": ["depth", "colours"],
    "scene": ["objects", "regions"],
    "recorder": ["scene", "camera"],
}
RATE_HZ = 100
SHAPE = (300, 1000)  # of uint8
PATIENCE = 60.0  # seconds; only a failure takes as long
GRACE = 1.0  # seconds for the last arrays to come through

now = time.perf_counter_ns
spawn = multiprocessing.get_context("spawn")


@dataclass
class Frame(tb.Message, name="bench.Frame"):
    data: np.ndarray[Any, Any]
    begun_ns: int


class Vertex(tb.Node):
    """A node that does as the graph says, until its link is told to end."""

    def __init__(self, name: str, link: Connection) -> None:
        super().__init__(name, on_error="raise")
        self.link = link
        self.latencies_ns: list[int] = []
        self.sent = 0
        self.out = self.create_publisher(f"graph/{name}", Frame)
        first = GRAPH[name][:1]
        self.inputs = [
            self.create_subscriber(
                f"graph/{before}",
                Frame,
                self.hand_on if [before] == first else self.look_at,
                queue_size=10,
            )
            for before in GRAPH[name]
        ]

    def send(self, number: int, begun_ns: int) -> None:
        array = self.out.loan(SHAPE, "uint8")
        array[:] = number % 256
        self.out.publish(Frame(array, begun_ns))
        self.sent += 1

    def hand_on(self, frame: Frame, header: tb.Header) -> None:
        self.latencies_ns.append(now() - frame.begun_ns)
        self.send(int(frame.data.max()) + 1, frame.begun_ns)

    def look_at(self, frame: Frame, header: tb.Header) -> None:
        frame.data.max()

    def tick_until(self, count: int) -> None:
        def tick() -> None:
            if self.sent < count:
                self.send(self.sent, now())
            else:
                timer.cancel()
                self.link.send("done")

        timer = self.create_timer(1 / RATE_HZ, tick)

    def until_told(self, stopped: threading.Event) -> None:
        while not stopped.is_set():
            if self.link.poll(0.2):
                self.link.recv()
                self.stop()
                return

    def figures(self) -> dict[str, float]:
        received = sum(each.receive_count for each in self.inputs)
        dropped = sum(each.dropped_count for each in self.inputs)
        values: dict[str, float] = {"sent": self.sent, "received": received, "dropped": dropped}
        if self.latencies_ns:
            values["p50_ns"] = percentile(self.latencies_ns, 0.5)
            values["p99_ns"] = percentile(self.latencies_ns, 0.99)
        return values


def be(name: str, link: Connection, count: int) -> None:
    """A process: tells when all that receive from it are there, goes on when all are."""
    os.sched_setaffinity(0, set(core_pair()))
    node = Vertex(name, link)
    readers = sum(name in inputs for inputs in GRAPH.values())
    link.send("ready" if node.out.wait_for_subscribers(readers, PATIENCE) else "alone")
    link.recv()
    if name == "camera":
        node.tick_until(count)
    node.spawn_thread(node.until_told)
    tb.run(node.run())
    link.send(node.figures())


def heard(link: Connection, seconds: float = PATIENCE) -> Any:
    if not link.poll(seconds):
        raise TimeoutError("a node says nothing")
    return link.recv()


def main() -> None:
    seconds = 1 if is_quick(__doc__) else 60
    links: dict[str, Connection] = {}
    for name in GRAPH:
        links[name], theirs = spawn.Pipe()
        args = (name, theirs, seconds * RATE_HZ)
        spawn.Process(target=be, args=args, daemon=True).start()
        theirs.close()
    for name, link in links.items():
        if heard(link) != "ready":
            raise TimeoutError(f"{name}: not all that receive from it have come")
    for link in reversed(links.values()):  # the camera last
        link.send("go")
    heard(links["camera"], seconds + PATIENCE)
    time.sleep(GRACE)
    for link in links.values():
        link.send("end")
    figures = {name: heard(link) for name, link in links.items()}
    for name, inputs in GRAPH.items():
        values = figures[name]
        lost = sum(figures[before]["sent"] for before in inputs) - values["received"]
        report(name, 0, **values, lost=lost)


if __name__ == "__main__":
    main()
