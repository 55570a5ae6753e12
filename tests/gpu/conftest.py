"""The tests that need a GPU: scripts/test --gpu runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.harness import Elsewhere

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips them, and says why, where there is none."""
    ours = [item for item in items if _HERE in item.path.parents]
    if not ours:
        return
    from support.cuda.gpu_tensors import why_no_gpu

    why_not = why_no_gpu()
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if why_not is not None:
            item.add_marker(pytest.mark.skip(reason=why_not))


class _Elsewhere(Elsewhere):
    """PyTorch may warn of whatever it likes on stderr."""

    quietly = False


@pytest.fixture
def elsewhere(tmp_path: Path, domain: str) -> Iterator[Elsewhere]:
    """As everywhere else, but for what the processes say on stderr."""
    processes = _Elsewhere(tmp_path)
    yield processes
    processes.finish()
