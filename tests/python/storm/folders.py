"""The folder of a storm, whose domain outlives those who use it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_with_domain() -> Iterator[Path]:
    """With the default domain of this process in it. Removed at the end, and by nobody's clean-up:
    each victim that ends would do that.
    """
    folder = Path(tempfile.mkdtemp(prefix="tensorbus-storm-"))
    os.environ["TENSORBUS_DOMAIN"] = str(folder / "domain")
    yield folder
    until = time.monotonic() + 10
    while folder.exists() and time.monotonic() < until:  # who is still there makes its files again
        shutil.rmtree(folder, ignore_errors=True)
