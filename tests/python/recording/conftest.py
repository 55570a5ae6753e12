"""The commands about recordings."""

from __future__ import annotations

import pytest

from support.screens.commands import Tensorbus, program, run_program


@pytest.fixture
def command() -> tuple[str, ...]:
    """The words of `tensorbus`."""
    return (program(),)


@pytest.fixture
def tensorbus() -> Tensorbus:
    """Runs `tensorbus` with some arguments to its end."""
    return run_program
