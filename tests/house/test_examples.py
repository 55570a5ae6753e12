"""The C++ examples: each is a project of its own, and all are built in one where that is wanted."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from support.repository import ROOT

EXAMPLES = ROOT / "examples"
TARGET = re.compile(r"^\s*add_(?:executable|library)\((?P<name>\S+)", re.MULTILINE)
LOOP = re.compile(r"^foreach\(program (?P<programs>.*)\)$", re.MULTILINE)


def targets(project: Path) -> list[str]:
    """What the file adds; ${program} stands for each program of the loop before it."""
    found = []
    text = project.read_text()
    for target in TARGET.finditer(text):
        loops = LOOP.findall(text, 0, target.start())
        programs = loops[-1].split() if "${program}" in target["name"] else [""]
        found += [target["name"].replace("${program}", program) for program in programs]
    return found


def test_no_two_examples_have_a_target_of_the_same_name() -> None:
    names = Counter(
        name for project in EXAMPLES.glob("*/CMakeLists.txt") for name in targets(project)
    )
    assert names["cuda_sink"] == 1  # the loops were read
    assert [name for name, count in names.items() if count > 1] == []
