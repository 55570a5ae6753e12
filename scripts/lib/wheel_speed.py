"""Sets the library of a wheel beside the one that this compiler builds for this system.

    python scripts/lib/wheel_speed.py FOLDER             FOLDER has the wheel's libtensorbus.so.0
    python scripts/lib/wheel_speed.py FOLDER --no-times

The same programs run with one and with the other, in turns: the instructions of the hot paths, and
one way of a message to a receiver that polls. Fails if a path takes over 3 % more instructions with
the wheel's library. Times are printed, with how far the turns of one library lie apart: on a busy
machine they say less. The programs are looked for in TENSORBUS_BENCH_BIN_DIR (scripts/wheel_speed
builds them and sets it), modules in bench/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from instructions import counted, with_differences
from tables import as_text

MAX_MORE = 0.03
TURNS = 4


def use(folder: str | None) -> None:
    """For the programs started from now on: this library, or the one they were linked with."""
    if folder is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = folder


def library_of(program: Path) -> str:
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in told.splitlines() if "libtensorbus" in line)
    return str(Path(line.split("=>")[1].split()[0]).resolve())


def compare_instructions(program: Path, folder: str) -> list[str]:
    """Prints both; returns the paths that take too many."""
    counts = []
    for each in (None, folder):
        use(each)
        counts.append(with_differences(counted(program)))
    here, wheel = counts
    table = [["", "this system", "wheel", "change"]]
    table += [[k, str(n), str(wheel[k]), f"{wheel[k] / n - 1:+.1%}"] for k, n in here.items()]
    print(as_text(table))
    return [name for name, count in here.items() if wheel[name] > count * (1 + MAX_MORE)]


def medians(program: Path) -> dict[str, float]:
    told = subprocess.run([program, "--quick"], capture_output=True, text=True, check=True).stdout
    rows: dict[str, list[float]] = {}
    for line in told.splitlines():
        values = json.loads(line)
        if "p50_ns" in values:
            rows.setdefault(values["row"], []).append(values["p50_ns"])
    return {row: statistics.median(values) for row, values in rows.items()}


def compare_times(program: Path, folder: str) -> None:
    turns: list[list[dict[str, float]]] = [[], []]
    for _ in range(TURNS):
        for found, each in zip(turns, (None, folder), strict=True):
            use(each)
            found.append(medians(program))
    table = [["p50, one way, polled", "this system", "wheel", "change", "turns apart"]]
    for row in turns[0][0]:
        here, wheel = ([turn[row] for turn in found] for found in turns)
        apart = max(max(each) / min(each) - 1 for each in (here, wheel))
        change = statistics.median(wheel) / statistics.median(here) - 1
        table.append(
            [
                row,
                *(f"{statistics.median(e):.0f} ns" for e in (here, wheel)),
                f"{change:+.1%}",
                f"{apart:.0%}",
            ]
        )
    print(as_text(table))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="with the libtensorbus.so.0 of a wheel")
    parser.add_argument("--no-times", action="store_true", help="count instructions alone")
    arguments = parser.parse_args()
    programs = Path(os.environ["TENSORBUS_BENCH_BIN_DIR"])
    use(arguments.folder)
    found = library_of(programs / "instructions_bench")
    if Path(found).parent != Path(arguments.folder).resolve():
        sys.exit(f"error: the programs would use {found}")
    too_many = compare_instructions(programs / "instructions_bench", arguments.folder)
    if not arguments.no_times:
        compare_times(programs / "polled_latency_bench", arguments.folder)
    if too_many:
        sys.exit(f"error: over {MAX_MORE:.0%} more than the library of this system: {too_many}")


if __name__ == "__main__":
    main()
