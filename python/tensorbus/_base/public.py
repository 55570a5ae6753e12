"""The names and texts of public classes and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tensorbus._base.field_docs import FieldDocs, has_fields

Public = TypeVar("Public", bound=Callable[..., Any])


def public(exported: Public) -> Public:
    """Decorator: errors and pickles name this class or function as a member of `tensorbus`.

    The docstring of a dataclass, or of a named tuple, gets the texts of its fields.
    """
    if has_fields(exported):
        exported.__doc__ = FieldDocs(exported)  # type: ignore[arg-type, assignment]
    exported.__module__ = "tensorbus"
    return exported
