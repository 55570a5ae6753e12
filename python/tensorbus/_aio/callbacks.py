"""What users hand in to be called, checked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tensorbus._base.errors import InvalidArgument

Mode = Literal["async", "sync"]
Callback = Callable[..., Any]

# What a callback in a thread may raise. All else ends its node: sys.exit, Ctrl-C.
RAISED = Exception, asyncio.CancelledError


def checked_mode(mode: object) -> Mode:
    """Where callbacks run: in the event loop, or in threads of their own."""
    if mode == "async" or mode == "sync":
        return mode
    raise InvalidArgument(f"mode={mode!r}: expected 'async' or 'sync'")


def checked_callback(
    callback: object, mode: Mode, arguments: Sequence[str] | None = None
) -> Callback:
    """A callback that can be called in that mode.

    Args:
        arguments: what it is called with, in words; None: the caller does not know.

    Raises:
        InvalidArgument: there is none.
        TypeError: it cannot be called, not with so many arguments, or it is a coroutine function
            and nobody would await it.
    """
    if callback is None:
        raise InvalidArgument(f"callback=None: mode={mode!r} needs one here")
    if not callable(callback):
        raise TypeError(f"callback={callback!r}: expected a function")
    if mode == "sync" and is_coroutine_function(callback):
        raise TypeError(
            f"{called(callback)} is a coroutine function: mode='sync' needs a plain one"
        )
    if arguments is not None:
        _check_arguments(callback, arguments)
    return callback


def _check_arguments(callback: Callback, arguments: Sequence[str]) -> None:
    try:
        signature = inspect.signature(callback, follow_wrapped=False)
    except (TypeError, ValueError):  # of a function in C that does not say
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{called(callback)}{signature} cannot be called as "
            f"callback({', '.join(arguments)}): {error}"
        ) from None


def is_coroutine_function(callback: Callback) -> bool:
    """
    >>> async def tick(): ...
    >>> is_coroutine_function(tick), is_coroutine_function(print)
    (True, False)
    """
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004  (an object with an async __call__)
    )


def called(callback: Callback) -> str:
    """What it is called, for messages."""
    return getattr(callback, "__qualname__", None) or repr(callback)


async def outcome_of(result: Any) -> Any:
    """Of a callback of either kind: what it returned, or what came of the coroutine."""
    return await result if inspect.isawaitable(result) else result


def is_cancelled() -> bool:
    """Has somebody cancelled the task, or did the callback raise CancelledError by itself?"""
    task = asyncio.current_task()
    if task is None or not hasattr(task, "cancelling"):  # Python 3.10 cannot tell
        return True
    return bool(task.cancelling())
