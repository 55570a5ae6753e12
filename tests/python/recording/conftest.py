"""The commands about recordings: of the Python package, and in C++."""

from __future__ import annotations

import pytest

from support.screens.commands import LANGUAGES, Tensorbus, command_in, runner


@pytest.fixture(params=LANGUAGES)
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The words of `tensorbus`, in one language after the other."""
    return command_in(request.param)


@pytest.fixture
def tensorbus(command: tuple[str, ...]) -> Tensorbus:
    """Runs `tensorbus` with some arguments to its end."""
    return runner(command)
