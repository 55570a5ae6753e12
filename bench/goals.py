"""What the figures are to be, and whether they are."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from item_goals import ITEM_GOALS
from tables import SAME_GROUP, Rows, Table, ratios

Goal = Callable[[Rows], tuple[bool, str]]  # met; what was measured


def over(rows: Rows, row: str, floor: str, key: str = "p50_ns") -> float:
    """How many times the floor of its own repetition a row takes."""
    return statistics.median(ratios(rows[row][key], rows[floor][key]))


def beyond_line(rows: Rows, row: str) -> float:
    """By how much a row is over what the cache line of its own repetition allows it."""
    floors = rows["line, half a round trip"]["p50_ns"]
    pairs = zip(rows[row]["p50_ns"], floors, strict=True)
    return statistics.median(ours - max(2.5 * line, line + 250) for ours, line in pairs)


def latency_goal(end: str) -> Goal:
    """Of the worst of the rows that end so."""

    def goal(rows: Rows) -> tuple[bool, str]:
        worst = max((row for row in rows if row.endswith(end)), key=lambda r: beyond_line(rows, r))
        ours = statistics.median(rows[worst]["p50_ns"])
        limit = ours - beyond_line(rows, worst)
        return ours <= limit, f"{worst}: {ours:.0f} of {limit:.0f} ns"

    return goal


def floor_goal(end: str, floor: str, limit: float) -> Goal:
    """Of the worst of the rows that end so, in times of a floor, or of its own group's."""

    def goal(rows: Rows) -> tuple[bool, str]:
        def times(row: str) -> float:
            group = row.partition(SAME_GROUP)[0]
            return over(rows, row, group + floor if floor.startswith(SAME_GROUP) else floor)

        worst = max((row for row in rows if row.endswith(end)), key=times)
        name = floor.removeprefix(SAME_GROUP)
        return times(worst) <= limit, f"{worst}: {times(worst):.2f} x {name}"

    return goal


def times_of(rows: Rows, peer: str, group: str) -> float:
    ours = f"{group}{SAME_GROUP}tensorbus loan, polled"
    return over(rows, f"{group}{SAME_GROUP}{peer}", ours)


def faster_goal(peer: str, least: float, group: str = "24.9 MB") -> Goal:
    """How many times as long the peer takes as a polled loan of the same size."""

    def goal(rows: Rows) -> tuple[bool, str]:
        if f"{group}{SAME_GROUP}{peer}" not in rows:
            return False, f"{peer} is absent"
        times = times_of(rows, peer, group)
        return times >= least, f"{times:,.1f} x"

    return goal


def faster_at_all_sizes_goal(peer: str) -> Goal:
    """The same of the size at which it is nearest."""

    def goal(rows: Rows) -> tuple[bool, str]:
        sizes = [row.partition(SAME_GROUP)[0] for row in rows if row.endswith(peer)]
        if peer in rows or not sizes:
            return False, f"{peer} is absent"
        worst = min(sizes, key=lambda size: times_of(rows, peer, size))
        return faster_goal(peer, 1, worst)(rows)[0], f"{worst}: {times_of(rows, peer, worst):.2f} x"

    return goal


def per_second_goal(least: float, begin: str, floor: str = "") -> Goal:
    """Of the fastest row of ours."""

    def goal(rows: Rows) -> tuple[bool, str]:
        ours = {
            row: statistics.median(values["per_second"])
            for row, values in rows.items()
            if row.startswith(begin) and row != floor and "per_second" in values
        }
        best = max(ours, key=ours.__getitem__)
        return ours[best] >= least, f"{best}: {ours[best] / 1e3:,.0f} of {least / 1e3:,.0f} k/s"

    return goal


def fan_out_goal(rows: Rows) -> tuple[bool, str]:
    first, last = rows["1 awake"]["publish_ns"], rows["16 awake"]["publish_ns"]
    each = statistics.median((b - a) / 15 for a, b in zip(first, last, strict=True))
    return each < 60, f"{each:.0f} of 60 ns, from 1 to 16"


def scale_goal(rows: Rows) -> tuple[bool, str]:
    topics = {key: statistics.median(series) for key, series in rows["1000 topics"].items()}
    text = f"{topics['discovery_ns'] / 1e9:.2f} s, {topics['idle_cpu_ns'] / 1e3:.0f} us a second"
    # What reading the clocks costs in two processes.
    return topics["discovery_ns"] < 1e9 and topics["idle_cpu_ns"] < 2e4, text


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
        f"{values['wake_ups_per_second']:.1f} wake-ups"
    )
    # Ten microseconds a second: what reading the clocks costs.
    return values["rss_bytes"] < 3 * 2**20 and values["cpu_ns_per_second"] < 1e4, text


def time_goal(row: str, key: str, limit_ns: float) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        ours = statistics.median(rows[row][key])
        return ours <= limit_ns, f"{ours / 1e3:.2f} of {limit_ns / 1e3:.2f} us"

    return goal


def start_goal(most_ms: int) -> Goal:
    """Every other row takes less than that over a bare interpreter, which begins before it."""

    def goal(rows: Rows) -> tuple[bool, str]:
        bare = rows["pass"]["wall_ns"]
        more = {
            row: statistics.median(
                ours - other for ours, other in zip(values["wall_ns"], bare, strict=True)
            )
            for row, values in rows.items()
            if row.startswith(("tensorbus", "import tensorbus"))
        }
        row = max(more, key=lambda each: more[each])
        return more[row] < most_ms * 1e6, f"{row}: {more[row] / 1e6:.1f} of {most_ms} ms"

    return goal


def share_goal(row: str, least: float) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        if row not in rows:
            return False, f"{row} is absent"
        share = statistics.median(ratios(rows[row]["per_second"], rows["alone"]["per_second"]))
        return share >= least, f"{share:.3f} of what it does alone"

    return goal


def program_goal(least: float, *programs: str) -> Goal:
    """How many times as long PyTorch's module takes, for the worst of these programs."""

    def goal(rows: Rows) -> tuple[bool, str]:
        times = {
            each: over(rows, f"{each}: torch", f"{each}: tensorbus", "each_ns") for each in programs
        }
        worst = min(times, key=times.__getitem__)
        return times[worst] >= least, f"{worst}: {times[worst]:.1f} x"

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
        "C++ polled: p50 <= max(2.5 x line, line + 250 ns)",
        latency_goal(" loan"),
    ),
    (
        "size_latency",
        "C++ polled, any size: p50 <= max(2.5 x line, line + 250 ns)",
        latency_goal(", polled"),
    ),
    (
        "size_latency",
        "C++ asleep, any size: p50 <= 1.25 x futex",
        floor_goal(", asleep", "futex", 1.25),
    ),
    (
        # iceoryx2 has no package for C++ here: see bench/README.md.
        "cpp_peers",
        "C++ polled, any size: faster than iceoryx (Debian's, not iceoryx2) in the same run",
        faster_at_all_sizes_goal("iceoryx (2.x of Debian)"),
    ),
    ("blocking_latency", "C++ asleep: p50 <= 1.25 x futex", floor_goal("asleep", "futex", 1.25)),
    (
        "message_rate",
        "C++, 64 B a second, none lost: >= 5 M",
        per_second_goal(5e6, "", floor="bare ring"),
    ),
    ("fan_out", "each further subscriber that is awake < 60 ns", fan_out_goal),
    ("scale", "1,000 topics: discovery < 1 s, idle CPU 0", scale_goal),
    ("cpp_api", "receiving through the public headers: < 100 ns more", headers_goal),
    (
        "copied_publish",
        "a tensor that is not in a loan, 1 MB and more: <= 1.05 x memcpy to a memfd",
        floor_goal("MB: publish() with a copy", SAME_GROUP + "memcpy to a memfd", 1.05),
    ),
    (
        "copied_publish",
        "the same, until its subscriber has read it: <= 1.05 x memcpy to a memfd and reading that",
        floor_goal(
            "MB, read: publish() with a copy, until it is read",
            SAME_GROUP + "memcpy to a memfd, until it is read",
            1.05,
        ),
    ),
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
    (
        "python_peers",
        "Python, polled, 24.9 MB, loan() too: p50 <= 8 us",
        time_goal("24.9 MB: tensorbus loan, polled", "p50_ns", 8_000),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB: >= 1,000 x faster than pickle over TCP",
        faster_goal("pickle over TCP", 1000),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB: >= 100 x faster than a torch Queue, fresh",
        faster_goal("torch.multiprocessing.Queue, fresh", 100),
    ),
    (
        "python_peers",
        "Python, polled, 24.9 MB: faster than iceoryx2",
        faster_goal("iceoryx2, polled", 1),
    ),
    (
        "python_peers",
        "Python, polled, 64 B: faster than iceoryx2",
        faster_goal("iceoryx2, polled", 1, "64 B"),
    ),
    (
        "python_asyncio",
        "asyncio, uvloop: <= 1.5 x an eventfd in the same loop, bytes",
        floor_goal("64 bytes", SAME_GROUP + "eventfd", 1.5),
    ),
    (
        "python_asyncio",
        "asyncio, uvloop: <= 1.5 x an eventfd in the same loop, tensors",
        floor_goal("torch loan", SAME_GROUP + "eventfd", 1.5),
    ),
    (
        "python_rate",
        "Python, 64 bytes a second, none lost: >= 400 k",
        per_second_goal(4e5, "tensorbus"),
    ),
    *ITEM_GOALS,
    ("python_import", "import tensorbus < 60 ms over a bare interpreter", start_goal(60)),
    ("python_command", "commands < 300 ms over a bare interpreter", start_goal(300)),
    (
        "python_training",
        "a DataLoader with our context, batches let go or kept: >= 5 x as fast as with PyTorch's",
        program_goal(5, "a batch, let go", "a batch, kept"),
    ),
    (
        "python_training",
        "actors and a learner, a server with batches: faster than torch.multiprocessing",
        program_goal(1, "a trajectory", "a request"),
    ),
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
        "python_inspection",
        "a reliable topic keeps >= 0.99 of its rate beside top",
        share_goal("beside top", 0.99),
    ),
    (
        "python_inspection",
        "a reliable topic keeps >= 0.99 of its rate beside view",
        share_goal("beside view", 0.99),
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
