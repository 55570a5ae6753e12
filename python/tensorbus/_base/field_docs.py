"""The texts of a class's fields, in its docstring: for `help()`, which shows no others."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise

_WIDTH = 88  # columns of the lines


class FieldDocs:
    """The docstring of a class with fields. The section "Fields" is made when it is read.

    Python drops a string that follows a field, so the texts are read from the source file. Without
    the file, the docstring has no section.
    """

    def __init__(self, cls: type) -> None:
        self._own = inspect.cleandoc(cls.__doc__ or "")
        self._module = cls.__module__
        self._name = cls.__qualname__
        self._made: str | None = None

    def __get__(self, instance: object, owner: type) -> str:
        if self._made is None:
            section = "\n".join(self._lines())
            self._made = f"{self._own}\n\nFields:\n{section}" if section else self._own
        return self._made

    def _lines(self) -> Iterator[str]:
        body = self._body()
        for field, text in pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(name), annotation=kind), ast.Expr(
                    ast.Constant(str(words))
                ):
                    yield textwrap.fill(
                        f"{name} ({ast.unparse(kind)}): {' '.join(words.split())}",
                        _WIDTH,
                        initial_indent=4 * " ",
                        subsequent_indent=8 * " ",
                        break_long_words=False,
                        break_on_hyphens=False,
                    )

    def _body(self) -> list[ast.stmt]:
        try:
            tree = ast.parse(inspect.getsource(sys.modules[self._module]))
        except (KeyError, OSError, TypeError, SyntaxError):
            return []
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == self._name:
                return node.body
        return []


def has_fields(cls: object) -> bool:
    """Whether this is a dataclass or a named tuple."""
    return isinstance(cls, type) and bool({"__dataclass_fields__", "_fields"} & vars(cls).keys())
