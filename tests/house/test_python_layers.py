"""Each package of the Python package imports those before it, and no import goes in a circle."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repository import ROOT

SOURCES = ROOT / "python"
LINT = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
)

# What would break a contract, and in which module.
WRONG = {
    "in a function": (
        "_base/closing.py",
        "def look() -> None:\n    from tensorbus._aio import failures",
    ),
    "for type checkers": (
        "_codec/typed.py",
        "if TYPE_CHECKING:\n    from tensorbus.messages._plan import Plan as Other",
    ),
    "within a package": ("messages/_mismatch.py", "from tensorbus.messages import _kinds"),
    "of a package by its own": ("multiprocessing/_keeper.py", "import tensorbus.multiprocessing"),
    "of Cortex by others": ("_cli/command.py", "from tensorbus.cortex import Node"),
    "of a connector by others": ("nodes/_run.py", "from tensorbus.connectors.spdl import Arena"),
    "of a connector's name by others": ("nodes/_run.py", "from tensorbus.ray import register"),
    "within Cortex": (
        "cortex/messages/base.py",
        "def look() -> None:\n    from tensorbus.cortex.utils import loop",
    ),
    "of all by a part": ("nodes/_run.py", "from tensorbus import Publisher"),
}


def refusal_of(sources: Path) -> str:
    """Why [tool.importlinter] of pyproject.toml refuses the package in this folder."""
    lint = subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return lint.stdout + lint.stderr if lint.returncode else "\n".join(parents_in(sources))


def parents_in(sources: Path) -> Iterator[str]:
    """Imports of what a module lies in, which import-linter takes for no circle."""
    for path in sorted((sources / "tensorbus").rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        packages = {".".join(parts[:count]) for count in range(1, len(parts))}
        for package, name in imports_of(path.read_text()):
            folder = sources / package.replace(".", "/")
            is_module = (folder / name).is_dir() or any(folder.glob(f"{name}.py*"))
            if package in packages and not (name and is_module):
                yield f"{path}: from {package} import {name}"


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Modules, and what is imported from them, anywhere in the code; "" for the module itself."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.fixture(autouse=True)
def _import_linter() -> None:
    pytest.importorskip("importlinter", reason="import-linter is not installed")


def test_the_contracts_of_pyproject_are_kept() -> None:
    assert refusal_of(SOURCES) == ""


@pytest.mark.parametrize("kind", WRONG)
def test_an_import_that_breaks_them_is_found(kind: str, tmp_path: Path) -> None:
    shutil.copytree(SOURCES, tmp_path, dirs_exist_ok=True)
    module, statement = WRONG[kind]
    with (tmp_path / "tensorbus" / module).open("a") as file:
        file.write(f"\n{statement}\n")
    assert refusal_of(tmp_path) != ""
