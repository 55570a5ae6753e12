"""What small items of queues and calls of services are to take, beside their floors."""

from __future__ import annotations

import statistics

from judges import Goal, time_goal
from tables import Rows, ratios


def times_goal(row: str, other: str, limit: float) -> Goal:
    """How many times as long as another row of the same repetition."""

    def goal(rows: Rows) -> tuple[bool, str]:
        times = statistics.median(ratios(rows[row]["p50_ns"], rows[other]["p50_ns"]))
        return times <= limit, f"{times:.2f} x"

    return goal


def many_goal(per_second: float) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        ours = 1e9 / statistics.median(rows["int: put_many, get_many, tensorbus"]["p50_ns"])
        return ours >= per_second, f"{ours:,.0f} a second"

    return goal


TOPIC = "int: topic, there and back"
STANDARD = "multiprocessing"
ITEM_GOALS: list[tuple[str, str, Goal]] = [
    (
        "python_items",
        "echo of an int through two queues, asleep: <= 1.25 x a topic there and back",
        times_goal("int: echo, tensorbus", TOPIC, 1.25),
    ),
    (
        "python_items",
        "a service call, asleep: <= 1.4 x a topic there and back",
        times_goal("int: service call", TOPIC, 1.4),
    ),
    (
        "python_items",
        "a service call, polled: < 12 us",
        time_goal("int: service call, polled", "p50_ns", 12_000),
    ),
    (
        "python_items",
        "ints a second through a queue: >= 3 x multiprocessing.Queue",
        times_goal("int: one way, tensorbus", f"int: one way, {STANDARD}", 1 / 3),
    ),
    ("python_items", "put_many and get_many: >= 500,000 ints a second", many_goal(5e5)),
    (
        "python_items",
        "tensorbus.multiprocessing.Queue, an int there and back: no slower than the standard one",
        times_goal("int: echo, tensorbus.multiprocessing", f"int: echo, {STANDARD}", 1.05),
    ),
]
