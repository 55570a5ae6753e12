"""Running the command in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("typer", reason="typer is not installed")

from tensorbus._cli.command import main


@dataclass
class Done:
    """What a command has said."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)


Tensorbus = Callable[..., Done]


@pytest.fixture
def tensorbus(capsys: pytest.CaptureFixture[str]) -> Tensorbus:
    """Runs `tensorbus` with some arguments."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(arguments)
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run
