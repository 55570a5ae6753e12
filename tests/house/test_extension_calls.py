"""The extension looks at what Python's C interface returns: it may be null."""

from __future__ import annotations

import re

import pytest

from support.repository import ROOT

SOURCES = ROOT / "src" / "tensorbus" / "python"
HELPERS = {SOURCES / "bindings.hpp", SOURCES / "stable_abi.hpp"}  # checked(), utf8_of()

# Calls whose result would be used without a look, and what to write instead.
RAW = {
    r"\bnb::steal(<|\()": "checked(): a null is the exception of the call",
    r"nb::str>\(.*\)\.c_str\(\)": "utf8_of(): a str with a lone surrogate has no UTF-8",
    r"\bPyUnicode_AsUTF8": "utf8_of(): a str with a lone surrogate has no UTF-8",
}


@pytest.mark.parametrize("call", RAW)
def test_no_result_is_used_without_a_look(call: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.[ch]pp"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(call, line) and path not in HELPERS
    ]
    assert found == [], f"write {RAW[call]}"
