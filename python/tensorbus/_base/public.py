"""The module name of public classes and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Public = TypeVar("Public", bound=Callable[..., Any])


def public(exported: Public) -> Public:
    """Decorator: errors and pickles name this class or function as a member of `tensorbus`."""
    exported.__module__ = "tensorbus"
    return exported
