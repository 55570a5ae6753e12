"""What a command of `tensorbus` has said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
