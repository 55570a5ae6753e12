"""Running the command."""

from __future__ import annotations

import pytest

from support.screens.commands import Done, Tensorbus, run_program
from tensorbus._cli.command import main


@pytest.fixture
def tensorbus() -> Tensorbus:
    """Runs the program `tensorbus` with some arguments."""
    return run_program


@pytest.fixture
def in_python(capsys: pytest.CaptureFixture[str]) -> Tensorbus:
    """Runs a command that is in Python, in this process."""
    pytest.importorskip("typer", reason="typer is not installed")

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(arguments)
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run
