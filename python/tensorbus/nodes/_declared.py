"""The parameters that a node has declared, and the service that reads and sets them.

The service is `NODE/parameters`. The request is `{}`, or `{"set": {name: text}}`. The reply has
`parameters`, a list of dicts, or `refused`, the reason why nothing was set. A request sets one
parameter, because an `on_set` that has run cannot be undone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from tensorbus._aio.callbacks import checked_callback
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.text import text_of
from tensorbus.nodes._parameters import Parameter, check_all_declared, find_parameter, read_as

OnSet = Callable[[Any], object]


def service_name(node: str) -> str:
    """The service's name; it is the same for all nodes with this name."""
    return f"{node}/parameters"


class DeclaredParameters:
    """The parameters of one node.

    Args:
        node: the node's name.
        given: the values of `Node(parameters=...)`.
    """

    def __init__(self, node: str, given: Mapping[str, Any]) -> None:
        self.given: dict[str, Any] = dict(given)
        self.by_name: dict[str, Parameter] = {}
        self._node = node
        self._on_set: dict[str, OnSet] = {}

    def declare(self, name: str, default: Any, help: str, on_set: OnSet | None) -> Any:
        """See `Node.declare_parameter`."""
        if on_set is not None:
            checked_callback(on_set, "sync", ("value",))
        parameter = find_parameter(self._node, name, default, help, self.given)
        self.by_name[name] = parameter
        self._on_set.pop(name, None)
        if on_set is not None:
            self._on_set[name] = on_set
        return parameter.value

    def check(self) -> None:
        """See `check_all_declared`."""
        check_all_declared(self._node, self.given, self.by_name)

    def answer(self, request: object) -> dict[str, object]:
        """The service's reply to a request."""
        texts = request.get("set", {}) if isinstance(request, dict) else None
        if not _sets_at_most_one(texts):
            return {"refused": "expected {} or {'set': {name: text}} with one name"}
        try:
            for name, text in texts.items():
                value = self._read(name, text)
                self._on_set[name](value)
                self.by_name[name] = replace(self.by_name[name], value=value, source="service")
        except Exception as error:  # on_set refuses a value by raising
            return {"refused": text_of(error) or type(error).__name__}
        return {"parameters": [self._row(each) for each in list(self.by_name.values())]}

    def _read(self, name: str, text: str) -> Any:
        """The value in a request to set a parameter.

        Raises:
            InvalidArgument: the parameter cannot be set, or the text is not a value of its type.
        """
        if name not in self.by_name:
            raise InvalidArgument(f"node {self._node!r} has declared no parameter {name!r}")
        if name not in self._on_set:
            raise InvalidArgument(
                f"node {self._node!r} cannot change {name!r} while it runs: it was declared "
                "without on_set"
            )
        return read_as(text, self.by_name[name].default, f"{name}={text}")

    def _row(self, parameter: Parameter) -> dict[str, object]:
        return {
            "name": parameter.name,
            "value": _plain(parameter.value),
            "default": _plain(parameter.default),
            "help": parameter.help,
            "source": parameter.source,
            "settable": parameter.name in self._on_set,
        }


def _sets_at_most_one(texts: object) -> TypeGuard[dict[str, str]]:
    if not isinstance(texts, dict) or len(texts) > 1:
        return False
    return all(isinstance(text, str) for text in texts.values())


def _plain(value: Any) -> Any:
    """The value if JSON can represent it, else its `repr`."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value
