"""What a command of `tensorbus` takes to start and end, on a domain with one topic.

The wall time of the whole process, beside an interpreter that does nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tensorbus as tb
from harness.report import is_quick, report

BARE = "pass"
COMMANDS = [
    "topic list",
    "topic info topic",
    "topic echo topic --count 1",
    "node list",
    "param list",
    "memory",
    "inspect --json",
    "topic --help",
    "--help",
]
IN_PYTHON = ["wait topic", "queue keep --help", "doctor --json"]


def wall_ns(*command: str) -> int:
    begin = time.perf_counter_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter_ns() - begin


def main() -> None:
    repetitions = 2 if is_quick(__doc__) else 20
    program = str(Path(sys.executable).with_name("tensorbus"))
    rows = {BARE: (sys.executable, "-I", "-c", BARE)}
    rows |= {f"tensorbus {each}": (program, *each.split()) for each in COMMANDS}
    rows |= {f"in Python: tensorbus {each}": (program, *each.split()) for each in IN_PYTHON}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a command's files
        os.environ["TENSORBUS_DOMAIN"] = f"{folder}/domain"
        with tb.Publisher("topic", history=1) as publisher:
            publisher.publish(7)
            for arguments in rows.values():  # compiled and in the page cache from here on
                wall_ns(*arguments)
            for repetition in range(repetitions):
                for row, arguments in rows.items():
                    report(row, repetition, wall_ns=wall_ns(*arguments))


if __name__ == "__main__":
    main()
