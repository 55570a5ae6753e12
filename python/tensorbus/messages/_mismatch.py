"""A value that is not of its declared type."""

from __future__ import annotations


class Mismatch(Exception):
    """Inside the package: where in a message, what was expected, what came.

    Users see `MessageError`.
    """

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(expected, came)
        self.path = ""
        self.expected = expected
        self.came = came

    def inside(self, step: str) -> Mismatch:
        """The same, seen from the value that holds this one: `.field`, `[2]`."""
        self.path = step + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, got {self.came}"


def refused(expected: str, value: object) -> Mismatch:
    """
    >>> str(refused("int", "seven"))
    ': expected int, got str'
    """
    return Mismatch(expected, class_name(type(value)))


def class_name(kind: type) -> str:
    """As one would write it in a program.

    >>> class_name(int), class_name(Mismatch)
    ('int', 'tensorbus.messages._mismatch.Mismatch')
    """
    if kind.__module__ == "builtins":
        return "None" if kind is type(None) else kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"
