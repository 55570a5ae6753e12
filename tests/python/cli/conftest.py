"""Running the command in this process."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support.screens.commands import Done, Tensorbus
from tensorbus._cli.command import main

collect_ignore_glob = [] if find_spec("typer") else ["*"]


@pytest.fixture
def tensorbus(capsys: pytest.CaptureFixture[str]) -> Tensorbus:
    """Runs `tensorbus` with some arguments."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(arguments)
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run
