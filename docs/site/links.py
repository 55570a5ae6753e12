"""Links of pages, as they have to be on the site."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import join, normpath

PLOT = re.compile(r"(!\[[^\]]*\]\()(?:\.\./)+bench/results/(\w+\.svg\))")
OUTSIDE = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s]+)\)")
NAMED_PAGE = re.compile(r"(?<!\[)`((?:[\w-]+/)*[\w-]+\.md)`")
IN_DOCSTRING = re.compile(r"\bdocs/((?:\w+/)*[\w-]+)\.md")


def for_the_site(text: str, page: str, root: Path) -> str:
    """Examples have pages there, and plots lie beside them; of other files of the repository only
    the name is left. Pages that are only named become links: of this folder, or of one above."""
    folder = str(Path(page).parent)

    def outside(link: re.Match[str]) -> str:
        target = normpath(join(folder, link[2]))
        if (root / target.removeprefix("../").split("#")[0]).exists():
            return link[0]
        example = re.match(r"\.\./(examples/\w+)", target)
        return f"[{link[1]}](/{example[1]}.md)" if example else link[1]

    def named(page: re.Match[str]) -> str:
        targets = [str(above / page[1]) for above in Path(folder, "page").parents]
        found = [target for target in targets if (root / target).is_file()]
        return f"[{page[0]}](/{found[0]})" if found else page[0]

    parts = re.split(
        r"(^```.*?^```$)", OUTSIDE.sub(outside, PLOT.sub(r"\1/plots/\2", text)), flags=re.S | re.M
    )
    return "".join(
        part if part.startswith("```") else NAMED_PAGE.sub(named, part) for part in parts
    )


def in_docstring(line: str) -> str:
    return IN_DOCSTRING.sub(r":doc:`/\1`", line)
