"""The contexts of this package by start method. `tensorbus.multiprocessing.context` adds them."""

from __future__ import annotations

import multiprocessing
from typing import Any

by_method: dict[str, Any] = {}


def context_of(method: str | None) -> Any:
    """The context of a start method; None: of the current start method.

    Raises:
        ValueError: this system has no such start method.
    """
    try:
        context = by_method[method or multiprocessing.get_start_method()]
    except KeyError:
        raise ValueError(f"cannot find context for {method!r}") from None
    context._check_available()
    return context
