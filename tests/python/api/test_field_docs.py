"""The fields of public dataclasses and named tuples have texts that `help()` shows."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
import sys
from types import ModuleType
from typing import Any

import pytest

import tensorbus as tb
from tensorbus._base.field_docs import FieldDocs, has_fields

CLASSES = [cls for name in tb.__all__ if has_fields(cls := getattr(tb, name))]
UNITS = {
    "_ns": "anosecond",
    "bytes": "ytes",
    "_sec": "Seconds",
    "hz": "second",
    "_wait": "econds",
    "_run": "econds",
}


def names_of(cls: Any) -> list[str]:
    fields = getattr(cls, "_fields", None)
    return [*fields] if fields else [field.name for field in dataclasses.fields(cls)]


def texts_of(cls: Any) -> dict[str, str]:
    """The text of each field in the docstring."""
    _, _, section = str(inspect.getdoc(cls)).partition("\n\nFields:\n")
    found = re.split(r"(?:^|\n) {4}(?=\w)", section)
    parts = (re.fullmatch(r"(\w+) \((?:.|\n)+?\): ((?:.|\n)+)", each) for each in found if each)
    return {part[1]: part[2] for part in parts if part}


def test_there_are_many() -> None:
    assert {tb.Header, tb.PoolStats, tb.Inspection, tb.ImageMessage, tb.VideoFrame} <= {*CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_field_has_a_text_and_its_unit(cls: Any) -> None:
    texts = texts_of(cls)
    assert [*texts] == names_of(cls)
    for name, text in texts.items():
        assert text.endswith(".")
        for end, unit in UNITS.items():
            if name.endswith(end):
                assert unit in text, name


def test_help_shows_them() -> None:
    shown = pydoc.plain(pydoc.render_doc(tb.Header))
    assert "timestamp_ns (int): The wall clock when it was published, in nanoseconds" in shown
    assert tb.Header(1, 2, "t", "p", 3).__doc__ == tb.Header.__doc__


def test_without_the_source_the_docstring_has_no_section() -> None:
    module = ModuleType("sourceless")
    sys.modules["sourceless"] = module
    try:

        @dataclasses.dataclass
        class Pair:
            """Two numbers."""

            left: int
            """The left one."""

        Pair.__module__ = "sourceless"
        Pair.__doc__ = FieldDocs(Pair)  # type: ignore[assignment]
        assert Pair.__doc__ == "Two numbers."
    finally:
        del sys.modules["sourceless"]
