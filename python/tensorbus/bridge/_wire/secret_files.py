"""Files with secrets, which only their owner may access."""

from __future__ import annotations

import stat
from pathlib import Path

from tensorbus._base.errors import AccessDenied


def require_private(path: str | Path, what: str = "key") -> None:
    """Checks that only the owner of a file may access it.

    Raises:
        AccessDenied: other users may access the file.
        OSError: the file does not exist.
    """
    if Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise AccessDenied(f"{path}: others may read this {what}; chmod 600 it")
