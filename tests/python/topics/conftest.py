"""What tests of topics share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from support.private_pages import private_bytes


@pytest.fixture
def nothing_stays_private() -> Iterator[None]:
    """No page that the test has written to outlives what it received."""
    yield
    gc.collect()
    assert private_bytes() == 0
