"""Pipelines of these tests: files in a folder of their own, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.pipelines import Up

collect_ignore_glob = [] if find_spec("typer") else ["*"]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a pipeline file, and programs beside it; `python` runs them."""

    def write(pipeline: str, **programs: str) -> Path:
        for name, text in programs.items():
            (tmp_path / f"{name}.py").write_text(text)
        path = tmp_path / "pipeline.toml"
        path.write_text(pipeline)
        return path

    return write


@pytest.fixture
def up(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., Up]]:
    """Starts `tensorbus up` for a pipeline file, on a domain of its own."""
    monkeypatch.setenv("TENSORBUS_DOMAIN", str(tmp_path / "bus"))
    with ExitStack() as started:

        def start(pipeline: str, *options: str, **programs: str) -> Up:
            return started.enter_context(Up(write(pipeline, **programs), *options))

        yield start
