"""The command `tensorbus`, of the Python package and in C++, and what it has said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

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

Language = Literal["python", "native"]
LANGUAGES: tuple[Language, ...] = ("python", "native")


def command_in(language: Language) -> tuple[str, ...]:
    """The words of the command: of the Python package, or of the one in C++."""
    if language == "python":
        if not find_spec("typer"):
            pytest.skip("the command in Python needs typer")
        return (sys.executable, "-m", "tensorbus")
    program = BUILT / "tensorbus"
    if not program.exists():
        pytest.skip("the command in C++ was not built: CLI11 is not installed")
    return (str(program),)


def runner(command: Sequence[str]) -> Tensorbus:
    """A function that runs the command with some arguments to its end."""

    def run(*arguments: object) -> Done:
        words = [*command, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        return Done(done.returncode, done.stdout, done.stderr)

    return run
