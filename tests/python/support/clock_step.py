"""A process whose wall clock steps: a library that is preloaded moves CLOCK_REALTIME in it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_OFFSET = "TENSORBUS_TEST_CLOCK_OFFSET"  # the path of a file: seconds, as int64
_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long zero, *offset;

static long long seconds(void) {
  if (!offset) {
    const char* path = getenv("TENSORBUS_TEST_CLOCK_OFFSET");
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    void* page = (void*)syscall(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    offset = page == MAP_FAILED ? &zero : page;
    syscall(SYS_close, fd);
  }
  return *offset;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += seconds();
  return result;
}
"""


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process in which `step` moves the wall clock."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library, offset = folder / "clock_step.so", folder / "clock_offset"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=_SOURCE, text=True, check=True)
    offset.write_bytes(bytes(4096))
    return {
        **os.environ,
        "LD_PRELOAD": _joined(os.environ.get("LD_PRELOAD"), library),
        "PYTHONPATH": _joined(Path(__file__).parents[1], os.environ.get("PYTHONPATH")),
        _OFFSET: str(offset),
    }


def _joined(*parts: object) -> str:
    return ":".join(str(part) for part in parts if part)


def step(seconds: int) -> None:
    """In that process: its wall clock is so many seconds ahead from now on."""
    with open(os.environ[_OFFSET], "r+b") as file:
        file.write(struct.pack("<q", seconds))
