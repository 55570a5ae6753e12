"""C++ members are touched with their lock held, as annotated (docs/internals/threading.md)."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections import defaultdict
from pathlib import Path

import nanobind
import pytest

import tensorbus
from support.repository import ROOT

SOURCES = ROOT / "src"
MUTEX = "tensorbus/platform/mutex.hpp"

INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
FOLDERS = (
    *(SOURCES, ROOT / "include", Path(tensorbus.__file__).parent / "include"),
    *(nanobind.include_dir(), Path(nanobind.include_dir()).parent / "ext/robin_map/include"),
    sysconfig.get_path("include"),
)
COMMAND = (
    *(Path(sys.executable).with_name("clang-tidy"), "--quiet", "--config={}"),
    # One check that has nothing to do here: with the warnings of the compiler alone there is none.
    "--checks=-*,clang-diagnostic-thread-safety*,misc-unused-alias-decls",
    *("--header-filter=.*", "--warnings-as-errors=*"),
)
OPTIONS = (
    *("-std=c++20", "-Wthread-safety", "-ferror-limit=0"),
    *("-DTENSORBUS_BUILD", "-DTENSORBUS_KILL_POINTS=1"),
    *(f"-I{folder}" for folder in FOLDERS),
)


def includes(path: Path) -> set[str]:
    return set(INCLUDE.findall(path.read_text()))


def units() -> dict[str, list[str]]:
    """The files that see a mutex or members that it guards, by their layer.

    A layer is read as one file, so names in its anonymous namespaces differ, as in a unity build.
    """
    headers = {str(path.relative_to(SOURCES)): path for path in SOURCES.rglob("*.hpp")}
    locked = {MUTEX} | {name for name, path in headers.items() if MUTEX in includes(path)}
    all: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.cpp")):
        name = str(path.relative_to(SOURCES))
        if locked & includes(path):
            all[Path(name).parts[1]].append(name)  # as one file: headers take most of the time
    return all


def findings(unit: Path) -> str:
    command = (*COMMAND, unit, "--", *OPTIONS)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode else ""


@pytest.mark.slow
@pytest.mark.timeout(600)  # it compiles, also where others do
@pytest.mark.parametrize("files", units().values(), ids=units())
def test_each_lock_is_held_where_its_members_are_touched(tmp_path: Path, files: list[str]) -> None:
    unit = tmp_path / "unit.cpp"
    unit.write_text("".join(f'#include "{file}"\n' for file in files))
    assert findings(unit) == ""


COUNTER = """
#include "tensorbus/platform/mutex.hpp"
class Counter {
 public:
  void add() { LOCK ++count_; }
 private:
  tensorbus::platform::Mutex mutex_;
  int count_ TB_GUARDED_BY(mutex_) = 0;
};
"""


@pytest.mark.parametrize("locks", [True, False])
def test_a_lock_that_is_not_held_is_found(tmp_path: Path, locks: bool) -> None:
    unit = tmp_path / "unit.cpp"
    lock = "const tensorbus::platform::MutexLock lock(mutex_);"
    unit.write_text(COUNTER.replace("LOCK", lock if locks else ""))
    found = findings(unit)
    assert found == "" if locks else "requires holding mutex 'mutex_'" in found
