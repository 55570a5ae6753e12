"""Prints the newest glibc and libstdc++ that a wheel's objects and programs need, and fails if one
is newer than the tag manylinux_2_28 allows.

    python scripts/lib/needed_versions.py WHEEL

"2.28 3.4.24"; "-" for one that it does not need.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# As auditwheel's policy for manylinux_2_28 has them.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}


def is_compiled(name: str) -> bool:
    """True for a shared object or a program, by its name in a wheel."""
    path = Path(name)
    return ".so" in path.name or path.parent.name == "scripts"


def needed_versions(wheel: Path) -> dict[str, set[tuple[int, ...]]]:
    """The versions of GLIBC, GLIBCXX, CXXABI and so on, as readelf names them."""
    needed: dict[str, set[tuple[int, ...]]] = {}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not is_compiled(name):
                continue
            path = archive.extract(name, folder)
            command = ["readelf", "--version-info", "--wide", path]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            _, _, needs = told.partition("Version needs section")
            for family, version in re.findall(r"Name: ([A-Z]+)_([0-9.]+) ", needs):
                needed.setdefault(family, set()).add(tuple(map(int, version.split("."))))
    return needed


def too_new(needed: dict[str, set[tuple[int, ...]]]) -> list[str]:
    return [
        f"{family}_{'.'.join(map(str, version))}"
        for family, newest in NEWEST.items()
        for version in sorted(needed.get(family, ()))
        if version > newest
    ]


def main() -> None:
    needed = needed_versions(Path(sys.argv[1]))
    if found := too_new(needed):
        raise SystemExit(f"error: {sys.argv[1]} needs {', '.join(found)}")
    for family in ("GLIBC", "GLIBCXX"):
        versions = needed.get(family)
        print(".".join(map(str, max(versions))) if versions else "-", end=" ")
    print()


if __name__ == "__main__":
    main()
