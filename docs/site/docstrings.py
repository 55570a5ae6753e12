"""Docstrings, as Sphinx has to see them."""

from __future__ import annotations

import re

from links import in_docstring

FIELD = re.compile(r"Alias for field number \d+")  # what NamedTuple writes
SIGNATURE = re.compile(r"(?:def )?\w*\(self\) -> (?P<returns>.+)")  # what nanobind writes


def readable_docstring(what: str, lines: list[str]) -> list[str]:
    if what == "class" and "Fields:" in lines:  # of `help()`: the site has them as attributes
        lines = lines[: lines.index("Fields:") - 1]
    first, rest = lines[:1], [in_docstring(line) for line in lines[1:]]
    text = in_docstring("".join(first))
    if FIELD.fullmatch(text):
        return rest
    if found := SIGNATURE.fullmatch(text):
        return [f"``{found['returns'] if what == 'property' else text}``", *rest]
    if what == "property":  # or napoleon takes the words before a colon for its type
        return ["\\ ", text, *rest]
    return [text, *rest]
