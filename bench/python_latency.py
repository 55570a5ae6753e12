"""One way from one Python process to another, the receiver polling.

From just before `publish()` to the moment at which the receiver has the object: `sample.data` has
been evaluated, the torch tensor is there. Beside it a 64-bit word in shared memory, written and
polled in Python: the least that Python can do.

Both ends read `time.perf_counter_ns`, which is CLOCK_MONOTONIC and one clock for all processes. It
is read three times on the way and nothing is subtracted for it; a row says what it costs. The
garbage collector is off, and what there was before is frozen.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import numpy as np
import torch

import tensorbus as tb
from harness.report import is_quick, percentile, report
from harness.two_processes import ACKED, SENT, STAMPS, TwoProcesses

IMAGE = (1920, 1080, 3)  # of float32: 24.9 MB
LAYERS = {f"layer{i}": torch.full((64,), float(i)) for i in range(100)}
TEXT, PAGE = bytes(64), bytes(4096)
FIELDS = {"id": 7, "name": "x"}

now = time.perf_counter_ns


@dataclass(frozen=True)
class Pace:
    """How one row sends: one message at a time, so that it is latency that is measured."""

    messages: int
    pause_ns: int = 2_000  # from "the receiver has dropped the last one" to the next

    @property
    def warm_up(self) -> int:
        return self.messages // 10

    @property
    def last(self) -> int:
        return self.warm_up + self.messages

    def pause_before(self, message: int) -> int:
        """Spread out, so that no period of the machine's falls in step with ours."""
        return self.pause_ns + message % 13 * (self.pause_ns // 16)


@dataclass(frozen=True)
class Row:
    name: str
    prepare: Callable[[tb.Publisher], Any]  # off the path
    is_whole: Callable[[Any], bool]  # of what arrived
    tensors: int = 1
    spin: float | None = None  # seconds; receive() spins, not a loop around try_receive()


ROWS = [
    Row(
        "24.9 MB torch loan",
        lambda publisher: publisher.loan(IMAGE, dtype=torch.float32),
        lambda data: isinstance(data, torch.Tensor) and data.shape == IMAGE,
    ),
    Row(
        "24.9 MB torch loan, receive()",
        lambda publisher: publisher.loan(IMAGE, dtype=torch.float32),
        lambda data: isinstance(data, torch.Tensor) and data.shape == IMAGE,
        spin=10,
    ),
    Row(
        "64 B torch loan",
        lambda publisher: publisher.loan(64, dtype=torch.uint8),
        lambda data: isinstance(data, torch.Tensor) and data.shape == (64,),
    ),
    Row(
        "24.9 MB numpy loan",
        lambda publisher: publisher.loan(IMAGE, dtype=np.float32),
        lambda data: isinstance(data, np.ndarray) and data.shape == IMAGE,
    ),
    Row(
        "100-tensor dict",
        lambda _: LAYERS,
        lambda data: all(data[name].equal(layer) for name, layer in LAYERS.items()),
        tensors=len(LAYERS),
    ),
    Row("bytes 64", lambda _: TEXT, TEXT.__eq__),
    Row("bytes 4096", lambda _: PAGE, PAGE.__eq__),
    Row("small dict", lambda _: FIELDS, FIELDS.__eq__),
]

Send = tuple[Callable[[], Any], Callable[[Any], object]]  # prepare; publish what it made
Take = Callable[[int], tuple[int, int]]  # when the message was found, when its object was there


def send_paced(both: TwoProcesses, pace: Pace, send: Send) -> list[tuple[int, int]]:
    """The sender's half of a row: when each publish() began and when it returned."""
    prepare, publish = send
    words = both.words
    times = []
    both.meet()
    for message in range(1, pace.last + 1):
        prepared = prepare()
        until = now() + pace.pause_before(message)
        while now() < until:
            pass
        begin = now()
        publish(prepared)
        times.append((begin, now()))
        while words[ACKED] != message:
            pass
        del prepared
    both.meet()
    return times


def receive_paced(both: TwoProcesses, pace: Pace, take: Take) -> None:
    """The receiver's half: leaves its times where the sender finds them."""
    words = both.words
    words[ACKED] = 0
    both.meet()
    for message in range(1, pace.last + 1):
        found, there = take(message)
        words[STAMPS + 2 * message] = found
        words[STAMPS + 2 * message + 1] = there
        words[ACKED] = message
    both.meet()


def measure(both: TwoProcesses, pace: Pace, end: Send | Take) -> dict[str, float] | None:
    """Both halves of a row; the sender gets the figures."""
    if not isinstance(end, tuple):
        receive_paced(both, pace, end)
        return None
    sent = send_paced(both, pace, end)[pace.warm_up :]
    stamps = both.words[STAMPS + 2 * (pace.warm_up + 1) : STAMPS + 2 * (pace.last + 1)].tolist()
    found, there = stamps[::2], stamps[1::2]
    one_way = [after - begin for (begin, _), after in zip(sent, there, strict=True)]
    return {
        "p50_ns": percentile(one_way, 0.5),
        "p99_ns": percentile(one_way, 0.99),
        "publish_ns": median(end - begin for begin, end in sent),
        "receive_ns": median(after - before for before, after in zip(found, there, strict=True)),
    }


def end_of_line(both: TwoProcesses) -> Send | Take:
    """Of the floor: a word, written and polled."""
    words = both.words

    def take(message: int) -> tuple[int, int]:
        while words[SENT] != message:
            pass
        there = now()
        return there, there

    return (count(1).__next__, partial(words.__setitem__, SENT)) if both.is_sender else take


def end_of_bus(both: TwoProcesses, row: Row, stack: ExitStack) -> Send | Take:
    if both.is_sender:
        publisher = stack.enter_context(tb.Publisher(row.name, domain=both.domain))
        if not publisher.wait_for_subscribers(timeout=30):
            raise RuntimeError("no subscriber came")
        return partial(row.prepare, publisher), publisher.publish

    subscriber = stack.enter_context(
        tb.Subscriber(row.name, domain=both.domain, spin=row.spin or 0)
    )
    try_receive, receive = subscriber.try_receive, subscriber.receive

    def checked(message: int, data: object) -> None:
        if message == 1 and not row.is_whole(data):
            raise RuntimeError(f"{row.name}: this is not what was sent: {data!r}")

    def take_polled(message: int) -> tuple[int, int]:
        while (sample := try_receive()) is None:
            pass
        found = now()
        data = sample.data
        there = now()
        checked(message, data)
        return found, there

    def take_received(message: int) -> tuple[int, int]:
        sample = receive(10)
        found = now()
        data = sample.data
        there = now()
        checked(message, data)
        return found, there

    return take_polled if row.spin is None else take_received


def report_clock(repetition: int) -> None:
    """What reading the clock costs: two readings, one behind the other."""
    costs = [-now() + now() for _ in range(10_000)]
    p50, p99 = percentile(costs, 0.5), percentile(costs, 0.99)
    report("perf_counter_ns()", repetition, p50_ns=p50, p99_ns=p99)


def report_row(row: Row, repetition: int, values: dict[str, float]) -> None:
    if row.tensors > 1:
        values = {**values, "per_tensor_ns": values["p50_ns"] / row.tensors}
    report(row.name, repetition, **values)


def main() -> None:
    quick = is_quick(__doc__)
    pace = Pace(messages=500 if quick else 10_000)
    with TwoProcesses(stamps=2 * (pace.last + 1)) as both, ExitStack() as stack:
        ends = [end_of_bus(both, row, stack) for row in ROWS]
        gc.collect()
        gc.freeze()
        gc.disable()
        for repetition in range(2 if quick else 5):
            line = measure(both, pace, end_of_line(both))
            if line is not None:
                del line["receive_ns"]  # nothing is unpacked there
                report("line, polled in Python", repetition, **line)
                report_clock(repetition)
            for row, end in zip(ROWS, ends, strict=True):
                fewer = Pace(messages=pace.messages // 10 if row.tensors > 1 else pace.messages)
                values = measure(both, fewer, end)
                if values is not None:
                    report_row(row, repetition, values)


if __name__ == "__main__":
    main()
