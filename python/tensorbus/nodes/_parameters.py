"""Values of a node's parameters, from the command line, the environment or the program."""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public

_NAME = r"[A-Za-z_]\w*"
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


@public
@dataclass(frozen=True)
class Parameter:
    """A declared parameter of a node."""

    name: str
    """The name, without that of the node."""
    value: Any
    """The present value, of the type of the default."""
    default: Any
    """The value that the program has declared."""
    help: str
    """The description that the program has given; "": none."""
    source: str
    """The source of the value: "command line", "environment", "program" (`Node(parameters=...)`),
    "default", or "service" after `tensorbus param set`."""


def find_parameter(
    node: str, name: str, default: Any, help: str, given: Mapping[str, Any]
) -> Parameter:
    """A parameter with its value, from the first source that has a value.

    The sources are `--NODE.NAME=VALUE`, `--NAME=VALUE`, the environment's
    `TENSORBUS_NODE_<NODE>_<NAME>` in capitals unless it is empty, `Node(parameters=...)`, and the
    default. If the command line has an option several times, the last option counts. A text is read
    as a value of the default's type.

    Raises:
        InvalidArgument: the name is malformed, or the text cannot be read as that type.
    """
    if not re.fullmatch(_NAME, name, re.ASCII):
        raise InvalidArgument(f"parameter {name!r}: expected a name of letters, digits and _")
    for option in (f"--{node}.{name}", f"--{name}"):
        text = _on_command_line(option, sys.argv[1:])
        if text is not None:
            value = read_as(text, default, f"{option}={text}")
            return Parameter(name, value, default, help, "command line")
    variable = variable_of(node, name)
    text = os.environ.get(variable)
    if text:  # an empty variable counts as unset
        value = read_as(text, default, f"{variable}={text}")
        return Parameter(name, value, default, help, "environment")
    if name in given:
        return Parameter(name, given[name], default, help, "program")
    return Parameter(name, default, default, help, "default")


def check_all_declared(
    node: str, given: Mapping[str, Any], declared: Mapping[str, Parameter]
) -> None:
    """Refuses values for parameters that the node has not declared.

    A value that names the node is an error. `--NAME=VALUE` and environment variables may have
    another purpose: they cause a warning if the name is similar to that of a parameter that has its
    default.

    Raises:
        InvalidArgument: a name in `Node(parameters=...)` or `--NODE.NAME=VALUE` is not a parameter
            of the node; the message has the most similar name.
    """
    for name in given:
        if name not in declared:
            raise InvalidArgument(_unknown(node, f"parameters={{{name!r}: ...}}", name, declared))
    for option, name in _options(f"--{node}."):
        if name not in declared:
            raise InvalidArgument(_unknown(node, f"{option}=...", name, declared))
    prefix = variable_of(node, "")
    variables = [
        (variable, variable[len(prefix) :].lower())
        for variable in os.environ
        if variable.startswith(prefix)
    ]
    defaults = [name for name, each in declared.items() if each.source == "default"]
    known = {name.lower() for name in declared}
    for where, name in (*_options("--"), *variables):
        if name.lower() not in known and _nearest(name, defaults):
            text = _unknown(node, f"{where}=...", name, defaults)
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def log_undeclared(node: str, given: Mapping[str, Any], declared: Mapping[str, Parameter]) -> None:
    """Logs the error of `check_all_declared`, for a node that ends without having been run."""
    try:
        check_all_declared(node, given, declared)
    except InvalidArgument as error:
        logging.getLogger("tensorbus.node").warning("%s", error)


def _unknown(node: str, where: str, name: str, declared: Iterable[str]) -> str:
    nearest = _nearest(name, declared)
    names = ", ".join(repr(each) for each in declared) or "none"
    hint = f"did you mean {nearest!r}?" if nearest else f"its parameters: {names}"
    return f"{where}: node {node!r} has declared no parameter {name!r}; {hint}"


def _nearest(name: str, declared: Iterable[str]) -> str | None:
    """The most similar declared name; None if no name is similar.

    >>> _nearest("rte", ["gain", "rate"]), _nearest("fps", ["gain", "rate"])
    ('rate', None)
    """
    return next(iter(difflib.get_close_matches(name, list(declared), 1, 0.7)), None)


def _options(prefix: str) -> list[tuple[str, str]]:
    """The options on the command line with this prefix, each with the name after the prefix."""
    options = [text.partition("=")[0] for text in _before_dashes(sys.argv[1:]) if "=" in text]
    return [
        (option, option[len(prefix) :])
        for option in options
        if option.startswith(prefix) and re.fullmatch(_NAME, option[len(prefix) :], re.ASCII)
    ]


def variable_of(node: str, name: str) -> str:
    """The environment variable of a parameter.

    >>> variable_of("arm/left", "rate")
    'TENSORBUS_NODE_ARM_LEFT_RATE'
    """
    return re.sub(r"\W", "_", f"TENSORBUS_NODE_{node}_{name}", flags=re.ASCII).upper()


def _on_command_line(option: str, arguments: Sequence[str]) -> str | None:
    """The text of the last option with this name; None if there is none.

    >>> _on_command_line("--rate", ["--rate=10", "x", "--rate=20", "--", "--rate=30"])
    '20'
    """
    texts = [text for text in _before_dashes(arguments) if text.startswith(option + "=")]
    return texts[-1][len(option) + 1 :] if texts else None


def _before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def read_as(text: str, default: Any, where: str) -> Any:
    """A text as a value of the default's type.

    Raises:
        InvalidArgument: the text cannot be read as that type.

    >>> read_as("on", False, ""), read_as("3", 1.0, ""), read_as("[1, 2]", (), "")
    (True, 3.0, (1, 2))
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
