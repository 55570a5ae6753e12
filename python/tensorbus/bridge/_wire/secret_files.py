"""Files that hold a secret, which nobody but their owner may read."""

from __future__ import annotations

import stat
from pathlib import Path

from tensorbus._base.errors import AccessDenied


def require_private(path: str | Path, what: str = "key") -> None:
    """Raises AccessDenied if others than its owner may read a file, OSError if it is not there."""
    if Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise AccessDenied(f"{path}: others may read this {what}; chmod 600 it")
