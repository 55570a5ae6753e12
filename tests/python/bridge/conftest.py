"""What the tests of bridges share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.bridge.bridges import Machine, two_machines


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, Machine]]:
    """Two machines for the tests of a file that do no harm to bridges."""
    with two_machines(tmp_path_factory.mktemp("pair")) as machines_of_it:
        yield machines_of_it


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of the queue of a test."""
    return str(request.node.name)
