"""Runs the benchmarks and sets what they measured beside its floors.

    python bench/run.py            everything, about two minutes
    python bench/run.py --quick    the same with fewer messages, under one minute
    python bench/run.py --only polled_latency,soak

The programs are looked for in TENSORBUS_BENCH_BIN_DIR (scripts/bench builds them and sets it). The
report goes to the terminal and, as report.md and report.json, to build/bench or --out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BENCHES = [
    "polled_latency",
    "blocking_latency",
    "copied_publish",
    "message_rate",
    "soak",
    "idle",
]
FLOORS = {
    "polled_latency": "line, half a round trip",
    "blocking_latency": "futex",
    "copied_publish": "memcpy to a memfd",
    "message_rate": "bare ring",
}
TITLES = {
    "polled_latency": "One way, the receiver polls",
    "blocking_latency": "One way, the receiver sleeps",
    "copied_publish": "publish() of 24.9 MB that are not in a loan",
    "message_rate": "Messages of 64 B a second, none lost",
    "soak": "A million messages of 64 B: before (0: after the warm-up) and after",
    "idle": "An idle participant, over the same process without one",
}

# row -> key -> one value for each repetition
Rows = dict[str, dict[str, list[float]]]
Table = list[list[str]]


def run_bench(name: str, bin_dir: Path, quick: bool) -> Rows:
    command = [str(bin_dir / f"{name}_bench"), *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed (exit {done.returncode})")
    rows: Rows = {}
    for line in done.stdout.splitlines():
        values = json.loads(line)
        row = rows.setdefault(values.pop("row"), {})
        del values["repetition"]
        for key, value in values.items():
            row.setdefault(key, []).append(value)
    return rows


def first_line(path: str, begin: str = "") -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "?"
    return next((line.removeprefix(begin).strip(" \t:") for line in lines if begin in line), "?")


def machine() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
    )
    return {
        "version": f"{first_line(str(ROOT / 'VERSION'))} ({commit.stdout.strip() or 'no git'})",
        "cpu": first_line("/proc/cpuinfo", "model name"),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "kernel": platform.release(),
        "clocksource": first_line(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "virtual": "yes" if " hypervisor " in first_line("/proc/cpuinfo", "flags") else "no",
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def number(key: str, value: float) -> str:
    if key.endswith("_ns"):
        if value >= 1e6:
            return f"{value / 1e6:.2f} ms"
        return f"{value / 1e3:.1f} us" if value >= 1e4 else f"{value:.0f} ns"
    if key.endswith("_bytes"):
        return f"{value / 1024:,.0f} KiB"
    if key == "per_second":
        return f"{value / 1e6:.2f} M"
    return f"{value:,.0f}" if value == int(value) else f"{value:.1f}"


def ratios(row: list[float], floor: list[float]) -> list[float]:
    """One for each repetition: what was measured side by side is compared."""
    return [a / b for a, b in zip(row, floor, strict=True)]


def timed_table(name: str, rows: Rows) -> Table:
    keys = list(next(iter(rows.values())))
    main = keys[0]
    floor = rows[FLOORS[name]][main]
    table = [["", *(k.removesuffix("_ns").replace("_", " ") for k in keys), "spread", "x floor"]]
    for row, values in rows.items():
        medians = [number(key, statistics.median(values[key])) for key in keys]
        spread = f"{number(main, min(values[main]))} - {number(main, max(values[main]))}"
        times = statistics.median(ratios(values[main], floor))
        table.append([row, *medians, spread, f"{times:.2f}"])
    return table


def soak_table(rows: Rows) -> Table:
    table = [["", "before", "after"]]
    for row, values in rows.items():
        for key, series in values.items():
            label = f"{row}: {key.removesuffix('_bytes').replace('_', ' ')}"
            table.append([label, number(key, series[0]), number(key, series[-1])])
    return table


def idle_table(rows: Rows) -> Table:
    table = [["", "rss", "pss", "cpu a second", "wake-ups a second"]]
    for row, values in rows.items():
        median = {key: statistics.median(series) for key, series in values.items()}
        table.append(
            [
                row,
                number("rss_bytes", median["rss_bytes"]),
                number("pss_bytes", median["pss_bytes"]),
                number("cpu_ns", median["cpu_ns_per_second"]),
                number("", median["wake_ups_per_second"]),
            ]
        )
    return table


def latency_goal(row: str) -> Callable[[Rows], tuple[bool, str]]:
    def goal(rows: Rows) -> tuple[bool, str]:
        floors = rows["line, half a round trip"]["p50_ns"]
        ours = rows[row]["p50_ns"]
        # By how much each repetition is over what its own floor allows.
        over = [a - max(3 * b, b + 350) for a, b in zip(ours, floors, strict=True)]
        limit = max(3 * statistics.median(floors), statistics.median(floors) + 350)
        return statistics.median(over) <= 0, f"{statistics.median(ours):.0f} of {limit:.0f} ns"

    return goal


def copy_goal(floor: str) -> Callable[[Rows], tuple[bool, str]]:
    def goal(rows: Rows) -> tuple[bool, str]:
        ours = rows["publish() with a copy"]["p50_ns"]
        times = statistics.median(ratios(ours, rows[floor]["p50_ns"]))
        return times <= 1.15, f"{times:.2f} x {floor}"

    return goal


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


GOALS: list[tuple[str, str, Callable[[Rows], tuple[bool, str]]]] = [
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
    ("copied_publish", "copy <= 1.15 x memcpy to the heap", copy_goal("memcpy to the heap")),
    ("copied_publish", "copy <= 1.15 x memcpy to a memfd", copy_goal("memcpy to a memfd")),
    ("soak", "no growth over a million messages", soak_goal),
    ("idle", "an idle participant: < 3 MiB, no CPU time", idle_goal),
]


def goals_table(results: dict[str, Rows]) -> Table:
    table = [["goal", "measured", ""]]
    for bench, title, judge in GOALS:
        if bench in results:
            met, text = judge(results[bench])
            table.append([title, text, "met" if met else "MISSED"])
    return table


def as_text(table: Table) -> str:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_markdown(table: Table) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in table]
    rule = "|---|" + "---:|" * (len(table[0]) - 1)
    return "\n".join([head, rule, *body])


def tables_of(results: dict[str, Rows]) -> list[tuple[str, Table]]:
    makers: dict[str, Callable[[Rows], Table]] = {"soak": soak_table, "idle": idle_table}
    tables = []
    for name, rows in results.items():
        make = makers.get(name)
        tables.append((TITLES[name], make(rows) if make else timed_table(name, rows)))
    goals = goals_table(results)
    return tables + ([("Goals", goals)] if len(goals) > 1 else [])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer messages, under one minute")
    parser.add_argument("--only", default="", help="names of benchmarks, with commas between them")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument(
        "--bin-dir",
        type=Path,
        default=Path(os.environ.get("TENSORBUS_BENCH_BIN_DIR", ROOT / "build/release/bin")),
    )
    arguments = parser.parse_args()
    arguments.benches = arguments.only.split(",") if arguments.only else BENCHES
    for name in arguments.benches:
        if name not in BENCHES:
            parser.error(f"--only: {name} is none of {', '.join(BENCHES)}")
        if not (arguments.bin_dir / f"{name}_bench").exists():
            parser.error(f"{arguments.bin_dir} has no {name}_bench: scripts/bench builds it")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    described: dict[str, Any] = machine()
    results: dict[str, Rows] = {}
    for name in arguments.benches:
        print(f"-- {TITLES[name]}", file=sys.stderr, flush=True)
        results[name] = run_bench(name, arguments.bin_dir, arguments.quick)
    described["load after"] = " ".join(f"{load:.1f}" for load in os.getloadavg())

    text = [as_text([[key, value] for key, value in described.items()])]
    markdown = [
        "# Benchmarks",
        "Medians of the repetitions; spread: the least and the greatest of them.",
        as_markdown([["machine", ""], *([key, value] for key, value in described.items())]),
    ]
    for title, table in tables_of(results):
        text += [title, as_text(table)]
        markdown += [f"## {title}", as_markdown(table)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.md").write_text("\n\n".join(markdown) + "\n")
    (arguments.out / "report.json").write_text(
        json.dumps({"machine": described, "results": results}, indent=1) + "\n"
    )
    print("\n\n".join(text))
    print(f"\n{arguments.out}/report.md, report.json")


if __name__ == "__main__":
    main()
