"""Running the command in this process."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from support.screens.commands import Done, Tensorbus, command_in, runner
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


@pytest.fixture
def native() -> Tensorbus:
    """Runs the command that is written in C++."""
    return runner(command_in("native"))


@pytest.fixture(params=["tensorbus", "native"])
def either(request: pytest.FixtureRequest) -> Tensorbus:
    """Runs the command of the Python package, and then the one in C++."""
    run: Tensorbus = request.getfixturevalue(request.param)
    return run
