"""What a type checker says of the package, and of a program that uses it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

WRONG = {
    "access": 'tb.Subscriber("topic", access="write")',
    "as_": 'tb.Subscriber("topic", as_="tensorflow")',
    "positional": 'tb.Publisher("topic", 4)',
    "message type": 'tb.Subscriber("topic", int)',
    "await": "tb.Subscriber('topic').receive().__await__()",
    "sequence": "sequence: str = tb.Subscriber('topic').receive().header.sequence",
}


def mypy(cache: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    config = cache / "mypy.ini"  # PyTorch's own types take half a minute
    config.write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")
    options = ["--strict", "--config-file", config, "--cache-dir", cache]
    command = [sys.executable, "-m", "mypy", *options, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


def test_a_program_that_uses_all_of_it_is_clean(tmp_path: Path) -> None:
    done = mypy(tmp_path, TESTS / "typed" / "program.py")
    assert done.returncode == 0, done.stdout


def test_a_program_with_mistakes_is_not(tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text("\n".join(["import tensorbus as tb", *WRONG.values()]))
    found = mypy(tmp_path, program).stdout
    for line in range(2, 2 + len(WRONG)):
        assert f"mistakes.py:{line}: error" in found, found
