"""The command `tensorbus`, and what it has said."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from support.harness import PATIENCE
from support.repository import BUILT


@dataclass
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The lines of --json."""
        assert self.status == 0, self.err
        return [parsed(line) for line in self.out.splitlines()]

    @property
    def row(self) -> dict[str, Any]:
        """The only line of --json."""
        (row,) = self.rows
        return row


def parsed(text: str) -> Any:
    """JSON as a strict parser reads it: without NaN and Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


Tensorbus = Callable[..., Done]


def program() -> str:
    """The program `tensorbus`: the one that was built with the tests, else the installed one."""
    built = BUILT / "tensorbus"
    found = str(built) if built.exists() else shutil.which("tensorbus")
    if found is None:
        pytest.skip("the program tensorbus was not built: CLI11 is not installed")
    return found


def run_program(*arguments: object) -> Done:
    """Runs the program with some arguments to its end."""
    words = [program(), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    return Done(done.returncode, done.stdout, done.stderr)
