"""``tensorbus record``."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tensorbus._base.errors import Error
from tensorbus._cli.main_memory import leave_gpus
from tensorbus._cli.options import Domain, Topics
from tensorbus._cli.output import fail
from tensorbus._inspection.units import bytes_text, shown
from tensorbus._recording.recorder import Recorder

_LOOK = 0.1  # seconds until a signal, or the end of the time, is noticed
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_EXAMPLES = """\b
Examples:
  tensorbus record camera/image pose -o run.mcap
  tensorbus record --all --seconds 60 -o run.mcap
  tensorbus record --regex 'camera/.*' --reliable -o run.mcap"""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def bytes_in(text: str) -> int:
    """A number of bytes with a unit.

    >>> bytes_in("2G"), bytes_in("512MiB"), bytes_in("1000")
    (2147483648, 536870912, 1000)
    """
    number = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = number[-1:] if number[-1:] in ("K", "M", "G", "T") else ""
    try:
        count = int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (ValueError, OverflowError):
        count = 0
    if count < 1:
        raise typer.BadParameter(f"{text!r}: expected bytes, as in 500M or 2G")
    return count


@app.command("record", epilog=_EXAMPLES)
def record(
    topics: Topics = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The file, one of MCAP.", metavar="FILE")
    ] = "run.mcap",
    every: Annotated[bool, typer.Option("--all", help="Every topic, now or later.")] = False,
    regex: Annotated[
        str | None,
        typer.Option(help="Every topic whose whole name matches it.", metavar="PATTERN"),
    ] = None,
    reliable: Annotated[
        bool,
        typer.Option("--reliable", help="Reliable publishers wait for the disk: nothing is lost."),
    ] = False,
    buffer: Annotated[
        int,
        typer.Option(
            parser=bytes_in, help="Bytes that may wait to be written, as 500M.", metavar="BYTES"
        ),
    ] = "2G",  # type: ignore[assignment]
    seconds: Annotated[
        float | None, typer.Option(min=0, help="How long; else until Ctrl-C.", metavar="S")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    domain: Domain = None,
) -> None:
    """Record topics to a file, from the memory in which they were published.

    Without --reliable it slows nobody down; what the disk is too slow for is lost, and counted. A
    signal ends it well, and what it has written can be read even if it is killed.
    """
    if not (topics or every or regex):
        raise typer.BadParameter("name topics, or give --all or --regex")
    leave_gpus()
    with _stop_signals() as stopped:
        recorder = Recorder(
            output,
            topics or (),
            all=every,
            regex=regex,
            reliable=reliable,
            buffer=buffer,
            overwrite=overwrite,
            domain=domain,
        )
        print(f"recording to {shown(output)}; Ctrl-C ends it", file=sys.stderr, flush=True)
        deadline = None if seconds is None else time.monotonic() + seconds
        while not stopped and (deadline is None or time.monotonic() < deadline):
            if recorder.wait(_LOOK):
                break
        _end(recorder)


def _end(recorder: Recorder) -> None:
    failure = None
    try:
        recorder.close()
    except Error as error:
        failure = error
    stats = recorder.stats
    print(
        f"{stats.messages} messages of {stats.topics} topics, {bytes_text(stats.bytes)}, "
        f"{stats.lost} lost: {shown(recorder.path)}"
    )
    if stats.unwritable:
        print(f"tensorbus: {stats.unwritable} of them have tensors on a GPU", file=sys.stderr)
    if failure is not None:
        fail(shown(str(failure)))


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM end the recording: they are noted in the list."""
    stopped: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: stopped.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
