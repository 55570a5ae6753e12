"""What the names that users see have in common: where they say they are from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Public = TypeVar("Public", bound=Callable[..., Any])


def public(found: Public) -> Public:
    """A class or function that users import from `tensorbus`: errors and pickles name it so."""
    found.__module__ = "tensorbus"
    return found
