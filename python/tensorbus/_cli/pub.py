"""``tensorbus topic pub``: publishes values, images and arrays."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain, islice
from typing import Annotated, Any

import typer

from tensorbus._base.stop_event import StopEvent
from tensorbus._cli.options import Domain, Json, Topic, group
from tensorbus._cli.output import fail
from tensorbus._cli.records import print_record
from tensorbus._cli.sources import Source, sources_of
from tensorbus._tensors import numpy_arrays
from tensorbus._topics.publisher import Publisher
from tensorbus.messages._standard import ImageMessage

app = group("Publish to a topic.")

_EXAMPLES = """\b
Examples:
  tensorbus topic pub speed 1.5
  tensorbus topic pub state '{"id": 7, "ready": true}' --rate 10
  tensorbus topic pub image '[[0, 255], [255, 0]]' --type uint8
  tensorbus topic pub goal '[0, 0, 1]' --type tensorbus.PoseMessage
  tensorbus topic pub camera/image frames/ --rate 30 --loop
  tensorbus topic pub camera/depth depth.npy --each --rate 30
  tensorbus topic pub map map.npy --history 1
  jq -c '.points[]' run.json | tensorbus topic pub points -"""


@app.command("pub", epilog=_EXAMPLES)
def pub(
    topic: Topic,
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="A value, as JSON or a Python literal; an image, an array (.npy), or a folder of "
            "them; or - for lines of JSON on standard input.",
        ),
    ],
    rate: Annotated[
        float | None, typer.Option(min=1e-3, help="Samples per second.", metavar="HZ")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many samples to publish.", metavar="N")
    ] = None,
    loop: Annotated[
        bool, typer.Option("--loop", help="Start again after the last source.")
    ] = False,
    each: Annotated[
        bool,
        typer.Option("--each", help="A sample for each row of an array, or element of a list."),
    ] = False,
    history: Annotated[
        int,
        typer.Option(
            min=0,
            help="Keep the last samples for later subscribers, until Ctrl-C.",
            metavar="N",
        ),
    ] = 0,
    type_name: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="A message class, as package.module.Class, with the fields in SOURCE; "
            "or a dtype, for a NumPy array.",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the first subscriber.", metavar="S")
    ] = 1.0,
    as_json: Json = False,
    domain: Domain = None,
) -> None:
    """Publish values, images and arrays, once or at a rate.

    Values are repeated --count times or, with --rate, until Ctrl-C; files are published once, or
    again and again with --loop. Arrays are sent from their mapped files, without a copy. Images are
    sent as tensorbus.ImageMessage. Without --rate, reliable subscribers lose no sample. It is an
    error if no subscriber connects within --wait seconds, except with --rate or --history.
    """
    sources = sources_of(given)
    if loop and any(source.kind == "lines" for source in sources):
        raise typer.BadParameter("--loop cannot read standard input again")
    are_values = all(source.kind == "value" for source in sources)
    repeat = loop or (are_values and bool(rate or count))
    kind, message_of = _type_of(type_name, sources)
    messages = _messages(sources, each, repeat, message_of)
    if sources[0].kind != "lines":  # errors of the first message come before the publisher
        messages = _begun(messages)
    with Publisher[Any](
        topic, kind, history=history, reliable=rate is None, domain=domain
    ) as publisher:
        if not history and not publisher.wait_for_subscribers(timeout=wait) and rate is None:
            fail(f"topic {topic!r} has no subscriber")
        for message in _paced(islice(messages, count), rate):
            publisher.publish(message)
        sent, delivered = publisher.stats.sent, publisher.stats.delivered
        if as_json:
            print_record("published", {"topic": topic, "sent": sent, "delivered": delivered})
        else:
            print(f"published {sent}, delivered {delivered}", flush=True)
        if history:
            StopEvent().wait()


def _messages(
    sources: list[Source], each: bool, repeat: bool, message_of: Callable[[Source, Any], Any]
) -> Iterator[Any]:
    while True:
        is_empty = True
        for source in sources:
            for value in source.rows() if each else source.values():
                yield message_of(source, value)
                is_empty = False
        if is_empty or not repeat:
            return


def _begun(messages: Iterator[Any]) -> Iterator[Any]:
    """The same messages, of which the first is made now."""
    return chain([*islice(messages, 1)], messages)


def _paced(messages: Iterator[Any], rate: float | None) -> Iterator[Any]:
    """The messages, at most `rate` a second."""
    begin = time.monotonic()
    for number, message in enumerate(messages):
        if rate:
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        yield message


def _type_of(
    type_name: str | None, sources: list[Source]
) -> tuple[Any, Callable[[Source, Any], Any]]:
    """The publisher's message class, None for any data; and the function that makes messages."""
    if type_name is None:
        are_images = all(source.kind == "image" for source in sources)
        return (ImageMessage if are_images else None), _plain_message
    module, _, name = type_name.rpartition(".")
    kind: Any = None
    with _naming(type_name):
        if module:
            sys.path.insert(0, "")  # for modules in the current folder
            kind = getattr(import_module(module), name)
        else:
            numpy_arrays.learn().dtype(type_name)

    def message_of(_: Source, value: Any) -> Any:
        with _naming(type_name):
            if kind is None:
                return numpy_arrays.learn().asarray(value, type_name)
            return kind(**value) if isinstance(value, dict) else kind(value)

    return kind, message_of


@contextmanager
def _naming(type_name: str) -> Iterator[None]:
    """Context whose errors become an error of `--type`."""
    try:
        yield
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise typer.BadParameter(f"--type {type_name}: {error}") from None


def _plain_message(source: Source, value: Any) -> Any:
    if source.kind != "image":
        return value
    colours = "rgb" if value.shape[2] == 3 else "mono"
    return ImageMessage(value, encoding=f"{colours}{8 * value.itemsize}")
