"""The references of C and C++: a page of Markdown for each public header, made of its comments.

A comment belongs to the declarations below it, up to a blank line or the next comment; what is
indented in it is an example. Private members, friends, bodies, and what is in a namespace or folder
called `detail` or `internal` are left out. Headers are read as clang-format writes them: each
declaration begins a line.

    for page in pages(Path("/usr/include")):
        page.name, page.markdown      # "tensorbus/bus/publisher.hpp", "# ..."
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from textwrap import dedent

HIDDEN = {"detail", "internal"}
FORMER_PATH = "// Kept until 1.0: the former path of this header."
LITERALS_AND_COMMENTS = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S
)
TEMPLATE = r"(?:template\s*<.*?>\s*(?:requires[^{;]*?)?(?=class|struct|union|enum))?"
CLASS = re.compile(TEMPLATE + r"(class|struct|union)\s+(?:[A-Z_]+\s+)?(\w+)\b[^;(={]*\{", re.S)
ENUM = re.compile(r"(?:typedef\s+)?enum\b[^;{]*\{")
NAMESPACE = re.compile(r'(?:(?:inline\s+)?namespace\b\s*([\w:]*(?:inline\s+\w+)?)|extern "C")\s*\{')
LABEL = re.compile(r"(public|protected|private):")
LEFT_OUT = re.compile(
    r"#(?!define)|#define (?:\w+_|\w+_H)\b|static_assert"
    r"|template\s*<>|[A-Z][A-Z0-9_]*\(|friend\b[^{]*;"
    r"|(?:template\s*<.*>\s*)?(?:class|struct|union|enum class)\s+\w+;",
    re.S,
)
INVISIBLE = re.compile(r"#(?!define \w+_\b)")  # of what is left out, what takes no comment along
MAX_NAMES = 3


@dataclass
class Group:
    """A comment and the declarations below it."""

    comment: list[str] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)


@dataclass
class Page:
    name: str  # what programs include
    markdown: str


def pages(include: Path) -> Iterator[Page]:
    """A page for each public header below a folder of an installed tree."""
    for path in sorted([*include.rglob("*.hpp"), *include.rglob("*.h")]):
        name = path.relative_to(include)
        if is_described(name, path):
            yield Page(str(name), page_of(str(name), path.read_text()))


def is_described(name: Path, header: Path) -> bool:
    """Has a header a page? Not one that only includes another: its former path."""
    return not HIDDEN.intersection(name.parts) and FORMER_PATH not in header.read_text()


def page_of(name: str, header: str) -> str:
    parts = [f"# {name}", code(f"#include <{name}>")]
    for group in groups(header):
        parts += rendered(group, "##")
    return "\n\n".join(parts) + "\n"


def groups(text: str) -> Iterator[Group]:
    """The groups of a scope; those of a namespace are of the scope around it."""
    group = Group()
    for part in parts_of(text):
        if begins_a_group(part, group):
            yield group
            group = Group()
        if part.startswith("//"):
            group.comment.append(part[2:])
        elif found := NAMESPACE.match(part):
            if not HIDDEN.intersection((found[1] or "").split("::")):
                yield from groups(body_of(part))
        elif not LEFT_OUT.match(part):
            group.declarations += [part] if part else []
        elif not INVISIBLE.match(part):
            group.comment.clear()
    yield group


def parts_of(text: str) -> Iterator[str]:
    """Lines of comments, empty lines, and whole declarations."""
    lines = iter(line_comments(text).splitlines())
    for line in lines:
        is_declaration = line.strip() and not line.lstrip().startswith("//")
        yield whole_declaration(line, lines) if is_declaration else line.strip()


def begins_a_group(part: str, group: Group) -> bool:
    """A class with functions has a group to itself, since its members come below it."""
    if not part or NAMESPACE.match(part):
        return True
    if not group.declarations:
        return False
    return part.startswith("//") or has_functions(part) or has_functions(group.declarations[-1])


def line_comments(text: str) -> str:
    """With block comments that are not in something written as line comments."""

    def rewritten(block: re.Match[str]) -> str:
        lines = [re.sub(r"^\s*\*? ?", " ", line) for line in block[1].strip("*").splitlines()]
        return "\n".join(f"//{line.rstrip()}" for line in lines)

    return re.sub(r"^/\*(.*?)\*/[ \t]*$", rewritten, text, flags=re.S | re.M)


def whole_declaration(first: str, rest: Iterator[str]) -> str:
    lines = [first]
    while not is_whole(lines):
        line = next(rest, None)
        if line is None:
            break
        lines.append(line)
    return dedent("\n".join(lines)).strip()


def is_whole(lines: list[str]) -> bool:
    if lines[0].lstrip().startswith("#"):
        return not lines[-1].endswith("\\")
    bare = LITERALS_AND_COMMENTS.sub("", "\n".join(lines)).strip()
    if any(bare.count(left) != bare.count(right) for left, right in ("()", "{}", "[]")):
        return False
    is_macro = re.match(r"[A-Z][A-Z0-9_]*\(", bare)
    return bool(bare.endswith((";", "}")) or LABEL.fullmatch(bare) or is_macro)


def body_of(declaration: str) -> str:
    return declaration[declaration.index("{") + 1 : declaration.rindex("}")]


def public_groups(kind: str, body: str) -> Iterator[Group]:
    public = kind != "class"
    for group in groups(body):
        seen = Group(group.comment)
        for declaration in group.declarations:
            if label := LABEL.fullmatch(declaration):
                public = label[1] == "public"
            elif public:
                seen.declarations.append(declaration)
        if seen.declarations or (public and seen.comment and not group.declarations):
            yield seen


def rendered(group: Group, heading: str) -> list[str]:
    """A heading, the comment and the code, and below these the members of a class."""
    if not group.declarations:
        return prose(group.comment)
    parts = [f"{heading} {title_of(group.declarations)}", *prose(group.comment)]
    shown = dict.fromkeys(shown_code(declaration) for declaration in group.declarations)
    parts.append(code("\n".join(shown)))
    for declaration in group.declarations:
        if has_functions(declaration):
            kind = CLASS.match(declaration)[1]
            for members in public_groups(kind, body_of(declaration)):
                parts += rendered(members, heading + "#")
    return parts


def shown_code(declaration: str) -> str:
    """The declaration as a user has to know it."""
    if declaration.startswith("#define"):
        return re.match(r"#define \w+(\([^)]*\))?(?:[^\\]*$)?", declaration)[0]
    text = without_export(declaration).removeprefix("friend ")
    if has_functions(text):
        return text[: text.index("{")].rstrip() + ";"
    return signature(text) if is_function(text) else text


def without_export(declaration: str) -> str:
    """Without the mark of what the library exports; lines that were aligned behind it still are."""
    found = re.search(r"\b(?:TENSORBUS|TB)_API ", declaration)
    if found is None:
        return declaration
    aligned = re.compile(rf"\n {{{len(found[0])}}}(?= {{8}})")
    return aligned.sub("\n", declaration.replace(found[0], "", 1))


def has_functions(declaration: str) -> bool:
    found = CLASS.match(declaration)
    return bool(found) and any(
        is_function(member) and not member.endswith("= default;")
        for group in public_groups(found[1], body_of(declaration))
        for member in group.declarations
    )


def is_function(declaration: str) -> bool:
    """Does a parenthesis come before anything that makes it a value or a type?"""
    if CLASS.match(declaration) or ENUM.match(declaration) or declaration.startswith("typedef"):
        return False
    head = re.sub(r"^template\s*<.*?>\s*(?=\w)", "", declaration, flags=re.S)
    return bool(re.match(r"(?:[^={;(]|operator\S+)*\(", head)) and not head.startswith("using")


def signature(function: str) -> str:
    """Without its body and what it initialises."""
    depth = 0
    for place, sign in enumerate(function):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth == 0 and (sign == "{" or re.match(r"\s:\s", function[place - 1 : place + 2])):
            return function[:place].rstrip() + ";"
    return function


def title_of(declarations: list[str]) -> str:
    names = list(dict.fromkeys(name_of(declaration) for declaration in declarations))
    usual = [name for name in names if not re.match(r"~|operator=$", name)] or names
    return escaped(", ".join(usual[:MAX_NAMES]) + (", ..." if len(usual) > MAX_NAMES else ""))


def name_of(declaration: str) -> str:
    """What it declares."""
    if found := CLASS.match(declaration):
        return found[2]
    if found := re.match(r"typedef\b.*?(?:\(\*(\w+)\)\(.*\)|\b(\w+));$", declaration, re.S):
        return found[1] or found[2]
    if found := re.match(r"enum\s*\{\s*(\w+)", declaration):
        return found[1]
    if found := re.match(r"enum\s+(?:class\s+)?(\w+)", declaration):
        return found[1]
    if found := re.search(r"(?:\busing|\bconcept|#define)\s+(\w+)", declaration):
        return found[1]
    if found := re.search(r"\b(operator\s*(?:\(\)|[^\s(]+))\s*\(", declaration):
        return found[1]
    if is_function(declaration):
        head = re.sub(r"^template\s*<.*?>\s*(?=\w)", "", declaration, flags=re.S)
        return re.search(r"(~?\w+)\s*\(", head)[1]
    return re.search(r"(\w+)\s*(?:=|\{|;|\[)", declaration)[1]


def prose(comment: list[str]) -> list[str]:
    """Paragraphs, and examples as code."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(comment)):
        for is_code, lines in runs(paragraph.splitlines()):
            text = dedent("\n".join(lines)).strip()
            parts.append(code(text) if is_code else escaped(text))
    return joined_examples([part for part in parts if part])


def runs(lines: list[str]) -> Iterator[tuple[bool, list[str]]]:
    """Lines that follow one another and are all of an example, or all of prose."""
    for is_code, run in groupby(lines, key=example_or_prose()):
        yield is_code, list(run)


def example_or_prose() -> Callable[[str], bool]:
    in_list = False

    def is_example(line: str) -> bool:
        nonlocal in_list
        in_list = in_list or line.startswith(" - ")
        return line.startswith("   ") and not in_list

    return is_example


def joined_examples(parts: list[str]) -> list[str]:
    """An example with a blank line in it is one."""
    joined = "\n\n".join(parts)
    return [joined.replace("\n```\n\n```cpp\n", "\n\n")] if joined else []


def code(text: str) -> str:
    return f"```cpp\n{text}\n```"


def escaped(text: str) -> str:
    """For Markdown. What is in backticks stays as it is, and names of pages become links."""
    parts = re.split(r"(`[^`\n]*`|\bdocs/(?:\w+/)*[\w-]+\.md)", text)
    return "".join(one_escaped(part) for part in parts)


def one_escaped(part: str) -> str:
    if part.startswith("`"):
        return part
    if page := re.fullmatch(r"docs/(.*\.md)", part):
        return f"[{part}](/{page[1]})"
    return re.sub(r"([\\*_<>\[\]#|~])", r"\\\1", part)
