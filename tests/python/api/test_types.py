"""What type checkers say of the package, and of programs that use it."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.repository import ROOT
from tensorbus import _core

PROGRAMS = sorted((ROOT / "tests/typed").glob("*.py"))  # use all of it, as users do

WRONG = {
    "access": 'tb.Subscriber("topic", access="write")',
    "library": 'tb.Subscriber("topic", library="tensorflow")',
    "positional": 'tb.Publisher("topic", 4)',
    "message type": 'tb.Subscriber("topic", int)',
    "await": "tb.Subscriber('topic').receive().__await__()",
    "sequence": "sequence: str = tb.Subscriber('topic').receive().header.sequence",
}


def checker(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


def mypy(cache: Path, *programs: Path) -> subprocess.CompletedProcess[str]:
    config = cache / "mypy.ini"  # PyTorch's own types take half a minute
    config.write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")
    options = ["--strict", "--config-file", config, "--cache-dir", cache]
    return checker("mypy", *options, *programs)


def pyright(*arguments: str | Path) -> dict[str, Any]:
    done = checker("pyright", "--outputjson", "--pythonpath", sys.executable, *arguments)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_programs_use_every_public_name() -> None:
    programs = "\n".join(path.read_text() for path in PROGRAMS)
    assert [name for name in tb.__all__ if not re.search(rf"\btb\.{name}\b", programs)] == []


def test_programs_that_use_all_of_it_are_clean_for_mypy(tmp_path: Path) -> None:
    done = mypy(tmp_path, *PROGRAMS)
    assert done.returncode == 0, done.stdout


def test_programs_that_use_all_of_it_are_clean_for_pyright(tmp_path: Path) -> None:
    for program in PROGRAMS:
        shutil.copy(program, tmp_path)
    config = tmp_path / "pyrightconfig.json"
    config.write_text('{"typeCheckingMode": "strict"}')
    report = pyright("--project", config)
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    assert report["generalDiagnostics"] == []


def test_the_type_of_every_public_name_is_known() -> None:
    """And declared, but for the standard library's names that tensorbus.multiprocessing has."""
    found = pyright("--verifytypes", "tensorbus", "--ignoreexternal")["typeCompleteness"]
    symbols = found["symbols"]
    names = {symbol["name"] for symbol in symbols}
    assert {f"tensorbus.{name}" for name in tb.__all__ if name != "__version__"} <= names
    unsure = [symbol for symbol in symbols if not symbol["isTypeKnown"]]
    assert [symbol["name"] for symbol in unsure if not symbol["isTypeAmbiguous"]] == []
    inferred = [symbol["name"] for symbol in unsure]
    assert all(name.startswith("tensorbus.multiprocessing.") for name in inferred), inferred


def test_the_stub_of_the_core_has_the_names_of_the_module() -> None:
    """test_package.py compares all of it with what nanobind writes, where Python is ours."""
    stub = (Path(tb.__file__).parent / "_core.pyi").read_text()
    names, members = names_in(ast.parse(stub).body), {}
    for name in names:
        if isinstance(kind := getattr(_core, name), type):
            members[name] = {member for member in vars(kind) if not member.startswith("_")}
    assert names == {name for name in vars(_core) if not name.startswith("_")}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ClassDef):
            assert names_in(node.body) == members[node.name], node.name


def names_in(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AnnAssign) else []
        names.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in names if not name.startswith("_")}


def test_a_program_with_mistakes_is_not(tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text("\n".join(["import tensorbus as tb", *WRONG.values()]))
    found = mypy(tmp_path, program).stdout
    for line in range(2, 2 + len(WRONG)):
        assert f"mistakes.py:{line}: error" in found, found
