"""Properties of the Python interpreter."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """Properties of the interpreter that matter for threads."""

    python_version: tuple[int, int, int]
    implementation: str
    free_threaded: bool  # now: an extension may have enabled the GIL again
    free_threaded_build: bool
    gil_supported: bool  # the interpreter can report whether the GIL is enabled (Python 3.13)
    cpu_count: int  # CPUs that this process may use


@cache
def runtime_info() -> RuntimeInfo:
    """The properties of this interpreter."""
    has_gil: Any = getattr(sys, "_is_gil_enabled", None)
    return RuntimeInfo(
        python_version=sys.version_info[:3],
        implementation=platform.python_implementation(),
        free_threaded=has_gil is not None and not has_gil(),
        free_threaded_build=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        gil_supported=has_gil is not None,
        cpu_count=len(os.sched_getaffinity(0)),
    )


def is_free_threaded() -> bool:
    """True if threads run without the GIL."""
    return runtime_info().free_threaded


def low_latency_advisory() -> str | None:
    """Advice that reduces the waits of threads with callbacks; None if there is none."""
    info = runtime_info()
    if info.free_threaded:
        return None
    if info.free_threaded_build:
        return "an extension has enabled the GIL again: PYTHON_GIL=0 keeps it off"
    version = ".".join(map(str, info.python_version[:2]))
    return f"Python {version} has the GIL: callbacks in threads wait less with python3.14t"
