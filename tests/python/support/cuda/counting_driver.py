"""A driver of CUDA that counts some of the calls, and hands them to the one behind it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

# Functions whose arguments all go in registers: those that wait for the GPU, and those that a
# message has no business with once all is set up. What is taken down again (cuMemHostUnregister,
# cuMemFree) goes later, in threads of its own.
WAITS = ["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"]
SETUP = [
    *("cuMemCreate", "cuMemMap", "cuMemImportFromShareableHandle", "cuMemExportToShareableHandle"),
    *("cuMemHostRegister_v2", "cuMemAlloc_v2", "cuStreamCreate", "cuMemSetAccess"),
]

_SOURCE = r"""
#include <dlfcn.h>
#include <string.h>

static const char* const names[] = {NAMES};
static long counts[sizeof names / sizeof *names];

static int count(int index, long a, long b, long c, long d, long e) {
  typedef int (*Function)(long, long, long, long, long);
  static void* real;
  if (real == 0) real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
  __atomic_add_fetch(&counts[index], 1, __ATOMIC_RELAXED);
  return ((Function)dlsym(real, names[index]))(a, b, c, d, e);
}

long counted(const char* name) {
  for (unsigned i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(names[i], name) == 0) return __atomic_load_n(&counts[i], __ATOMIC_RELAXED);
  return -1;
}
"""


def library_of_driver() -> Path:
    """The file of this machine's own driver."""
    ctypes.CDLL("libcuda.so.1")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return Path(next(line.split()[-1] for line in lines if "/libcuda.so" in line))


def build(folder: Path, real: Path) -> Path:
    """For `TENSORBUS_CUDA_DRIVER`. Functions that are not counted are found in the real one."""
    names = WAITS + SETUP
    quoted = ", ".join(f'"{name}"' for name in names)
    parameters = "long a, long b, long c, long d, long e"
    functions = [
        f"int {name}({parameters}) {{ return count({index}, a, b, c, d, e); }}"
        for index, name in enumerate(names)
    ]
    source = folder / "counting.c"
    source.write_text(_SOURCE.replace("NAMES", quoted) + "\n".join(functions) + "\n")
    built = folder / "libcounting.so"
    options = [f'-DREAL="{real}"', "-shared", "-fPIC", "-Wl,--no-as-needed"]
    needed = [str(real), f"-Wl,-rpath,{real.parent}", "-ldl"]
    command = ["gcc", *options, "-o", str(built), str(source), *needed]
    subprocess.run(command, check=True)
    return built


def counts(names: list[str]) -> dict[str, int]:
    """Of this process, up to now; those that are not 0."""
    counted = ctypes.CDLL(os.environ["TENSORBUS_CUDA_DRIVER"]).counted
    counted.restype = ctypes.c_long
    found = {name: int(counted(name.encode())) for name in names}
    return {name: number for name, number in found.items() if number}
