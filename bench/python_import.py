"""What `import tensorbus` takes, in a fresh interpreter each time.

The wall time of `python -I -c "import tensorbus"`, beside an interpreter that imports nothing and
one that imports NumPy. `-I` keeps PYTHONPATH out: it is the installed package that is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time

from harness.report import is_quick, report

PROGRAMS = ["pass", "import numpy", "import tensorbus"]


def wall_ns(program: str) -> int:
    begin = time.perf_counter_ns()
    subprocess.run([sys.executable, "-I", "-c", program], check=True)
    return time.perf_counter_ns() - begin


def main() -> None:
    repetitions = 2 if is_quick(__doc__) else 20
    for program in PROGRAMS:  # compiled and in the page cache from here on
        wall_ns(program)
    for repetition in range(repetitions):
        for program in PROGRAMS:
            report(program, repetition, wall_ns=wall_ns(program))


if __name__ == "__main__":
    main()
