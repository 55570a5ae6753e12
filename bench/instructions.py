"""Counts the instructions of the hot paths, and sets them beside those of bench/results.

    python bench/instructions.py            fails when a path takes over 5 % more than it did
    python bench/instructions.py --update   writes down what they take now

Instructions are not time: of two cores that pass a message on, they say what each does, and
nothing of the cache lines between them. But callgrind counts the same on a busy machine and on an
idle one, so that one per cent can be seen. The figures are of one compiler, and are compared with
those of the same one only.

The program is looked for in TENSORBUS_BENCH_BIN_DIR (scripts/instructions builds it and sets it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tables import as_text

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "bench" / "results" / "instructions.json"
MAX_GROWTH = 0.05
# A batch frees more chunks of a size than the allocator keeps at hand (seven), and where the others
# go depends on when the service thread allocated what: up to a tenth of a call, by chance.
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=127"}

TRIGGER = re.compile(r"^desc: Trigger: Client Request: (.+)$", re.MULTILINE)
TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)


def compiler() -> str:
    """Whose instructions are counted."""
    told = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout
    return f"{told.splitlines()[0]}, {os.uname().machine}"


def counted(program: Path) -> dict[str, int]:
    """Instructions of one call, by the name of the path."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--collect-atstart=no"),
                f"--callgrind-out-file={folder}/counted",
                program,
            ],
            capture_output=True,
            text=True,
            timeout=600,
            env=os.environ | ALLOCATOR,
        )
        if done.returncode != 0:
            sys.exit(f"error: {program} failed under valgrind:\n{done.stderr}")
        dumps = [path.read_text() for path in sorted(Path(folder).iterdir(), key=number_of)]
    calls = json.loads(done.stdout)["calls"]
    return {
        TRIGGER.findall(dump)[0]: round(int(TOTALS.findall(dump)[0]) / calls)
        for dump in dumps
        if TRIGGER.search(dump)
    }


def number_of(dump: Path) -> int:
    """The last one, at the end of the program, has none."""
    return int(dump.suffix.removeprefix(".") or 0)


def with_differences(counts: dict[str, int]) -> dict[str, int]:
    """And what each further subscriber takes of its publisher."""
    counts = dict(counts)
    for interface in ("inside", "headers"):
        one = f"{interface}: publish() of 48 B of fields"
        counts[f"{interface}: each further subscriber"] = round(
            (counts.pop(f"{one} to five") - counts[one]) / 4
        )
    return counts


def table_of(counts: dict[str, int], known: dict[str, int]) -> list[list[str]]:
    table = [["", "instructions", "known", "change"]]
    for name, count in counts.items():
        before = known.get(name)
        change = "new" if before is None else f"{count / before - 1:+.1%}"
        table.append([name, str(count), "" if before is None else str(before), change])
    return table


def grown(counts: dict[str, int], known: dict[str, int]) -> list[str]:
    return [
        name
        for name, count in counts.items()
        if name in known and count > known[name] * (1 + MAX_GROWTH)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="write the counts down")
    update = parser.parse_args().update
    program = Path(os.environ["TENSORBUS_BENCH_BIN_DIR"]) / "instructions_bench"
    counts = with_differences(counted(program))
    found: dict[str, Any] = {"compiler": compiler(), "instructions": counts}
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {"instructions": {}}
    print(as_text(table_of(counts, known["instructions"])))
    if update:
        KNOWN.write_text(json.dumps(found, indent=2) + "\n")
    elif known.get("compiler") != found["compiler"]:
        print(f"\nThe known ones are of {known.get('compiler')}: nothing is compared.")
    elif too_many := grown(counts, known["instructions"]):
        sys.exit(f"error: over {MAX_GROWTH:.0%} more than before: {', '.join(too_many)}")


if __name__ == "__main__":
    main()
