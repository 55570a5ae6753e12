"""The program ``tensorbus`` that was installed with this package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path


def program() -> str | None:
    """The path of the program; None if the package was built without it (docs/install.md)."""
    for path in _places():
        # A folder of the same programs: RECORD names another one after `pip install --target`.
        if os.access(path, os.X_OK) and path.with_name("tensorbus-python").exists():
            return str(path)
    return None


def _places() -> Iterator[Path]:
    yield Path(__file__).parents[2] / "bin/tensorbus"  # pip install --target
    try:
        found = files("tensorbus") or []
    except PackageNotFoundError:
        return
    for file in found:
        if file.name == "tensorbus" and file.parent.name == "bin":
            yield Path(str(file.locate())).resolve()
