"""scripts/matrix knows a package without a wheel from one that could not be installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.repository import ROOT

INSTALLED, FAILED, NO_WHEEL = 0, 1, 3


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder with a wheel for all, one for another machine, and one that is broken."""
    folder = tmp_path / "simple"
    for name, tag in (("here", "none-any"), ("other", "cp39-win32"), ("broken", "none-any")):
        wheel = f"{name}-1.0-py3-{tag}.whl"
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
        information = f"{name}-1.0.dist-info"
        if name == "broken":
            (folder / name / wheel).write_bytes(b"no wheel")
            continue
        with zipfile.ZipFile(folder / name / wheel, "w") as file:
            file.writestr(f"{name}.py", "")
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            file.writestr(f"{information}/METADATA", metadata)
            file.writestr(f"{information}/WHEEL", f"Wheel-Version: 1.0\nTag: py3-{tag}\n")
            file.writestr(f"{information}/RECORD", "")
    return folder


def install(package: str, index: str, folder: Path) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    script = 'source scripts/lib/pythons.sh; install_wheel "$@"'
    return subprocess.run(
        ["bash", "-euc", script, "bash", sys.executable, package, folder / "log"],
        cwd=ROOT,
        env={
            **environment,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": index,
            "PIP_RETRIES": "0",
            "PIP_TARGET": str(folder / "installed"),
        },
        timeout=100,
    ).returncode


@pytest.mark.parametrize(
    ("package", "result"),
    [
        ("here", INSTALLED),
        ("here==2.0", NO_WHEEL),
        ("other", NO_WHEEL),
        ("broken", FAILED),
        ("unknown", FAILED),
    ],
)
def test_a_package_of_an_index(package: str, result: int, index: Path, tmp_path: Path) -> None:
    assert install(package, index.as_uri(), tmp_path) == result
    assert (tmp_path / "installed/here.py").exists() == (result == INSTALLED)


def test_an_index_that_cannot_be_reached_is_no_index_without_the_wheel(tmp_path: Path) -> None:
    assert install("here", "http://127.0.0.1:1/simple", tmp_path) == FAILED
