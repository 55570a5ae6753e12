from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.threads import switching_often


@pytest.fixture
def threads_switch_often() -> Iterator[None]:
    with switching_often():
        yield
