"""What scripts/test --cpp and --changed choose (scripts/lib/selection.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.repository import ROOT

sys.path.insert(0, str(ROOT / "scripts/lib"))

import selection
from selection import CppTest

QUEUE_TESTS = "tests/unit/bus/queue/queue_test.cpp"
MODEL_TESTS = "tests/model/put_ring_model_test.cpp"
FUZZER = "fuzz/control_fuzz.cpp"


@pytest.fixture
def tests(tmp_path: Path) -> list[CppTest]:
    """The tests of a build of three programs, as CMake describes it."""
    programs = {"bus_tests": QUEUE_TESTS, "model_tests": MODEL_TESTS, "control_replay": FUZZER}
    commands = [
        {"file": str(ROOT / source), "output": f"CMakeFiles/{target}.dir/{source}.o"}
        for target, source in programs.items()
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
    added = 'add_test("fuzz/control" "/build/bin/control_replay" "/fuzz/corpus/control")\n'
    (tmp_path / "CTestTestfile.cmake").write_text(added)
    return selection.cpp_tests(tmp_path)


@pytest.mark.parametrize(
    ("regex", "target"),
    [
        (r"^bus/Queues\.bound_what_waits$", "bus_tests"),
        ("OfPutRings/EveryStep", "model_tests"),
        ("^fuzz/", "control_replay"),
    ],
)
def test_a_regular_expression_chooses_the_programs_that_have_its_tests(
    tests: list[CppTest], capsys: pytest.CaptureFixture[str], regex: str, target: str
) -> None:
    selection.report_matching(tests, regex)
    assert capsys.readouterr().out.splitlines() == [f"target {target}", f"regex {regex}"]


def test_a_regular_expression_without_tests_chooses_nothing(
    tests: list[CppTest], capsys: pytest.CaptureFixture[str]
) -> None:
    selection.report_matching(tests, "no_test_has_this_name")
    assert capsys.readouterr().out == ""


def test_changes_choose_the_tests_of_their_folders(
    tests: list[CppTest], capsys: pytest.CaptureFixture[str]
) -> None:
    changed = [
        *("src/tensorbus/bus/new.cpp", "python/tensorbus/_queues/queue.py", FUZZER, "VERSION"),
        *("tests/python/queues/conftest.py", "tests/python/queues/test_queue.py"),
    ]
    selection.report_changed(tests, changed)
    *lines, paths = capsys.readouterr().out.split("path ", 1)
    assert "".join(lines).splitlines() == [
        "unselected VERSION",
        "target bus_tests",
        "target control_replay",
        r"regex ^(bus/([^/]+/)?Queues\.|fuzz/control$)",
    ]
    assert paths.split("\npath ") == [
        *("tests/house/test_layers.py", "tests/house/test_python_layers.py"),
        "tests/python/queues\n",
    ]


def test_what_the_table_names_exists() -> None:
    named = {*selection.TESTS, *(test for tests in selection.TESTS.values() for test in tests)}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
