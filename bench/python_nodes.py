"""Callbacks of a node: in a thread, in an event loop, plain and `async def`.

Each row is a process that runs a node, and this one, on two cores. `each` is the time for one of so
many small messages that wait already, as a rule: the publisher waits for room, so that none is
lost. A round trip is a message there and a callback's answer back, one at a time, with a pause
before each in which the node falls asleep.

The floor is a process with a `tb.Subscriber` in a `for` loop. With pyzmq installed, a socket pair
with its own asyncio beside it, the same payload.
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Any

import tensorbus as tb
from harness.cores import core_pair, pin_to
from harness.report import is_quick, percentile, report

PATIENCE = 60.0  # seconds; only a failure takes as long
PAUSE = 0.0005
ZMQ = "ipc:///tmp/tensorbus-bench-nodes"

spawn = multiprocessing.get_context("spawn")


def serve_with_a_loop(core: int) -> None:
    pin_to(core)
    with tb.Publisher("pong") as pong, tb.Subscriber("ping", timeout=PATIENCE) as pings:
        for sample in pings:
            if not answered(sample.data, pong):
                return


def serve_with_a_node(core: int, kind: str) -> None:
    pin_to(core)
    node = tb.Node("server", on_error="raise")
    pong = node.create_publisher("pong")

    def plain(message: Any, header: tb.Header) -> None:
        if not answered(message, pong):
            node.stop()

    async def awaited(message: Any, header: tb.Header) -> None:
        plain(message, header)

    callback: Callable[..., Any] = awaited if "async def" in kind else plain
    mode: Any = "sync" if "thread" in kind else "async"
    node.create_subscriber("ping", callback=callback, queue_size=64, mode=mode)
    if mode == "sync":
        with node:
            node.spin()
    else:
        (tb.run if "uvloop" in kind else asyncio.run)(node.run())


def answered(message: Any, pong: tb.Publisher) -> bool:
    """Answers what asks for it (a positive number, and 0); False at the end."""
    if message == "end":
        return False
    if message >= 0:
        pong.publish(message)
    return True


def ask(repetition: int, row: str, serve: Callable[..., None], args: list[Any], few: int) -> None:
    """Times a server in a process of its own."""
    server = spawn.Process(target=serve, args=args, daemon=True)
    server.start()
    options: Any = {"reliable": True, "depth": 64, "timeout": PATIENCE}
    with (
        tb.Publisher("ping", **options) as ping,
        tb.Subscriber("pong", timeout=PATIENCE) as pong,
    ):
        ping.wait_for_subscribers()
        pong.wait_for_publishers()
        each = burst(ping, pong, few)
        times = [round_trip(ping, pong) for _ in range(few // 20)]
        ping.publish("end")
        server.join()
    report(
        row,
        repetition,
        each_ns=each,
        a_second=1e9 / each,
        round_trip_ns=statistics.median(times),
        p99_ns=percentile(times, 0.99),
    )


def burst(ping: tb.Publisher, pong: tb.Subscriber, count: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(count):
        ping.publish(-1)
    ping.publish(0)
    pong.receive()
    return (time.perf_counter_ns() - begin) / count


def round_trip(ping: tb.Publisher, pong: tb.Subscriber) -> float:
    time.sleep(PAUSE)
    begin = time.perf_counter_ns()
    ping.publish(1)
    pong.receive()
    return time.perf_counter_ns() - begin


def serve_zmq(core: int, ready: Event) -> None:
    import zmq.asyncio

    async def main() -> None:
        socket = zmq.asyncio.Context.instance().socket(zmq.PAIR)
        socket.bind(ZMQ)
        ready.set()
        while (message := await socket.recv()) != b"end":
            if message != b"-1":
                await socket.send(message)

    pin_to(core)
    asyncio.run(main())


def ask_zmq(repetition: int, core: int, few: int) -> None:
    import zmq

    ready = spawn.Event()
    server = spawn.Process(target=serve_zmq, args=(core, ready), daemon=True)
    server.start()
    ready.wait(PATIENCE)
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.connect(ZMQ)
        begin = time.perf_counter_ns()
        for _ in range(few):
            socket.send(b"-1")
        socket.send(b"0")
        socket.recv()
        each = (time.perf_counter_ns() - begin) / few
        times = []
        for _ in range(few // 20):
            time.sleep(PAUSE)
            begin = time.perf_counter_ns()
            socket.send(b"1")
            socket.recv()
            times.append(time.perf_counter_ns() - begin)
        socket.send(b"end")
        server.join()
    report(
        "pyzmq, asyncio",
        repetition,
        each_ns=each,
        a_second=1e9 / each,
        round_trip_ns=statistics.median(times),
        p99_ns=percentile(times, 0.99),
    )


KINDS = ["thread", "asyncio, plain", "asyncio, async def"]
if importlib.util.find_spec("uvloop") is not None:
    KINDS += ["uvloop, plain", "uvloop, async def"]


def main() -> None:
    quick = is_quick(__doc__)
    few = 1_000 if quick else 40_000
    here, there = core_pair()
    pin_to(here)
    for repetition in range(1 if quick else 3):
        ask(repetition, "for sample in subscriber", serve_with_a_loop, [there], few)
        for kind in KINDS:
            ask(repetition, f"node, {kind}", serve_with_a_node, [there, kind], few)
        if importlib.util.find_spec("zmq") is not None:
            ask_zmq(repetition, there, few)


if __name__ == "__main__":
    main()
