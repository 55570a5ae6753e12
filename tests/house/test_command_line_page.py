"""The page of the command line shows the help that the commands print."""

from __future__ import annotations

import re
import sys

import pytest

from support.repository import ROOT

pytest.importorskip("typer", reason="typer is not installed")
sys.path.insert(0, str(ROOT / "docs/site"))

import command_line

from support.screens.commands import program

UPDATE = "python docs/site/command_line.py > docs/reference/command_line.md"


def test_the_page_is_the_help_of_every_command() -> None:
    page = (ROOT / "docs/reference/command_line.md").read_text()
    # Words: versions of Python break the lines of argparse at different places.
    assert page.split() == command_line.page(program()).split(), UPDATE


def test_every_option_says_what_it_does() -> None:
    names = command_line.commands(program())
    text = "\n".join(command_line.help_of(name, program()) for name in names)
    options = re.findall(r"^  (-.*(?:\n {10,}.*)*)", text, re.M)
    assert len(options) > 100
    assert [option for option in options if not re.search(r"\s{2}", option)] == []
