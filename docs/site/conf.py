"""How Sphinx makes the site; scripts/docs runs it over a copy of docs with what pages.py adds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import readable_docstring
from links import for_the_site

from tensorbus import __version__

project = "Tensorbus"
author = "Tensorbus authors"
copyright = "Tensorbus authors"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["site"]
myst_heading_anchors = 4
napoleon_use_param = False  # one list of them, as it is written
default_role = "code"  # what single backticks mean in the docstrings

autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_docstring_signature = False  # nanobind's: readable_docstring() deals with them
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"Tensorbus {release}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False


def setup(app: Any) -> None:
    app.connect("source-read", rewrite_links)
    app.connect("autodoc-process-docstring", rewrite_docstring, priority=400)  # before napoleon


def rewrite_links(app: Any, page: str, source: list[str]) -> None:
    source[0] = for_the_site(source[0], page, Path(app.srcdir))


def rewrite_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = readable_docstring(what, lines)
