"""What the installed package holds beside its Python code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import tensorbus
from support.harness import SANITIZED
from support.repository import ROOT
from tensorbus._cli.command import main

PACKAGE = Path(tensorbus.__file__).parent

# Header-only, for those who have the library that each is named after.
ADAPTERS = {"cuda.hpp", "dlpack.hpp", "torch.hpp"}

WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Wsign-conversion",
    "-Werror",
)


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def config(option: str) -> str:
    return run(Path(sysconfig.get_path("scripts")) / "tensorbus-config", option)


def test_the_version_has_one_source() -> None:
    wanted = (ROOT / "VERSION").read_text().strip()
    assert version("tensorbus") == wanted
    assert config("--version") == wanted


def test_the_build_requirements_are_the_same_in_both_places() -> None:
    pinned = set((ROOT / "scripts" / "requirements-build.txt").read_text().split())
    requires = re.search(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert requires
    assert set(re.findall(r'"([^"]+)"', requires[1])) <= pinned


@pytest.mark.skipif(SANITIZED, reason="this package is not the wheel: its prefix is the system's")
def test_cflags_keep_our_headers_out_of_the_warnings_of_others() -> None:
    assert config("--cflags") == f"-isystem {config('--includedir')}"
    (told,) = re.findall(r"Cflags: (.*)", (PACKAGE / "lib/pkgconfig/tensorbus.pc").read_text())
    assert told == "-isystem ${includedir}"


@pytest.mark.timeout(600)
def test_every_public_header_compiles_alone_and_without_warnings(tmp_path: Path) -> None:
    include = Path(config("--includedir"))
    # Those in internal/ come through these.
    folders = [include / "tensorbus" / folder for folder in (".", "async", "sync")]
    found = (path for folder in folders for path in folder.glob("*.hpp"))
    headers = [path for path in found if path.name not in ADAPTERS]
    assert include / "tensorbus" / "tensorbus.hpp" in headers

    def compile_alone(header: Path) -> None:
        program = tmp_path / f"{header.stem}.cpp"
        program.write_text(f"#include <{header.relative_to(include)}>\n")
        run("g++", "-std=c++20", *WARNINGS, "-fsyntax-only", "-I", include, program)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_alone, headers))


def consumer(folder: Path, *options: str) -> Path:
    """The program of tests/consumer, built against the wheel."""
    run(
        "cmake",
        *("-S", ROOT / "tests" / "consumer"),
        *("-B", folder),
        *("-G", "Ninja"),
        f"-DWANTED_VERSION={version('tensorbus')}",
        f"-Dtensorbus_DIR={config('--cmakedir')}",
        *options,
    )
    run("cmake", "--build", folder)
    return folder / "consumer"


def test_a_cmake_project_builds_against_the_wheel_and_runs(tmp_path: Path) -> None:
    assert run(consumer(tmp_path)) == version("tensorbus")


CLANG = shutil.which("clang++")


def clang_has(library: str) -> bool:
    if CLANG is None:
        return False
    command = (CLANG, f"-stdlib={library}", "-fsyntax-only", "-x", "c++", "-")
    return not subprocess.run(command, input=b"#include <version>", capture_output=True).returncode


@pytest.mark.parametrize("library", ["libstdc++", "libc++"])
def test_a_program_of_another_compiler_runs(tmp_path: Path, library: str) -> None:
    if not clang_has(library):
        pytest.skip(f"clang++ with {library} is not installed")
    flags = f"-stdlib={library} -Wall -Wextra -Wpedantic -Wshadow -Werror"
    program = consumer(
        tmp_path,
        f"-DCMAKE_CXX_COMPILER={CLANG}",
        f"-DCMAKE_CXX_FLAGS={flags}",
        "-DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON",  # or it would be silent about our headers
    )
    assert run(program) == version("tensorbus")


def test_a_cpp_program_needs_the_c_interface_alone(tmp_path: Path) -> None:
    """What it needs of a newer library is what that promises to have."""
    program = consumer(tmp_path, "-DCMAKE_BUILD_TYPE=Debug")
    undefined = run("nm", "--dynamic", "--undefined-only", "--with-symbol-versions", program)
    ours = [line.split()[-1] for line in undefined.splitlines() if "TENSORBUS" in line]
    assert ours
    assert all(re.fullmatch(r"tb_\w+@TENSORBUS_\d+", symbol) for symbol in ours)
    assert "9tensorbus" not in undefined


def test_scikit_build_core_finds_the_cmake_package() -> None:
    (entry,) = entry_points(group="cmake.prefix", name="tensorbus")
    assert entry.load() is tensorbus
    assert (PACKAGE / "lib/cmake/tensorbus/tensorbusConfig.cmake").is_file()


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="made with Python 3.11, as in CI")
def test_the_stub_in_the_repository_is_the_one_that_the_build_makes() -> None:
    committed = (ROOT / "python" / "tensorbus" / "_core.pyi").read_text()
    assert committed == (PACKAGE / "_core.pyi").read_text(), "run scripts/lint --fix"


def test_the_tensorbus_command_is_installed() -> None:
    (entry,) = entry_points(group="console_scripts", name="tensorbus-python")
    assert entry.load() is main
    script = Path(sysconfig.get_path("scripts")) / "tensorbus"
    for command in ([script], [sys.executable, "-m", "tensorbus"]):
        assert run(*command, "--version").strip() == f"tensorbus {version('tensorbus')}"
        assert "trace.json" in run(*command, "trace", "--help")  # which is in Python


def test_test_hooks_are_not_in_the_released_wheel() -> None:
    """scripts/test installs a wheel that has them; scripts/wheels looks into those of a release."""
    project = (ROOT / "pyproject.toml").read_text()
    assert "\nTENSORBUS_KILL_POINTS = false\n" in project
