"""What a worker that is not forked can import: nothing of a program without a file."""

from __future__ import annotations

import os
import re
from functools import partial
from multiprocessing.context import BaseContext
from multiprocessing.spawn import get_preparation_data
from typing import Any

from tensorbus._base.errors import Unsupported

_REMEDY = 'or make the pool with context="fork"'


def check_importable(context: BaseContext, *called: object) -> None:
    """Checks that workers can import functions, which they get by name.

    A worker that is not forked runs the file of the program first, as multiprocessing does. A cell
    of a notebook, an interactive session and standard input are no files.

    Args:
        context: starts the workers.
        called: functions, or other objects that are called.

    Raises:
        Unsupported: workers cannot import one of them, or cannot start at all; the message names
            the remedy.
    """
    if context.get_start_method() == "fork":
        return
    start = get_preparation_data("")  # what multiprocessing sends to a new process
    path = start.get("init_main_from_path")
    if path is not None and os.path.basename(path) == "<stdin>":
        raise Unsupported(
            "this program was read from standard input, and a worker, which is a new interpreter, "
            f"cannot read it again: write the program into a file, {_REMEDY}"
        )
    module = start.get("init_main_from_name", "__main__")
    if path is not None or not f".{module}".endswith(".__main__"):
        return
    for each in map(_defined, called):
        if getattr(each, "__module__", None) == "__main__":
            raise Unsupported(_why(repr(getattr(each, "__qualname__", each))))


def why_not_imported(error: AttributeError) -> str:
    """Why a worker could not unpickle an item, with the remedy; "" if `__main__` is not the cause.

    >>> why_not_imported(AttributeError("Can't get attribute 'f' on <module '__main__'>"))[:26]
    "Can't get attribute 'f' on"
    >>> why_not_imported(AttributeError("Can't get attribute 'f' on <module 'shapes'>"))
    ''
    """
    text = str(error)
    return _why(text) if re.search("module '__(mp_)?main__'", text) else ""


def _defined(called: Any) -> Any:
    """The function or class that pickle looks up for an object that is called."""
    while isinstance(called, partial):
        called = called.func
    called = getattr(called, "__func__", called)  # of a method
    return called if hasattr(called, "__qualname__") else type(called)


def _why(name: str) -> str:
    return (
        f"{name}: a worker, which is a new interpreter, cannot import what a cell of a notebook, "
        "an interactive session or `python -c` defines: write it into a module and import it from "
        f"there, {_REMEDY}"
    )
