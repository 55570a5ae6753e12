"""The ``tensorbus-config`` command: where a C++ build finds the installed Tensorbus."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """Print what the given options ask for, one line each."""
    package = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(prog="tensorbus-config", description=__doc__)
    answers = {
        "cmakedir": (package / "lib" / "cmake" / "tensorbus", "folder for tensorbus_DIR"),
        "includedir": (package / "include", "folder of the C++ headers"),
        "version": (version("tensorbus"), "version of Tensorbus"),
    }
    for name, (_, help_text) in answers.items():
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    asked = [name for name, given in vars(parser.parse_args()).items() if given]
    if not asked:
        parser.error("give at least one option")
    for name in asked:
        print(answers[name][0])
