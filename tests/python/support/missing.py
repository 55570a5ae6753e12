"""Processes in which libraries are not installed."""

from __future__ import annotations

import importlib.abc
import sys


def without_torch_and_numpy() -> None:
    """Makes this process one in which neither is installed."""

    class Blocker(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
            if name.partition(".")[0] in ("torch", "numpy"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
