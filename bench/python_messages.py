"""What a message of everyday parts takes beyond the lone tensor: publish(), and receive() and data.

One process has both ends, so that each call is timed by itself and nothing waits. The rows take
short turns: a ratio is of turns that lie beside each other. Loans are made, and what was received
is let go, outside of the measured time. The garbage collector is off.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import tensorbus as tb
from harness.report import is_quick, report

now = time.perf_counter_ns

PIXELS = (480, 640, 3)
LAYERS = {f"layer{i}": torch.full((64,), float(i)) for i in range(100)}
EACH_TURN = 50


@dataclass(frozen=True)
class Row:
    name: str
    make: Callable[[tb.Publisher[Any]], Any]  # the message, outside of the measured time
    type: Any = None
    tensors: int = 1


def loan(publisher: tb.Publisher[Any], *shape: int) -> Any:
    return publisher.loan(shape or PIXELS, dtype=torch.uint8)


def array_loan(publisher: tb.Publisher[Any]) -> Any:
    return publisher.loan(PIXELS, dtype=np.uint8)


SMALL_TENSOR, SMALL_ARRAY = torch.ones(64), np.ones(64, np.float32)

ROWS = [
    Row("torch loan", loan),
    Row("{id, image}", lambda publisher: {"id": 7, "image": loan(publisher)}),
    Row("(image, int)", lambda publisher: (loan(publisher), 7)),
    Row("list of 3 loans", lambda publisher: [loan(publisher) for _ in range(3)]),
    Row(
        "nested dict",
        lambda publisher: {"stamp": {"sec": 1, "frame": "map"}, "image": loan(publisher)},
    ),
    Row(
        "TensorMessage",
        lambda publisher: tb.TensorMessage(loan(publisher), name="x"),
        tb.TensorMessage,
    ),
    Row("ImageMessage", lambda publisher: tb.ImageMessage(array_loan(publisher)), tb.ImageMessage),
    Row("numpy loan", array_loan),
    Row("torch tensor, 256 B", lambda _: SMALL_TENSOR),
    Row("numpy array, 256 B", lambda _: SMALL_ARRAY),
    Row("4-D torch loan", lambda publisher: loan(publisher, 2, 240, 640, 3)),
    Row("5-D torch loan", lambda publisher: loan(publisher, 2, 2, 120, 640, 3)),
    Row("100 tensors", lambda _: LAYERS, tensors=len(LAYERS)),
]


class Ends:
    """Both ends of one row's topic."""

    def __init__(self, row: Row, domain: str, stack: ExitStack) -> None:
        self.row = row
        self._publisher = stack.enter_context(tb.Publisher(row.name, row.type, domain=domain))
        self._subscriber = stack.enter_context(tb.Subscriber(row.name, row.type, domain=domain))
        if not self._publisher.wait_for_subscribers(timeout=30):
            raise RuntimeError("the subscriber did not come")

    def turn(self, count: int) -> tuple[float, float]:
        """The medians of a few messages, in nanoseconds of one call."""
        make, publisher = self.row.make, self._publisher
        publish, receive = publisher.publish, self._subscriber.receive
        sent, received = [], []
        for _ in range(count):
            message = make(publisher)
            begin = now()
            publish(message)
            published = now()
            sample = receive(10)
            data = sample.data
            received.append(now() - published)
            sent.append(published - begin)
            del message, data, sample
        return median(sent), median(received)


def loans(end: Ends, dtype: Any, count: int) -> float:
    """The median of publisher.loan()."""
    publisher, times = end._publisher, []
    for _ in range(count):
        begin = now()
        made = publisher.loan(PIXELS, dtype)
        times.append(now() - begin)
        del made
    return median(times)


def main() -> None:
    quick = is_quick(__doc__)
    turns = 10 if quick else 60
    torch.set_num_threads(1)
    with (
        TemporaryDirectory(prefix="tensorbus-bench-", ignore_cleanup_errors=True) as domain,
        ExitStack() as stack,
    ):
        ends = [Ends(row, domain, stack) for row in ROWS]
        for end in ends:
            end.turn(EACH_TURN)
        gc.collect()
        gc.freeze()
        gc.disable()
        for repetition in range(2 if quick else 5):
            measured: dict[str, list[tuple[float, float]]] = {row.name: [] for row in ROWS}
            made: dict[str, list[float]] = {"torch": [], "numpy": []}
            for _ in range(turns):
                for end in ends:
                    count = EACH_TURN if end.row.tensors == 1 else EACH_TURN // 5
                    measured[end.row.name].append(end.turn(count))
                made["torch"].append(loans(ends[0], torch.uint8, EACH_TURN))
                made["numpy"].append(loans(ends[0], np.uint8, EACH_TURN))
            for row in ROWS:
                publish, receive = (
                    median(turn[way] for turn in measured[row.name]) / row.tensors for way in (0, 1)
                )
                report(row.name, repetition, publish_ns=publish, receive_ns=receive)
            for library, times in made.items():
                report(f"loan() of {library}", repetition, publish_ns=median(times))


if __name__ == "__main__":
    main()
