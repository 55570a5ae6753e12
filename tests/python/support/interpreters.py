"""What the interpreter that runs the tests is."""

from __future__ import annotations

import sys
import sysconfig

import pytest

IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

# Of CPython itself, mended in 3.14.
_IS_3_13T = IS_FREE_THREADED and sys.version_info < (3, 14)
classes_are_freed = pytest.mark.skipif(
    _IS_3_13T, reason="CPython 3.13t frees no class and no function once it has had a thread"
)
pickle_is_safe = pytest.mark.skipif(
    _IS_3_13T, reason="the pickle of CPython 3.13t crashes when a dict or a list changes meanwhile"
)
