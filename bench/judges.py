"""How a figure is judged: functions of the rows of a benchmark, which say whether a goal is met."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from tables import SAME_GROUP, Rows, ratios

# Met, and what was measured; None where it does not apply.
Goal = Callable[[Rows], tuple[bool, str] | None]


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


def start_goal(most_ms: int, kind: str) -> Goal:
    """Every row of a kind takes less than that over a bare interpreter, which begins before it."""

    def goal(rows: Rows) -> tuple[bool, str]:
        bare = rows["pass"]["wall_ns"]
        more = {
            row: statistics.median(
                ours - other for ours, other in zip(values["wall_ns"], bare, strict=True)
            )
            for row, values in rows.items()
            if row.startswith(kind)
        }
        row = max(more, key=lambda each: more[each])
        return more[row] < most_ms * 1e6, f"{row}: {more[row] / 1e6:.1f} of {most_ms} ms"

    return goal


def pages_goal(row: str, **least: float) -> Goal:
    """How many times as long pages of 4 KiB take, for each key (without its unit)."""

    def goal(rows: Rows) -> tuple[bool, str]:
        if "absent" in rows[row]:
            return False, f"{row} are absent"
        times = {key: over(rows, "4 KiB pages", row, f"{key}_ns") for key in least}
        text = ", ".join(f"{key} {value:.1f} x" for key, value in times.items())
        return all(times[key] >= value for key, value in least.items()), text

    return goal


def recording_goal(where: str, least: float) -> Goal:
    """The speed of a recorder, as a part of that of `dd` to the same place in the same run."""

    def goal(rows: Rows) -> tuple[bool, str]:
        share = 1 / over(rows, f"{where}: tensorbus record", f"{where}: dd", "each_ns")
        return share >= least, f"{share:.2f} x dd"

    return goal


def beside_goal(row: str, floor: str, key: str, most: float) -> Goal:
    """How much longer something takes beside something else."""

    def goal(rows: Rows) -> tuple[bool, str]:
        times = over(rows, row, floor, key)
        return times <= most, f"{times:.2f} x"

    return goal


def share_goal(row: str, least: float) -> Goal:
    def goal(rows: Rows) -> tuple[bool, str]:
        if row not in rows:
            return False, f"{row} is absent"
        share = statistics.median(ratios(rows[row]["per_second"], rows["alone"]["per_second"]))
        return share >= least, f"{share:.3f} of what it does alone"

    return goal


def threads_goal(work: str, **least: float) -> Goal:
    """How much faster all threads are than one, by how many there are; `others` for any number."""

    def goal(rows: Rows) -> tuple[bool, str] | None:
        begin = f"{work}{SAME_GROUP}"
        row = next((row for row in rows if row.startswith(begin) and row.endswith(" threads")), "")
        if not row:  # this Python has a GIL
            return None
        pairs = ratios(rows[row]["per_second"], rows[f"{begin}one thread"]["per_second"])
        times, threads = statistics.median(pairs), row.removeprefix(begin)
        wanted = least.get(f"of_{threads.split()[0]}", least["others"])
        return times >= wanted, f"{threads}: {times:.2f} of {wanted:.1f} x one"

    return goal


def call_goal(limit: float, *messages: str, floor: str = "torch loan") -> Goal:
    """Both calls of the worst of these messages, in times of the same calls with another one."""

    def goal(rows: Rows) -> tuple[bool, str]:
        times = {
            f"{message}, {key.removesuffix('_ns')}": over(rows, message, floor, key)
            for message in messages
            for key in rows[message]
        }
        worst = max(times, key=times.__getitem__)
        return times[worst] <= limit, f"{worst}: {times[worst]:.2f} x {floor}"

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
