"""What the figures are to be, and whether they are."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from tables import Rows, Table, ratios

Goal = Callable[[Rows], tuple[bool, str]]  # met; what was measured


def latency_goal(row: str) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        floors = rows["line, half a round trip"]["p50_ns"]
        ours = rows[row]["p50_ns"]
        # By how much each repetition is over what its own floor allows.
        over = [a - max(3 * b, b + 350) for a, b in zip(ours, floors, strict=True)]
        limit = max(3 * statistics.median(floors), statistics.median(floors) + 350)
        return statistics.median(over) <= 0, f"{statistics.median(ours):.0f} of {limit:.0f} ns"

    return goal


def copy_goal(floor: str) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        ours = rows["publish() with a copy"]["p50_ns"]
        times = statistics.median(ratios(ours, rows[floor]["p50_ns"]))
        return times <= 1.15, f"{times:.2f} x {floor}"

    return goal


def headers_goal(rows: Rows) -> tuple[bool, str]:
    pairs = zip(rows["public headers"]["receive_ns"], rows["inside"]["receive_ns"], strict=True)
    more = statistics.median(ours - bare for ours, bare in pairs)
    return more < 100, f"{more:.0f} of 100 ns"


def soak_goal(rows: Rows) -> tuple[bool, str]:
    """Descriptors and the arena stay where they are; memory within the noise of 128 KiB."""
    grown = []
    for row, values in rows.items():
        for key, series in values.items():
            slack = 128 * 1024 if key in ("rss_bytes", "pss_bytes") else 0
            if key != "pss_bytes" and series[-1] > series[0] + slack:
                grown.append(f"{row} {key} +{series[-1] - series[0]:.0f}")
    return not grown, ", ".join(grown) or "nothing grew"


def idle_goal(rows: Rows) -> tuple[bool, str]:
    values = {key: statistics.median(series) for key, series in rows["participant"].items()}
    text = (
        f"{values['rss_bytes'] / 2**20:.2f} MiB, "
        f"{values['cpu_ns_per_second'] / 1e3:.1f} us of CPU a second, "
        f"{values['wake_ups_per_second']:.0f} wake-ups"
    )
    # Ten microseconds a second: what reading the clocks costs.
    return values["rss_bytes"] < 3 * 2**20 and values["cpu_ns_per_second"] < 1e4, text


def time_goal(row: str, key: str, limit_ns: float) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        ours = statistics.median(rows[row][key])
        return ours <= limit_ns, f"{ours / 1e3:.2f} of {limit_ns / 1e3:.2f} us"

    return goal


def import_goal(rows: Rows) -> tuple[bool, str]:
    pairs = zip(rows["import tensorbus"]["wall_ns"], rows["pass"]["wall_ns"], strict=True)
    more_ms = statistics.median(ours - bare for ours, bare in pairs) / 1e6
    return more_ms < 60, f"{more_ms:.1f} of 60 ms"


def share_goal(row: str, least: float) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        share = statistics.median(ratios(rows[row]["per_second"], rows["alone"]["per_second"]))
        return share >= least, f"{share:.2f} of what it does alone"

    return goal


def graph_goal(rows: Rows) -> tuple[bool, str]:
    received = sum(sum(values["received"]) for values in rows.values())
    # By its nodes' counters, and by what was sent and has not come: either would do.
    missing = sum(max(*values["dropped"], *values["lost"]) for values in rows.values())
    return missing == 0, f"{missing:.0f} dropped, {received:.0f} received"


def rate_goal(rows: Rows) -> tuple[bool, str]:
    """Where PyTorch has no GPU there is nothing to compare with."""
    times = {
        which: statistics.median(
            ratios(
                rows[f"torch Queue, {which}"]["each_ns"],
                rows[f"tensorbus Queue, {which}"]["each_ns"],
            )
        )
        for which in ("one 24.9 MB", "fresh")
        if f"torch Queue, {which}" in rows
    }
    text = ", ".join(f"{which}: {value:.1f} x" for which, value in times.items())
    return bool(times) and min(times.values()) >= 5, text or "no PyTorch with a GPU"


def size_goal(large: str) -> Goal:
    """Of rows that take turns: what the large one takes more is within a quarter."""

    def goal(rows: Rows) -> tuple[bool, str]:
        if large not in rows:
            return False, "no room for it on this GPU"
        times = statistics.median(ratios(rows[large]["p50_ns"], rows["24.9 MB"]["p50_ns"]))
        return times <= 1.25, f"{times:.2f} x that of 24.9 MB"

    return goal


GOALS: list[tuple[str, str, Goal]] = [
    (
        "polled_latency",
        "24.9 MB loan: p50 <= max(3 x line, line + 350 ns)",
        latency_goal("24.9 MB loan"),
    ),
    (
        "polled_latency",
        "64 B loan: p50 <= max(3 x line, line + 350 ns)",
        latency_goal("64 B loan"),
    ),
    ("cpp_api", "receiving through the public headers: < 100 ns more", headers_goal),
    ("copied_publish", "copy <= 1.15 x memcpy to the heap", copy_goal("memcpy to the heap")),
    ("copied_publish", "copy <= 1.15 x memcpy to a memfd", copy_goal("memcpy to a memfd")),
    ("soak", "no growth over a million messages", soak_goal),
    ("idle", "an idle participant: < 3 MiB, no CPU time", idle_goal),
    (
        "python_latency",
        "Python, 24.9 MB torch loan: p50 < 8 us",
        time_goal("24.9 MB torch loan", "p50_ns", 8_000),
    ),
    ("python_latency", "Python, 64 bytes: p50 < 3 us", time_goal("bytes 64", "p50_ns", 3_000)),
    (
        "python_latency",
        "Python, 100-tensor dict: p50 <= 1.5 us a tensor",
        time_goal("100-tensor dict", "per_tensor_ns", 1_500),
    ),
    ("python_import", "import tensorbus < 60 ms over a bare interpreter", import_goal),
    (
        "python_graph",
        "ten nodes, 300 kB at 100 Hz on two cores: no drop",
        graph_goal,
    ),
    (
        "python_gil",
        "another thread keeps >= 0.9 of its pace beside receive()",
        share_goal("beside receive() that waits", 0.9),
    ),
    (
        "python_gil",
        "another thread keeps >= 0.5 of its pace beside a copy",
        share_goal("beside publish() that copies", 0.5),
    ),
    (
        "cuda_round_trip",
        "GPU, 24.9 MB there and back: p50 < 15 us",
        time_goal("24.9 MB", "p50_ns", 15_000),
    ),
    (
        "python_cuda",
        "GPU, Python, 24.9 MB there and back: p50 < 60 us",
        time_goal("24.9 MB", "p50_ns", 60_000),
    ),
    ("cuda_round_trip", "GPU, 4 GiB as fast as 24.9 MB", size_goal("4 GiB")),
    ("python_cuda", "GPU, Python, 4 GiB as fast as 24.9 MB", size_goal("4 GiB")),
    ("python_cuda_rate", "GPU, Python: >= 5 x torch.multiprocessing.Queue", rate_goal),
]


def goals_table(results: dict[str, Rows]) -> Table:
    table = [["goal", "measured", ""]]
    for bench, title, judge in GOALS:
        if bench in results:
            met, text = judge(results[bench])
            table.append([title, text, "met" if met else "MISSED"])
    return table
