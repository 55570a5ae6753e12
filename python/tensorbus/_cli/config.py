"""Prints the folders and options with which a C or C++ build uses the installed Tensorbus."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path

from tensorbus._cli import process


def main() -> int:
    """Prints one line for each given option. Returns the exit status."""
    process.take_over()
    return process.status_of(_print)


def _print() -> None:
    parser = argparse.ArgumentParser(prog="tensorbus-config", description=__doc__)
    answers = _answers(Path(__file__).resolve().parent.parent)
    for name, (_, help_text) in answers.items():
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    chosen = [name for name, given in vars(parser.parse_args()).items() if given]
    if not chosen:
        parser.error("give at least one option")
    for name in chosen:
        # A compiler needs the bytes of a path, with any encoding of standard output.
        sys.stdout.buffer.write(os.fsencode(f"{answers[name][0]}\n"))


def _answers(package: Path) -> dict[str, tuple[object, str]]:
    """The text that an option prints, and its help, by the name of the option."""
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
