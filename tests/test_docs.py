"""What the pages in docs say of tests is so, and what they show runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/reliability.md").read_text()


def test_the_tests_that_the_page_names_exist() -> None:
    sources = [*ROOT.glob("src/**/*_test.cpp"), *ROOT.glob("tests/cpp/**/*_test.cpp")]
    code = "\n".join(path.read_text() for path in sources)
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
    missing = [name for name in named if Path(name).name not in present]
    assert not missing


@pytest.mark.parametrize("page", ["cortex", "handles", "messages", "nodes"])
def test_the_example_of_the_page_runs(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    program = compile(example, f"docs/{page}.md", "exec", dont_inherit=True)
    exec(program, {"__name__": "__main__"})
