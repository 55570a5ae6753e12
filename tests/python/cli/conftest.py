"""Running the command in this process."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec

import pytest

from support.harness import PATIENCE
from support.repository import BUILT
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


@pytest.fixture
def native() -> Tensorbus:
    """Runs the command that is written in C++."""
    program = BUILT / "tensorbus"
    if not program.exists():
        pytest.skip("the command in C++ was not built: CLI11 is not installed")

    def run(*arguments: str) -> Done:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=PATIENCE
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(params=["tensorbus", "native"])
def either(request: pytest.FixtureRequest) -> Tensorbus:
    """Runs the command of the Python package, and then the one in C++."""
    run: Tensorbus = request.getfixturevalue(request.param)
    return run
