"""``tensorbus topic pub``: publishes values given on the command line."""

from __future__ import annotations

import ast
import itertools
import json
import sys
import time
from importlib import import_module
from typing import Annotated, Any

import typer

from tensorbus._cli.options import Domain, Topic
from tensorbus._cli.output import fail
from tensorbus._tensors import numpy_arrays
from tensorbus._topics.publisher import Publisher

EXAMPLES = """\b
Examples:
  tensorbus topic pub speed 1.5
  tensorbus topic pub state '{"id": 7, "ready": true}' --rate 10
  tensorbus topic pub image '[[0, 255], [255, 0]]' --type uint8
  tensorbus topic pub goal '[0, 0, 1]' --type tensorbus.PoseMessage"""

Value = Annotated[str, typer.Argument(help="The value, as JSON or a Python literal.")]


def pub(
    topic: Topic,
    value: Value,
    rate: Annotated[
        float | None,
        typer.Option(min=1e-3, help="Samples per second, until Ctrl-C.", metavar="HZ"),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, help="How many samples to publish; by default one.", metavar="N"),
    ] = None,
    type_name: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="A message class, as package.module.Class, with the fields in VALUE; "
            "or a dtype, for a NumPy array.",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the first subscriber.", metavar="S")
    ] = 1.0,
    domain: Domain = None,
) -> None:
    """Publish a value, once or at a rate.

    Without --rate, it is an error if no subscriber connects within --wait seconds.
    """
    message, kind = message_of(value_of(value), type_name)
    wanted = (None if rate else 1) if count is None else count
    with Publisher[Any](topic, kind, domain=domain) as publisher:
        if not publisher.wait_for_subscribers(timeout=wait) and rate is None:
            fail(f"topic {topic!r} has no subscriber")
        begin = time.monotonic()
        for number in itertools.count() if wanted is None else range(wanted):
            if rate and number:
                time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            publisher.publish(message)
        print(f"published {publisher.stats.sent}, delivered {publisher.stats.delivered}")


def value_of(text: str) -> Any:
    """The value of a text that is JSON or a Python literal.

    >>> value_of('{"ready": true}'), value_of("(1, None)")
    ({'ready': True}, (1, None))
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise typer.BadParameter(
            f"{text!r} is neither JSON nor a literal of Python; a text needs quotes of its own: "
            f"""'"{text}"'"""
        ) from None


def message_of(value: Any, type_name: str | None) -> tuple[Any, Any]:
    """The message, and the class for the publisher; None for messages of any type."""
    if type_name is None:
        return value, None
    module, _, name = type_name.rpartition(".")
    try:
        if not module:
            return numpy_arrays.learn().array(value, type_name), None
        sys.path.insert(0, "")  # for modules in the current folder
        kind = getattr(import_module(module), name)
        return kind(**value) if isinstance(value, dict) else kind(value), kind
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise typer.BadParameter(f"--type {type_name}: {error}") from None
