"""The pages of the site that are made: the references of C++ and C, the examples, the changelog.

python docs/site/pages.py INCLUDE TARGET    with the folder of the installed headers
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from headers import pages

ROOT = Path(__file__).parents[2]
LANGUAGES = {".py": "python", ".cpp": "cpp", ".cu": "cpp", ".c": "c", ".txt": "cmake"}


def main(include: Path, target: Path) -> None:
    write_references(include, target / "reference")
    write_examples(target / "examples")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    (target / "changelog.md").write_text(changelog.replace("](docs/", "]("))
    copy_plots(target / "plots")


def write_references(include: Path, target: Path) -> None:
    """Of C++, `cpp.md` and the folder `cpp`; of C, `c.md` and `c`."""
    for language, suffix in (("cpp", ".hpp"), ("c", ".h")):
        entries = []
        for page in pages(include):
            if not page.name.endswith(suffix):
                continue
            file = re.sub(r"\W", "_", page.name.removeprefix("tensorbus/")) + ".md"
            entries.append(f"{page.name} <{language}/{file}>")
            write(target / language / file, page.markdown)
        add_toctree(target / f"{language}.md", entries)


def copy_plots(target: Path) -> None:
    target.mkdir(exist_ok=True)
    for plot in (ROOT / "bench" / "results").glob("*.svg"):
        shutil.copy(plot, target)


def write_examples(target: Path) -> None:
    entries = []
    for folder in sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir()):
        entries.append(folder.name)
        write(target / f"{folder.name}.md", example(folder))
    write(target / "index.md", "# Examples\n")
    add_toctree(target / "index.md", entries)


def example(folder: Path) -> str:
    """Its README and its programs."""
    readme = folder / "README.md"
    parts = [readme.read_text() if readme.exists() else f"# {folder.name}"]
    for path in sorted(folder.iterdir()):
        if language := LANGUAGES.get(path.suffix):
            parts.append(f"## {path.name}\n\n```{language}\n{path.read_text()}```")
    return "\n\n".join(parts) + "\n"


def add_toctree(page: Path, entries: list[str]) -> None:
    lines = ["```{toctree}", ":maxdepth: 1", "", *entries, "```"]
    page.write_text(page.read_text() + "\n" + "\n".join(lines) + "\n")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
