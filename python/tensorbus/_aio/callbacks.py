"""Checks of callbacks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

from tensorbus._base.errors import InvalidArgument

Mode = Literal["async", "sync"]
Callback = Callable[..., Any]

# The exceptions of a callback in a thread that are reported. All others end the node of the
# callback: those of sys.exit and Ctrl-C.
RAISED = Exception, asyncio.CancelledError


def checked_mode(mode: object) -> Mode:
    """Checks a mode: "async" callbacks run in the event loop, "sync" ones in threads."""
    if mode == "async" or mode == "sync":
        return mode
    raise InvalidArgument(f"mode={mode!r}: expected 'async' or 'sync'")


def checked_callback(
    callback: object, mode: Mode, arguments: Sequence[str] | None = None
) -> Callback:
    """Checks that a callback can be called in this mode.

    Args:
        arguments: the names of the arguments that it is called with; None: they are unknown.

    Raises:
        InvalidArgument: the callback is None.
        TypeError: the callback is not callable, does not accept the arguments, or is a coroutine
            function in mode "sync", which awaits nothing.
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
    except (TypeError, ValueError):  # a function in C without a signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{called(callback)}{signature} cannot be called as "
            f"callback({', '.join(arguments)}): {error}"
        ) from None


def is_coroutine_function(callback: Callback) -> bool:
    """Whether a call of the callback returns a coroutine.

    >>> async def tick(): ...
    >>> is_coroutine_function(tick), is_coroutine_function(print)
    (True, False)
    """
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004  (an object with an async __call__)
    )


def called(callback: Callback) -> str:
    """The callback's name, for messages."""
    return getattr(callback, "__qualname__", None) or repr(callback)


async def outcome_of(result: Any) -> Any:
    """The result of a callback, which may have returned an awaitable."""
    return await result if inspect.isawaitable(result) else result


def is_cancelled() -> bool:
    """Whether the task was cancelled; False if a callback raised CancelledError by itself."""
    task = asyncio.current_task()
    if task is None or not hasattr(task, "cancelling"):  # Python 3.10 cannot distinguish them
        return True
    return bool(task.cancelling())
