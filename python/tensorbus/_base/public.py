"""What the names that users see have in common: where they say they are from, and old keywords."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Public = TypeVar("Public", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


def public(found: Public) -> Public:
    """A class or function that users import from `tensorbus`: errors and pickles name it so."""
    found.__module__ = "tensorbus"
    return found


def renamed(**new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets callers use the old names of keywords, with a warning, until Tensorbus 1.0.

    Args:
        new_names: the new name of each keyword, by its old one.

    >>> @renamed(most="max_count")
    ... def take(max_count): return max_count
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     take(most=3), str(told[0].message)
    (3, 'take(most=...) is deprecated: use max_count=')
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in new_names:
                if old in kwargs:
                    _rename(function.__qualname__, kwargs, old, new_names[old])
            return function(*args, **kwargs)

        return call

    return decorate


def positional(old: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets callers of a method give its first argument by its old name, with a warning.

    >>> class Pool:
    ...     @positional("item")
    ...     def submit(self, function, /): return function
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     Pool().submit(item=3), str(told[0].message)
    (3, 'Pool.submit(item=...) is deprecated: give it without a name')
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) == 1 and old in kwargs:
                message = (
                    f"{function.__qualname__}({old}=...) is deprecated: give it without a name"
                )
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                args = (*args, kwargs.pop(old))  # type: ignore[assignment]
            return function(*args, **kwargs)

        return call

    return decorate


def _rename(function: str, given: dict[str, Any], old: str, new: str) -> None:
    if new in given:
        raise TypeError(f"{function}() got {new!r} and {old!r}, its old name: give {new!r} alone")
    function = function.removesuffix(".__init__")
    message = f"{function}({old}=...) is deprecated: use {new}="
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    given[new] = given.pop(old)
