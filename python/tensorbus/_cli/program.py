"""The program ``tensorbus`` that was installed with this package."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, files


def program() -> str | None:
    """The path of the program; None if the package was built without it (docs/install.md)."""
    try:
        found = files("tensorbus") or []
    except PackageNotFoundError:
        return None
    for file in found:
        if file.name == "tensorbus" and file.parent.name == "bin":
            path = os.path.realpath(str(file.locate()))
            return path if os.access(path, os.X_OK) else None
    return None
