"""Runs the benchmarks and sets what they measured beside its floors.

    python bench/run.py            everything, about eight minutes
    python bench/run.py --quick    the same with fewer messages, under a minute
    python bench/run.py --only polled_latency,soak
    python bench/run.py --gpu      those that need a GPU, about two minutes

The programs are looked for in TENSORBUS_BENCH_BIN_DIR (scripts/bench builds them and sets it). The
report goes to the terminal and, as report.md, report.json and plots, to build/bench or --out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from goals import goals_table
from peer_tables import peer_tables
from plots import draw
from tables import GPU_TITLES, TITLES, Rows, Table, as_markdown, as_text, table_of

ROOT = Path(__file__).resolve().parent.parent
ALL_TITLES = {**TITLES, **GPU_TITLES}


def command_of(name: str, bin_dir: Path) -> list[str]:
    if name.startswith("python_"):
        return [sys.executable, str(ROOT / "bench" / f"{name}.py")]
    return [str(bin_dir / f"{name}_bench")]


class Failed(Exception):
    """A benchmark ended with an error, which it has told on stderr."""


def run_bench(name: str, bin_dir: Path, quick: bool) -> Rows:
    command = command_of(name, bin_dir) + (["--quick"] if quick else [])
    program = Path(command_of(name, bin_dir)[-1])
    if not program.exists():
        raise Failed(f"{program} is not there: scripts/bench builds it")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1800)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} failed (exit {done.returncode})")
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


def commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:  # no git
        return ""


def machine() -> dict[str, str]:
    return {
        "version": f"{first_line(str(ROOT / 'VERSION'))} ({commit() or 'no git'})",
        "cpu": first_line("/proc/cpuinfo", "model name"),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "kernel": platform.release(),
        "clocksource": first_line(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
        "virtual": "yes" if " hypervisor " in first_line("/proc/cpuinfo", "flags") else "no",
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def gpu() -> dict[str, str]:
    """The first GPU, and what is installed for it."""
    from tensorbus import doctor

    found = doctor.examine()
    driver = found.cuda.driver_version or found.cuda.driver.why_not or "?"
    names = [f"{each.name}, {each.memory_bytes >> 30} GiB" for each in found.cuda.devices]
    return {
        "gpu": "; ".join(names) or "none",
        "cuda": driver,
        "torch": found.versions.torch or "none",
        "stand-in": os.environ.get("TENSORBUS_CUDA_DRIVER", "no"),
    }


def tables_of(results: dict[str, Rows]) -> list[tuple[str, Table]]:
    tables: list[tuple[str, Table]] = []
    for name, rows in results.items():
        if name == "python_peers":
            tables += peer_tables(ALL_TITLES[name], rows)
        else:
            tables.append((ALL_TITLES[name], table_of(name, rows)))
    goals = goals_table(results)
    return tables + ([("Goals", goals)] if len(goals) > 1 else [])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer messages, under a minute")
    parser.add_argument("--gpu", action="store_true", help="those that need a GPU")
    parser.add_argument("--only", default="", help="names of benchmarks, with commas between them")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument(
        "--bin-dir",
        type=Path,
        default=Path(os.environ.get("TENSORBUS_BENCH_BIN_DIR", ROOT / "build/release/bin")),
    )
    arguments = parser.parse_args()
    benches = list(GPU_TITLES if arguments.gpu else TITLES)
    arguments.benches = arguments.only.split(",") if arguments.only else benches
    for name in arguments.benches:
        if name not in benches:
            parser.error(f"--only: {name} is none of {', '.join(benches)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    described: dict[str, Any] = {**machine(), **(gpu() if arguments.gpu else {})}
    results: dict[str, Rows] = {}
    failed: list[str] = []
    begin = time.monotonic()
    for i, name in enumerate(arguments.benches, 1):
        at = f"{time.monotonic() - begin:.0f} s, {i} of {len(arguments.benches)}"
        print(f"-- {at}: {ALL_TITLES[name]}", file=sys.stderr, flush=True)
        try:
            results[name] = run_bench(name, arguments.bin_dir, arguments.quick)
        except Failed as error:
            failed.append(str(error))
        except KeyboardInterrupt:  # what was measured until now is reported
            failed.append(f"interrupted at {name}")
            break
    described["took"] = f"{time.monotonic() - begin:.0f} s{', --quick' * arguments.quick}"
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
    drawn = draw(results, arguments.out)
    print(f"\n{arguments.out}/" + ", ".join(["report.md", "report.json", *drawn]))
    if failed:
        sys.exit("error: " + "; ".join(failed))


if __name__ == "__main__":
    main()
