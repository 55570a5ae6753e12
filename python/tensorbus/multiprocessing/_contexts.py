"""Our contexts, by start method; `tensorbus.multiprocessing.context` fills them in."""

from __future__ import annotations

import multiprocessing
from typing import Any

by_method: dict[str, Any] = {}


def context_of(method: str | None) -> Any:
    """The context of a start method; of no name, of the one that is set.

    Raises:
        ValueError: there is no such method, or not here.
    """
    try:
        context = by_method[method or multiprocessing.get_start_method()]
    except KeyError:
        raise ValueError(f"cannot find context for {method!r}") from None
    context._check_available()
    return context
