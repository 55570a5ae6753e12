"""What a process of the storm writes down: an intent before each step, the outcome after it.

One line and one `write` each, to a file that is opened with O_APPEND: what a killed process leaves
lacks at most its last outcome. The end of the last line may be missing; then the step was not made,
or nobody heard of its outcome.
"""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path
from typing import NamedTuple

PUT, GET, DONE, ATTACH = "put", "get", "done", "attach"
OK, FULL, EMPTY, UNKNOWN, REFUSED = "ok", "full", "empty", "unknown", "refused"
INTENT = "?"  # the outcome of a step that has none yet
WRONG, LEAVES = "wrong", "leaves"  # beside the steps: what must not be; the end of its own will
WORK = "work"  # of a worker of the pool, whose number stands for an item


class Record(NamedTuple):
    """`item` is 0 where there is none; `where` is a queue, or a share."""

    time: int
    what: str
    outcome: str
    where: str
    item: int
    detail: str = ""


class Recorder:
    """Of one process, which has its own file."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(path, flags, 0o600)

    def write(
        self, what: str, outcome: str, where: str = "-", item: int = 0, more: str = ""
    ) -> None:
        line = f"{time.monotonic_ns()} {what} {outcome} {where} {item} {more!r}\n"
        os.write(self._file, line.encode())

    def wrong(self, detail: str, where: str = "-", item: int = 0) -> None:
        self.write(WRONG, WRONG, where, item, detail)


def read(path: Path) -> list[Record]:
    """The whole lines."""
    content = path.read_bytes()
    return [parse(line) for line in content[: content.rfind(b"\n") + 1].decode().splitlines()]


def parse(line: str) -> Record:
    when, what, outcome, where, item, detail = line.split(" ", 5)
    return Record(int(when), what, outcome, where, int(item), ast.literal_eval(detail))


def wrong_end(name: str, code: int) -> Record:
    return Record(time.monotonic_ns(), WRONG, WRONG, name, 0, f"ended with exit code {code}")
