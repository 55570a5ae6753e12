"""The site is whole: its pages, references and links. Sphinx is not needed for that."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import multiprocessing
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tensorbus as tb
import tensorbus.multiprocessing as mp
from support.repository import ROOT

DOCS = ROOT / "docs"
INCLUDE = Path(tb.__file__).parent / "include"
MADE = {"examples/index.md", "changelog.md"}  # by docs/site/pages.py
sys.path.insert(0, str(DOCS / "site"))

import links  # noqa: E402
import pages  # noqa: E402
from docstrings import readable_docstring  # noqa: E402
from headers import is_described  # noqa: E402

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|exception|data):: tensorbus\.(\S+)$", re.M)


def written() -> list[Path]:
    return [path for path in DOCS.rglob("*.md") if "site" not in path.parts]


def listed() -> set[str]:
    """The pages that the contents of all pages name."""
    found = {"index.md"}
    for page in written():
        for body in TOCTREE.findall(page.read_text()):
            for entry in filter(None, (line for line in body.split("\n") if line[:1] != ":")):
                paths = (
                    page.parent.glob(f"{entry}.md")
                    if "*" in entry
                    else [page.parent / f"{entry}.md"]
                )
                found.update(str(path.relative_to(DOCS)) for path in paths)
    return found


def test_the_pages_that_the_contents_name_are_those_that_there_are() -> None:
    assert listed() - MADE == {str(page.relative_to(DOCS)) for page in written()}


def slugs(text: str) -> set[str]:
    """How the headings of a page are named in links: as GitHub and MyST do."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in LINK.findall(re.sub(r"`[^`]*`", "", prose)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, slug = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (slug and slug not in slugs(target.read_text())):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    return broken


def test_no_link_between_pages_is_broken() -> None:
    read = [*written(), ROOT / "README.md", *(ROOT / "examples").rglob("*.md")]
    assert [link for page in read for link in broken_links(page)] == []


def test_every_public_header_is_in_the_reference(tmp_path: Path) -> None:
    if not INCLUDE.is_dir():
        pytest.skip("this package was not installed with its headers")
    contents = {".hpp": tmp_path / "cpp.md", ".h": tmp_path / "c.md"}
    for page in contents.values():
        shutil.copy(DOCS / "reference" / page.name, page)
    pages.write_references(INCLUDE, tmp_path)
    for header in (path.relative_to(INCLUDE) for path in INCLUDE.rglob("*.h*")):
        if not is_described(header, INCLUDE / header):
            continue
        named = rf"^{header} <(.*)>$"
        (file,) = re.findall(named, contents[header.suffix].read_text(), re.MULTILINE)
        assert (tmp_path / file).read_text().startswith(f"# {header}\n")


def documented() -> list[str]:
    return [
        name
        for page in (DOCS / "reference/python").glob("*.md")
        for name in DIRECTIVE.findall(page.read_text())
    ]


def test_every_public_name_is_in_the_reference() -> None:
    ours = [
        f"multiprocessing.{name}"
        for name in mp.__all__
        if name not in multiprocessing.__all__ and not isinstance(getattr(mp, name), ModuleType)
    ]
    assert set(tb.__all__) | set(ours) <= set(documented())


def test_what_the_reference_names_is_there_once_and_documented() -> None:
    names = documented()
    assert len(names) == len(set(names))
    for name in names:
        module, _, attribute = f"tensorbus.{name}".rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, str) or found.__doc__, name


def constructors() -> dict[str, list[str]]:
    """The classes of the package, and the arguments of those that programs make themselves.

    Not those of exceptions, nor of dataclasses and named tuples, whose arguments are their fields.
    """
    found = {name: getattr(tb, name) for name in tb.__all__}
    return {
        name: [*inspect.signature(value).parameters]
        for name, value in found.items()
        if inspect.isclass(value)
        and not issubclass(value, BaseException | tuple)
        and not dataclasses.is_dataclass(value)
        and value is not tb.Message  # the base of dataclasses
        and inspect.isfunction(vars(value).get("__init__"))
    }


def test_help_of_a_class_shows_its_arguments_or_the_call_that_makes_it() -> None:
    classes = constructors()
    assert "Queue" in classes
    for name, arguments in classes.items():
        text = f"{inspect.getdoc(getattr(tb, name))}\n"
        if "Made by `" in text:
            continue
        section = re.search(r"^Args:\n((?:    .*\n)+)", text, re.MULTILINE)
        assert section is not None, name
        assert [each for each in arguments if not re.search(rf"\b{each}\b", section[1])] == [], name


def test_links_out_of_the_pages_lead_to_examples_or_nowhere(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "limits.md").write_text("# Limits\n")
    text = "[a](../../examples/cpp/a.cpp) [b](../../bench) [c](../limits.md#x) `limits.md` `no.md`"
    expected = "[a](/examples/cpp.md) b [c](../limits.md#x) [`limits.md`](/limits.md) `no.md`"
    assert links.for_the_site(text, "tasks/page", tmp_path) == expected
    plot = "![a](../../bench/results/a.svg)"
    assert links.for_the_site(plot, "tasks/page", tmp_path) == "![a](/plots/a.svg)"
    (tmp_path / "tasks/view.md").write_text("# View\n")
    named = "[`view.md`](/tasks/view.md) [`tasks/view.md`](/tasks/view.md)"
    assert links.for_the_site("`view.md` `tasks/view.md`", "tasks/page", tmp_path) == named
    code = "```\n`limits.md`\n```\n"
    assert links.for_the_site(code, "tasks/page", tmp_path) == code


def test_docstrings_lead_to_pages() -> None:
    assert readable_docstring("class", ["A.", "See docs/cuda.md."]) == ["A.", "See :doc:`/cuda`."]


def test_docstrings_that_others_write_are_made_readable() -> None:
    fields = ["A.", "", "Fields:", "    a (int): One."]
    assert readable_docstring("class", fields) == ["A."]
    assert readable_docstring("property", ["(self) -> str", "", "Why."]) == ["``str``", "", "Why."]
    assert readable_docstring("method", ["bits(self) -> Memory"]) == ["``bits(self) -> Memory``"]
    assert readable_docstring("attribute", ["Alias for field number 3"]) == []
    assert readable_docstring("property", ["Counters: sent"]) == ["\\ ", "Counters: sent"]
    assert readable_docstring("class", []) == [""]
