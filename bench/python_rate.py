"""Messages of 64 bytes a second, from one Python process to another, none of them lost.

A reliable publisher, and a subscriber that takes them one by one, or many at a time where it can,
also as rows of an array; what came is counted, and its order checked. Beside it, where installed,
pyzmq over ipc, and the standard library's queue, and bytes through a pipe (`multiprocessing.Pipe`).
"""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tensorbus as tb
from harness.other_process import PATIENCE, other_process
from harness.report import is_quick, report, report_absent

DEPTH = 1024
AT_ONCE = 256  # of receive_many()
HAS_MANY = hasattr(tb.Subscriber, "receive_many")
HAS_ROWS = hasattr(tb.Subscriber, "receive_into")

Send = Callable[[bytes], Any]


def message(number: int) -> bytes:
    return number.to_bytes(64, "little")


def check_all(link: Any, count: int, received: Iterable[bytes]) -> None:
    """Tells when all have come, and that they did."""
    gc.disable()
    expected = 0
    for data in received:
        if int.from_bytes(data, "little") != expected:
            raise RuntimeError(f"{int.from_bytes(data, 'little')} came instead of {expected}")
        expected += 1
        if expected == count:
            break
    link.send(expected)
    link.recv()


def send_all(link: Any, count: int, send: Send) -> float:
    """A second's messages."""
    messages = [message(number) for number in range(count)]
    begin = time.perf_counter()
    for each in messages:
        send(each)
    if link.recv() != count:
        raise RuntimeError("not all have come")
    end = time.perf_counter()
    link.send("end")
    return count / (end - begin)


def of_samples(subscriber: tb.Subscriber) -> Iterator[bytes]:
    for sample in subscriber:
        yield sample.data


def of_batches(subscriber: Any) -> Iterator[bytes]:
    while True:
        for sample in subscriber.receive_many(AT_ONCE):
            yield sample.data


def receive_topic(link: Any, count: int, domain: str, many: bool) -> None:
    with tb.Subscriber("rate", domain=domain, timeout=PATIENCE, depth=DEPTH) as subscriber:
        subscriber.wait_for_publishers(timeout=PATIENCE)
        check_all(link, count, of_batches(subscriber) if many else of_samples(subscriber))


def topic_rate(count: int, many: bool) -> float:
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        other_process(receive_topic, count, domain, many) as link,
        tb.Publisher(
            "rate", domain=domain, reliable=True, depth=DEPTH, timeout=PATIENCE
        ) as publisher,
    ):
        publisher.wait_for_subscribers(timeout=PATIENCE)
        return send_all(link, count, publisher.publish)


def rows_of(first: int, count: int) -> Any:
    """Messages of 64 bytes, each of which begins with its number."""
    rows = np.zeros((count, 8), "uint64")
    rows[:, 0] = np.arange(first, first + count, dtype="uint64")
    return rows


def receive_rows(link: Any, count: int, domain: str) -> None:
    with tb.Subscriber("rate", domain=domain, timeout=PATIENCE, depth=DEPTH) as subscriber:
        subscriber.wait_for_publishers(timeout=PATIENCE)
        gc.disable()
        rows = rows_of(0, DEPTH)
        expected = 0
        while expected < count:
            came = subscriber.receive_into(rows)
            if rows[0, 0] != expected or rows[came - 1, 0] != expected + came - 1:
                raise RuntimeError(f"{rows[0, 0]} came instead of {expected}")
            expected += came
        link.send(expected)
        link.recv()


def rows_rate(count: int) -> float:
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        other_process(receive_rows, count, domain) as link,
        tb.Publisher(
            "rate", domain=domain, reliable=True, depth=DEPTH, timeout=PATIENCE
        ) as publisher,
    ):
        publisher.wait_for_subscribers(timeout=PATIENCE)
        many = [rows_of(first, min(DEPTH, count - first)) for first in range(0, count, DEPTH)]
        begin = time.perf_counter()
        for rows in many:
            publisher.publish_many(rows)
        if link.recv() != count:
            raise RuntimeError("not all have come")
        end = time.perf_counter()
        link.send("end")
        return count / (end - begin)


def receive_zmq(link: Any, count: int, address: str) -> None:
    import zmq

    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.rcvtimeo = int(PATIENCE * 1000)
        socket.bind(address)
        check_all(link, count, iter(socket.recv, None))


def zmq_rate(count: int) -> float:
    import zmq

    with TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as folder:
        address = f"ipc://{Path(folder)}/zmq"
        with (
            other_process(receive_zmq, count, address) as link,
            zmq.Context() as context,
            context.socket(zmq.PUSH) as socket,
        ):
            socket.connect(address)
            return send_all(link, count, socket.send)


def receive_queue(link: Any, count: int, queue: Any) -> None:
    check_all(link, count, iter(queue.get, None))


def queue_rate(count: int) -> float:
    queue: Any = multiprocessing.get_context("fork").Queue(DEPTH)
    with other_process(receive_queue, count, queue) as link:
        return send_all(link, count, queue.put)


def receive_pipe(link: Any, count: int, end: Any) -> None:
    check_all(link, count, iter(end.recv_bytes, None))


def pipe_rate(count: int) -> float:
    reader, writer = multiprocessing.get_context("fork").Pipe(duplex=False)
    with other_process(receive_pipe, count, reader) as link:
        return send_all(link, count, writer.send_bytes)


def main() -> None:
    quick = is_quick(__doc__)
    count = 20_000 if quick else 300_000
    rows: dict[str, Callable[[int], float]] = {
        "tensorbus, for sample in subscriber": lambda count: topic_rate(count, many=False)
    }
    if HAS_MANY:
        rows["tensorbus, receive_many()"] = lambda count: topic_rate(count, many=True)
    if HAS_ROWS:
        rows["tensorbus, rows of an array"] = lambda count: rows_rate(10 * count)
    if importlib.util.find_spec("zmq") is not None:
        rows["pyzmq ipc"] = zmq_rate
    else:
        report_absent("pyzmq ipc", "zmq is not installed")
    rows["pipe"] = pipe_rate
    rows["multiprocessing.Queue"] = lambda count: queue_rate(count // 5)
    for repetition in range(2 if quick else 5):
        for row, measure in rows.items():
            report(row, repetition, per_second=measure(count))


if __name__ == "__main__":
    main()
