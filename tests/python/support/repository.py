"""Where the sources are, and what is built of them."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[3]
# The programs of the C++ tests.
BUILT = Path(os.environ.get("TENSORBUS_TEST_BIN_DIR", ROOT / "build/dev/bin"))
