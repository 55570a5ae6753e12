"""The error of a value that is not of its declared type."""

from __future__ import annotations


class Mismatch(Exception):
    """The place in a message, the expected type, and the value's type.

    Internal to the package: users get `MessageError`.
    """

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.path = ""
        self.expected = expected
        self.got = got

    def inside(self, step: str) -> Mismatch:
        """Prepends a step, `.field` or `[2]`: the place of the value in the value around it."""
        self.path = step + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, got {self.got}"


def refused(expected: str, value: object) -> Mismatch:
    """The error of a value.

    >>> str(refused("int", "seven"))
    ': expected int, got str'
    """
    return Mismatch(expected, class_name(type(value)))


def class_name(kind: type) -> str:
    """The name of a class as a program writes it.

    >>> class_name(int), class_name(Mismatch)
    ('int', 'tensorbus.messages._mismatch.Mismatch')
    """
    if kind.__module__ == "builtins":
        return "None" if kind is type(None) else kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"
