"""The programs of the pages in docs/tasks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.programs.cpp_programs import build
from support.repository import ROOT

PAGES = ROOT / "docs/tasks"
# What a person waits for is not enough for a machine that does much else.
PATIENT = {"timeout=5)": "timeout=60)", "seconds(5)": "seconds(60)", "seconds(10)": "seconds(60)"}
PATIENT |= {"range(100)": "range(1000)", "PATIENCE = 10.0": "PATIENCE = 600.0"}
# Each worker imports PyTorch, which takes most of the time.
PATIENT |= {"WORKERS = 2": "WORKERS = 1"}
# A stopped worker is killed by the test, and not by the pool.
PATIENT |= {'"run_timeout": 30.0': '"run_timeout": 600.0'}
# What a C++ program writes into a pipe is seen at once, and not when there is much of it.
PATIENT |= {r"<< '\n'": "<< std::endl"}
# So that the learner does not end before both actors have begun.
PATIENT |= {"version in range(20):": "version in (weights.wait_for_subscribers(2), range(20))[1]:"}
# Then the worker that is killed is the one that has its model, and does not start any more.
PATIENT |= {"workers=2, initializer": "workers=1, initializer"}
PROGRAM = re.compile(r"^```\w+\n(?:#|//) ([\w.]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def write_programs(page: str, folder: Path) -> list[str]:
    """Those whose first line is a comment that names their file."""
    programs = dict(PROGRAM.findall((PAGES / f"{page}.md").read_text()))
    for name, text in programs.items():
        for hasty, patient in PATIENT.items():
            text = text.replace(hasty, patient)
        (folder / name).write_text(text)
    return sorted(programs)


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def python(program: Path) -> tuple[str, Path]:
    return sys.executable, program


def built(page: str, program: str, folder: Path) -> Path:
    """A C++ program of a page, built with what getting_started says."""
    write_programs("getting_started", folder)
    write_programs(page, folder)
    lists = folder / "CMakeLists.txt"
    lists.write_text(re.sub(r"\bsubscriber\b", program, lists.read_text()))
    return build(folder, folder / "build") / program
