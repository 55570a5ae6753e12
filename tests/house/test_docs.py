"""What the pages in docs say of tests is so, and what they show runs."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from pathlib import Path
from typing import Any

import pytest

from support.harness import PATIENCE
from support.repository import ROOT

PAGE = (ROOT / "docs/internals/evidence.md").read_text()


def test_the_tests_that_the_page_names_exist() -> None:
    code = "\n".join(path.read_text() for path in ROOT.glob("tests/**/*_test.cpp"))
    named = re.findall(r"`(?:[A-Z]\w*)?\.([a-z]\w+)`", PAGE)  # `Suite.name`, or `.name` of the same
    assert len(named) > 20
    missing = [name for name in named if not re.search(rf"\b{name}\b", code)]
    assert not missing


def test_the_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:cpp|py|md))`", PAGE))
    assert len(named) > 15
    present = {
        path.name for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*")
    }
    missing = [
        name
        for name in named
        if not ((ROOT / name).exists() if name.startswith("tests/") else Path(name).name in present)
    ]
    assert not missing


def test_every_kill_point_is_in_a_list_and_on_the_page() -> None:
    code = [path.read_text() for path in (ROOT / "src").rglob("*.[ch]pp")]
    passed = {name for text in code for name in re.findall(r'kill_point\("([\w.]+)"\)', text)}
    lists = (ROOT / "src/tensorbus/platform/kill_point.hpp").read_text()
    assert passed == set(re.findall(r'"(\w+\.\w+)"', lists))
    described = (ROOT / "docs/internals/protocol.md").read_text()
    assert [name for name in sorted(passed) if f"`{name}`" not in described] == []


def source_of(file: str) -> Path:
    """The file of a call on the page of the architecture."""
    return ROOT / ("python/tensorbus" if file.endswith(".py") else "src/tensorbus") / file


def test_the_calls_of_the_four_ways_are_counted_and_in_the_files_that_are_named() -> None:
    page = (ROOT / "docs/internals/architecture.md").read_text()
    ways = re.findall(r"^### (.*?)\n(.*?)^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(ways) == 5  # queues have two
    for way, text, drawing in ways:
        lines = re.findall(r"^ ?(\d+)  (\S.*?) +(\S+\.(?:cpp|hpp|py))$", drawing, re.MULTILINE)
        numbers = [int(number) for number, _, _ in lines]
        assert numbers == list(range(1, len(numbers) + 1)), way
        assert f"{len(numbers)} calls" in text, way
        for number, calls, file in lines:
            code = source_of(file).read_text()
            names = [re.split(r"::|\.", call.split("(")[0])[-1] for call in calls.split(", ")]
            assert [name for name in names if not re.search(rf"\b{name}\b", code)] == [], (
                way,
                number,
            )


def test_the_promises_for_users_are_short_and_name_no_tests() -> None:
    page = (ROOT / "docs/reliability.md").read_text()
    assert len(page.split()) <= 950
    assert "test_" not in page


@pytest.mark.parametrize("page", ["cortex", "handles", "messages", "nodes"])
def test_the_examples_of_the_page_run(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        program = compile(example, f"docs/{page}.md", "exec", dont_inherit=True)
        exec(program, {"__name__": "__main__"})


def test_the_examples_of_topics_run_one_after_the_other() -> None:
    page = (ROOT / "docs/topics.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) > 5
    names = {"__name__": "__main__"}
    for example in examples:
        exec(compile(example, "docs/topics.md", "exec", dont_inherit=True), names)


def test_the_cells_of_a_notebook_run_one_after_the_other() -> None:
    page = (ROOT / "docs/tasks/notebooks.md").read_text()
    cells = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(cells) > 3
    names: dict[str, Any] = {}

    async def run() -> None:  # a kernel has an event loop
        for cell in cells:
            code = compile(cell, "notebooks.md", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
            if (awaited := eval(code, names)) is not None:
                await awaited

    asyncio.run(run())
    assert set(names["sample"].data) == {"id", "image"}


def test_the_program_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "hello.py"
    patient = example.replace("timeout=5", f"timeout={PATIENCE}")
    program.write_text(patient + "        if sample.data['id'] == 2:\n            break\n")
    done = subprocess.run(
        (sys.executable, program), capture_output=True, text=True, check=True, timeout=2 * PATIENCE
    )
    assert done.stdout.splitlines() == [f"{number} (1080, 1920, 3)" for number in range(3)]


def test_the_cpp_program_of_the_readme_is_that_of_a_page_whose_programs_are_run() -> None:
    pages = ("README.md", "docs/tasks/getting_started.md")
    programs = [
        re.findall(r"```cpp\n.*?```", (ROOT / page).read_text(), re.DOTALL) for page in pages
    ]
    assert programs[0] == programs[1]


def option_structs(text: str) -> dict[str, str]:
    """The structs of options in a text, without comments, by their names."""
    found = re.findall(r"^(struct (\w+Options) \{\n.*?^\};)$", text, re.DOTALL | re.MULTILINE)
    return {name: re.sub(r"\s*//.*", "", struct) for struct, name in found}


def test_the_options_of_the_cpp_page_are_those_of_the_headers_in_their_order() -> None:
    headers = (path.read_text() for path in (ROOT / "include/tensorbus").rglob("*.hpp"))
    declared = {name: struct for text in headers for name, struct in option_structs(text).items()}
    assert len(declared) > 9
    assert option_structs((ROOT / "docs/cpp.md").read_text()) == declared


def test_the_errors_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    folders = ("src/**/*.[ch]pp", "include/**/*.hpp", "python/**/*.py")
    sources = [path for folder in folders for path in ROOT.glob(folder)]
    written = "\n".join(path.read_text() for path in sources).replace(r"\"", "'")
    code = re.sub(r'"\s*[fr]?"', "", written)  # literals that are one text
    page = (ROOT / "docs/troubleshooting.md").read_text().replace('"', "'")
    errors = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert len(errors) > 30
    others = ("An attempt", "The global interpreter lock")  # of Python
    parts = {
        part.strip() for text in errors if not text.startswith(others) for part in text.split("...")
    }
    assert [part for part in parts if part not in code] == []


def test_every_variable_that_is_read_is_on_the_page() -> None:
    page = (ROOT / "docs/environment.md").read_text()
    sources = [*ROOT.glob("src/**/*.cpp"), *ROOT.glob("python/**/*.py")]
    code = "\n".join(path.read_text() for path in sources if not path.name.endswith("_test.cpp"))
    read = set(
        re.findall(r'(?:getenv\(|environ\[|environ\.get\(|budget_bytes, )"(TENSORBUS_\w+)"', code)
    )
    assert len(read) > 5
    assert {name for name in read if f"`{name}`" not in page} == set()
