"""What CONTRIBUTING.md, SECURITY.md and the files for commits name exists, and is the same."""

from __future__ import annotations

import re

import pytest

from support.repository import ROOT

# Paths of the repository; `.venv` and `build` are made.
PATH = re.compile(
    r"`((?:\.github|bench|cmake|docs|examples|fuzz|include|python|scripts|src|tests)/[^\s`]*"
    r"|[\w.-]+\.(?:md|toml|yaml|json))`"
)
LINK = re.compile(r"\]\(([^)#:]+)\)")
PIN = re.compile(r"[\w-]+==[\w.]+")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md"])
def test_the_files_that_the_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {*PATH.findall(text), *LINK.findall(text)}
    assert len(named) >= 5
    assert [path for path in sorted(named) if not any(ROOT.glob(path))] == []


def test_the_commands_that_the_page_shows_are_options_of_the_script() -> None:
    shown = set(re.findall(r"scripts/test (--[a-z]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    script = (ROOT / "scripts/test").read_text()
    assert {"--changed", "--cpp", "--py"} <= shown
    cases = "\n".join(re.findall(r"^    (--.*)\)", script, re.MULTILINE))
    assert [option for option in sorted(shown) if option not in cases] == []


def test_commits_are_checked_with_the_tools_of_the_lint_script() -> None:
    hooks = set(PIN.findall((ROOT / ".pre-commit-config.yaml").read_text()))
    assert hooks
    assert hooks <= set(PIN.findall((ROOT / "scripts/requirements-lint.txt").read_text()))
