"""What is linked for an older system needs nothing newer, and works here and there."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT

SCRIPTS = ROOT / "scripts" / "lib"

# Uses what is newer than 2.28 and GCC 8: its last member is an error of the linker.
PROGRAM = """
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono;

extern "C" int files_are_seen(const char* path) {
  struct stat by_path{}, by_fd{}, by_name{}, of_link{};
  DIR* const folder = opendir("/");
  const int fd = dirfd(folder);
  const bool all = stat(path, &by_path) == 0 && lstat(path, &of_link) == 0 &&
                   fstat(fd, &by_fd) == 0 && fstatat(fd, path + 1, &by_name, 0) == 0;
  closedir(folder);
  return all && S_ISREG(by_path.st_mode) && by_path.st_ino == by_name.st_ino &&
         S_ISLNK(of_link.st_mode) && S_ISDIR(by_fd.st_mode) && stat("/no such file", &by_path) < 0;
}

extern "C" long milliseconds_waited(long milliseconds_asked) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const auto before = steady_clock::now();
  changed.wait_for(lock, milliseconds(milliseconds_asked), [] { return false; });
  return duration_cast<milliseconds>(steady_clock::now() - before).count();
}

extern "C" int exceptions_are_kept() {
  std::exception_ptr kept;
  {
    std::exception_ptr first;
    try {
      throw std::runtime_error(std::string("text"));
    } catch (...) {
      first = std::current_exception();
    }
    const std::exception_ptr second = first;
    kept = second;
  }
  try {
    std::rethrow_exception(kept);
  } catch (std::runtime_error& error) {
    const std::runtime_error moved(std::move(error));
    return std::string(moved.what()) == "text";
  }
}

extern "C" int too_many_are_refused(unsigned long many) {
  try {
    return new long[many] == nullptr;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

extern "C" int threads_are_numbered() {
  return gettid() == getpid() && dlsym(RTLD_DEFAULT, "malloc") != nullptr;
}

#ifdef NEWER
extern "C" unsigned newer() { return arc4random(); }  // glibc 2.36
#endif
"""


def imported(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


needed_versions = imported("needed_versions")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("link")
    subprocess.run([sys.executable, SCRIPTS / "link_libraries.py", "g++", folder], check=True)
    return folder


def options_of(libraries: Path) -> list[str]:
    """Of the linker, after the sources."""
    return [
        *("-nodefaultlibs", f"-L{libraries}", "-l:libstdc++.so.6", "-l:libm.so.6", "-lgcc"),
        *("-l:libgcc_s.so.1", "-l:libc.so.6", "-l:libc_nonshared.a", "-Wl,--no-as-needed"),
        *("-l:libpthread.so.0", "-l:libdl.so.2"),
    ]


def build(folder: Path, libraries: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cpp").write_text(PROGRAM)
    # As in cmake/TensorbusOlderSystem.cmake.
    command = (
        *("g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-Wl,-z,defs", *options),
        *(folder / "program.cpp", *sorted((ROOT / "src/older_system").glob("*.cpp"))),
        *("-o", folder / "program.so", *options_of(libraries)),
    )
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, libraries: Path) -> Path:
    folder = tmp_path_factory.mktemp("program")
    done = build(folder, libraries)
    assert done.returncode == 0, done.stderr
    return folder / "program.so"


def needed_by(program: Path, tmp_path: Path) -> dict[str, set[tuple[int, ...]]]:
    wheel = tmp_path / "one.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(program, f"scripts/{program.name}")
    needed: dict[str, set[tuple[int, ...]]] = needed_versions.needed_versions(wheel)
    return needed


def test_it_needs_nothing_newer(program: Path, tmp_path: Path) -> None:
    needed = needed_by(program, tmp_path)
    assert needed_versions.too_new(needed) == []
    assert needed["GLIBC"]
    assert needed["GLIBCXX"]


COMMAND = """
#include <cstdlib>
#include <iostream>
#include <sstream>

static const std::string text = [] { std::stringstream made; made << 7; return made.str(); }();
struct AtTheEnd { ~AtTheEnd() { std::cout << " end" << std::endl; } };
static const AtTheEnd at_the_end;

int main(int count, char** arguments) {
  std::cout << text << ' ' << count << ' ' << arguments[1] << ' ' << std::getenv("NAME");
}
"""


def test_a_program_has_its_constructors_run_by_each_glibc(libraries: Path, tmp_path: Path) -> None:
    """An older glibc runs what it is given, a newer one what the file says."""
    (tmp_path / "command.cpp").write_text(COMMAND)
    sources = sorted((ROOT / "src/older_system").rglob("*.cpp"))
    # As in cmake/TensorbusOlderSystem.cmake.
    build = (
        *(
            "g++",
            "-std=c++20",
            "-O2",
            "-Wl,--wrap=__libc_start_main",
            "-Wl,--allow-shlib-undefined",
        ),
        *(tmp_path / "command.cpp", *sources, "-o", tmp_path / "command", *options_of(libraries)),
    )
    subprocess.run(build, check=True, timeout=100)
    assert needed_versions.too_new(needed_by(tmp_path / "command", tmp_path)) == []
    run = (tmp_path / "command", "a")
    said = subprocess.run(run, env={"NAME": "b"}, stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout == "7 2 a b end\n"
    # It passes its own function to __libc_start_main.
    symbols = subprocess.run(["nm", tmp_path / "command"], stdout=subprocess.PIPE, text=True)
    assert " __wrap___libc_start_main\n" in symbols.stdout


def test_a_newer_version_is_named() -> None:
    needed = {"GLIBC": {(2, 17), (2, 29)}, "GLIBCXX": {(3, 4, 24)}, "CXXABI": {(1, 3, 12)}}
    assert needed_versions.too_new(needed) == ["GLIBC_2.29", "CXXABI_1.3.12"]


def test_what_only_a_newer_system_has_is_not_found(tmp_path: Path, libraries: Path) -> None:
    done = build(tmp_path, libraries, "-DNEWER")
    assert done.returncode != 0
    assert "arc4random" in done.stderr


def test_what_an_older_system_lacks_works(program: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    link = tmp_path / "link"
    link.symlink_to("file")
    library = ctypes.CDLL(str(program))
    assert library.files_are_seen(str(link).encode())
    assert library.threads_are_numbered()
    assert library.exceptions_are_kept()
    assert library.too_many_are_refused(ctypes.c_ulong(2**62))
    assert library.milliseconds_waited(20) >= 20
