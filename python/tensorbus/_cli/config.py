"""The ``tensorbus-config`` command: where a C or C++ build finds the installed Tensorbus."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """Print what the given options ask for, one line each."""
    parser = argparse.ArgumentParser(prog="tensorbus-config", description=__doc__)
    answers = _answers(Path(__file__).resolve().parent.parent)
    for name, (_, help_text) in answers.items():
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    asked = [name for name, given in vars(parser.parse_args()).items() if given]
    if not asked:
        parser.error("give at least one option")
    for name in asked:
        print(answers[name][0])


def _answers(package: Path) -> dict[str, tuple[object, str]]:
    """By option: what it prints, and what that is."""
    include, lib = package / "include", package / "lib"
    (library,) = lib.glob("libtensorbus.so.*")
    return {
        "cmakedir": (lib / "cmake" / "tensorbus", "folder for tensorbus_DIR"),
        "pkgconfigdir": (lib / "pkgconfig", "folder for PKG_CONFIG_PATH"),
        "includedir": (include, "folder of the headers"),
        "libdir": (lib, "folder of the library"),
        "cflags": (f"-isystem {include}", "options for the compiler"),
        "libs": (f"-L{lib} -Wl,-rpath,{lib} -l:{library.name}", "options for the linker"),
        "version": (version("tensorbus"), "version of Tensorbus"),
    }
