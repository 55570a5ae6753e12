"""Runs CPython's tests of multiprocessing over `tensorbus.multiprocessing`.

    cpython_suite.py METHOD [ARGUMENTS OF unittest]

The tests are those of the running Python (`test._test_multiprocessing`), with another module in
place of `multiprocessing`: it has the names of ours, and where there are none those of the standard
library. Spawned children, and the fork server, import this file as their main module.
"""

from __future__ import annotations

import importlib.util
import multiprocessing.dummy
import multiprocessing.heap
import os
import re
import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorbus.multiprocessing.managers

SUITE = "test._test_multiprocessing"
# It expects the file `popen_spawn_win32.py` in the folder of `multiprocessing`.
LEFT_OUT = {"_TestImportStar": "test_import"}


class OursFirst(ModuleType):
    """What the tests find under the name `multiprocessing`."""

    def __getattr__(self, name: str) -> Any:
        ours = getattr(tensorbus.multiprocessing, name, self)
        return getattr(multiprocessing, name) if ours is self else ours


def load_suite() -> ModuleType:
    """The module of the tests, under its own name."""
    spec = importlib.util.find_spec(SUITE)
    assert spec is not None
    assert spec.origin is not None
    suite = importlib.util.module_from_spec(spec)
    source = re.sub(
        r"^import multiprocessing(\.\w+)?$",
        "import ours_first as multiprocessing",
        Path(spec.origin).read_text(),
        flags=re.MULTILINE,
    )
    sys.modules["ours_first"] = OursFirst("ours_first")
    sys.modules["ours_first"].__file__ = tensorbus.multiprocessing.__file__
    sys.modules[SUITE] = suite
    exec(compile(source, spec.origin, "exec"), suite.__dict__)
    return suite


method = os.environ.setdefault("CPYTHON_SUITE_METHOD", sys.argv[1] if sys.argv[1:] else "spawn")
load_suite().install_tests_in_module_dict(globals(), method)
for name, test in LEFT_OUT.items():
    setattr(globals()[name], test, None)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
