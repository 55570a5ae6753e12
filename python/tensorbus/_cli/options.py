"""Options and arguments of several commands, and their completion."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from tensorbus import _core
from tensorbus._base.participant import participant
from tensorbus._topics.listing import list_topics

# Prefix of the names of queues that carry requests to services.
SERVICE_PREFIX = "service:"


def _completer(names: Callable[[str | None], Iterable[str]]) -> Callable[[Any, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found = names(ctx.params.get("domain"))
        return sorted({name for name in found if name.startswith(incomplete)})

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str}
    return complete


def _queues(domain: str | None) -> list[str]:
    return [queue.name for queue in _core.list_queues(participant(domain))]


def _processes(domain: str | None) -> list[str]:
    """The processes of the only pipeline on the domain."""
    from tensorbus._up.client import ask, find
    from tensorbus._up.control import Request

    reply = ask(find(domain, None), Request("status"), ASK)
    return [each["process"] for each in reply["processes"]]


def _utf8(name: Any) -> Any:
    """A name, or a list of names. Bytes that the locale cannot decode are decoded as UTF-8."""
    if isinstance(name, list):
        return [*map(_utf8, name)]
    if isinstance(name, str) and any("\udc80" <= character <= "\udcff" for character in name):
        return os.fsencode(name).decode(errors="surrogateescape")
    return name


def _named(help: str, completer: Callable[[Any, str], list[str]]) -> Any:
    """An argument that is a name on the bus."""
    return typer.Argument(help=help, callback=_utf8, autocompletion=completer)


_complete_topic = _completer(lambda domain: (topic.name for topic in list_topics(domain)))
_complete_queue = _completer(
    lambda domain: (name for name in _queues(domain) if not name.startswith(SERVICE_PREFIX))
)
_complete_process = _completer(_processes)


def _awaited(domain: str | None) -> list[str]:
    queues = _queues(domain)
    named = [name if name.startswith(SERVICE_PREFIX) else f"queue:{name}" for name in queues]
    return [*(topic.name for topic in list_topics(domain)), *named]


Topic = Annotated[str, _named("The topic's name.", _complete_topic)]
Topics = Annotated[
    list[str] | None,
    _named("Names of topics.", _complete_topic),
]
ProcessName = Annotated[str, _named("The name of a process.", _complete_process)]
OptionalProcessName = Annotated[
    str,
    _named("The name of a process; by default all.", _complete_process),
]
QueueNames = Annotated[list[str], _named("Names of queues.", _complete_queue)]
AwaitedNames = Annotated[
    list[str],
    _named("A topic with a publisher, queue:NAME, or service:NAME.", _completer(_awaited)),
]
Domain = Annotated[str | None, typer.Option(help="A name or a path in place of $TENSORBUS_DOMAIN.")]
Timeout = Annotated[float, typer.Option(min=0, help="Seconds to wait for answers.", metavar="S")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object on each line.")]

ASK = 1.0  # seconds


def finite(seconds: float | None) -> float | None:
    """Checks an option in seconds; typer's `min` lets "nan" pass.

    Raises:
        typer.BadParameter: it is not finite.
    """
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds}: expected a number of seconds")
    return seconds


def compressions(given: list[str]) -> str | dict[str, str] | None:
    """The values of `--compress` as `Recorder` takes them.

    >>> compressions(["zstd"]), compressions(["a=zstd", "b=lz4"]), compressions([])
    ('zstd', {'a': 'zstd', 'b': 'lz4'}, None)
    """
    if not given:
        return None
    for method in (text.rpartition("=")[2] for text in given):
        if method not in ("zstd", "lz4", "none"):
            raise typer.BadParameter(f"--compress {method!r}: expected zstd, lz4 or none")
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [text.rpartition("=") for text in given]
    for text, (topic, _, method) in zip(given, pairs, strict=True):
        if not (topic and method):
            raise typer.BadParameter(f"--compress {text!r}: expected TOPIC=zstd or TOPIC=lz4")
    return {topic: method for topic, _, method in pairs}


def group(help: str) -> typer.Typer:
    """A group of commands."""
    made = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)
    made.callback(help=help)(lambda: None)  # without it, a group of one command would be that one
    return made
