"""The source distribution is what the package is built from, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.repository import ROOT

FOLDERS = ["cmake", "include", "python", "src"]
FILES = {"CHANGELOG.md", "CMakeLists.txt", "LICENSE", "README.md", "VERSION", "pyproject.toml"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Its files, by their paths in the repository."""
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder]
    subprocess.run([*command, ROOT], check=True, capture_output=True, timeout=100)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        paths = [Path(member.name) for member in opened.getmembers() if member.isfile()]
    assert {path.parts[0] for path in paths} == {archive.name.removesuffix(".tar.gz")}
    return {str(Path(*path.parts[1:])) for path in paths}


def test_it_has_what_builds_the_package_and_no_more(sources: set[str]) -> None:
    assert {path for path in sources if "/" not in path} == FILES | {"PKG-INFO"}
    assert {path.partition("/")[0] for path in sources if "/" in path} == set(FOLDERS)


def test_it_has_no_file_that_git_would_not_have(sources: set[str]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS],
        cwd=ROOT,
        text=True,
    )
    wanted = {path for path in listed.splitlines() if (ROOT / path).exists()}
    wanted = {path for path in wanted if not path.endswith("_test.cpp")}
    assert sources - FILES - {"PKG-INFO"} == wanted
