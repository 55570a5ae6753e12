"""Values that a node takes from outside: of the command line, the environment, the program."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


@public
@dataclass(frozen=True)
class Parameter:
    """A declared parameter of a node."""

    name: str
    value: Any
    default: Any
    help: str
    source: str  # "command line", "environment", "program" or "default"


def found(node: str, name: str, default: Any, help: str, given: Mapping[str, Any]) -> Parameter:
    """A parameter's value, from the first place that has one.

    `--NODE.NAME=VALUE`, then `--NAME=VALUE`, then the environment's `TENSORBUS_NODE_<NODE>_<NAME>`
    in capitals, then what the program gave to `Node(parameters=...)`, then the default. The last
    of several on the command line counts. Texts are read as the type of the default.

    Raises:
        InvalidArgument: a name that is none, or a text that cannot be read as that type.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise InvalidArgument(f"parameter {name!r}: expected a name of letters, digits and _")
    for option in (f"--{node}.{name}", f"--{name}"):
        text = _on_command_line(option, sys.argv[1:])
        if text is not None:
            value = _read(text, default, f"{option}={text}")
            return Parameter(name, value, default, help, "command line")
    variable = variable_of(node, name)
    text = os.environ.get(variable)
    if text is not None:
        value = _read(text, default, f"{variable}={text}")
        return Parameter(name, value, default, help, "environment")
    if name in given:
        return Parameter(name, given[name], default, help, "program")
    return Parameter(name, default, default, help, "default")


def variable_of(node: str, name: str) -> str:
    """
    >>> variable_of("arm/left", "rate")
    'TENSORBUS_NODE_ARM_LEFT_RATE'
    """
    return re.sub(r"\W", "_", f"TENSORBUS_NODE_{node}_{name}", flags=re.ASCII).upper()


def _on_command_line(option: str, arguments: Sequence[str]) -> str | None:
    """
    >>> _on_command_line("--rate", ["--rate=10", "x", "--rate=20", "--", "--rate=30"])
    '20'
    """
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]
    texts = [text for text in arguments if text.startswith(option + "=")]
    return texts[-1][len(option) + 1 :] if texts else None


def _read(text: str, default: Any, where: str) -> Any:
    """
    >>> _read("on", False, ""), _read("3", 1, ""), _read("3", 1.0, ""), _read("[1, 2]", (), "")
    (True, 3, 3.0, (1, 2))
    """
    read = _reader(default)
    try:
        return read(text)
    except ValueError:
        wanted = "text" if default is None else type(default).__name__
        raise InvalidArgument(f"{where}: expected {wanted}") from None


def _reader(default: Any) -> Callable[[str], Any]:
    if default is None or isinstance(default, str):
        return str
    if isinstance(default, bool):
        return _as_bool
    if isinstance(default, int | float):
        return type(default)
    if isinstance(default, list | tuple | dict):
        return _as_json(type(default))
    raise InvalidArgument(
        f"default={default!r}: expected a bool, int, float, str, list, tuple, dict or None"
    )


def _as_bool(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _as_json(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = json.loads(text)
        if not isinstance(value, list if kind is tuple else kind):
            raise ValueError(text)
        return kind(value)

    return read
