"""``tensorbus record``: records topics to a file."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorbus._base.errors import Error, InvalidArgument
from tensorbus._base.signals import stop_signals
from tensorbus._cli.options import Domain, Json, Topics, compressions
from tensorbus._cli.output import fail
from tensorbus._cli.process import leave_gpus
from tensorbus._cli.recorder import NAME, REQUESTS
from tensorbus._cli.records import print_record
from tensorbus._inspection.units import bytes_text, shown
from tensorbus._recording.recorder import Recorder
from tensorbus.nodes._node import Node

_POLL = 0.1  # seconds between two checks of the stop event
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_EXAMPLES = """\b
Examples:
  tensorbus record camera/image pose -o run.mcap
  tensorbus record --all --seconds 60 -o run.mcap
  tensorbus record --regex 'camera/.*' --reliable -o run.mcap
  tensorbus record --all --compress zstd -o run.mcap
  tensorbus record camera/image pose --compress pose=lz4 -o run.mcap
  tensorbus record --all -o 'runs/{time}.mcap'
  tensorbus record --all --split-size 4G --split-duration 600 -o run.mcap
  tensorbus record --all --snapshot 30    and, elsewhere: tensorbus recorder snapshot"""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def bytes_in(text: str) -> int:
    """The number of bytes in a text with a unit.

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


def seconds_in(text: str) -> float:
    """The number of seconds in a text with a unit.

    >>> seconds_in("30s"), seconds_in("0.5"), seconds_in("2m")
    (30.0, 0.5, 120.0)
    """
    number = text.strip()
    unit = 60 if number.endswith("m") else 1
    try:
        found = float(number[:-1] if number.endswith(("s", "m")) else number) * unit
    except ValueError:
        found = 0.0
    if not found > 0:
        raise typer.BadParameter(f"{text!r}: expected seconds, as in 30s or 2m")
    return found


def with_time(name: str) -> str:
    """The name of a file with the local time in place of "{time}", in an existing folder."""
    if "{time}" not in name:
        return name
    now = datetime.now()
    path = Path(name.replace("{time}", f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03}"))
    path = path.expanduser()  # the quotes around {time} keep the shell from doing it
    if name.endswith("/"):
        raise typer.BadParameter(f"--output {name}: expected a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--output: {shown(str(path.parent))}: {error.strerror}")
    return str(path)


@app.command("record", epilog=_EXAMPLES)
def record(
    topics: Topics = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="The MCAP file. {time} becomes the local time; missing folders are made then.",
            metavar="FILE",
        ),
    ] = "run.mcap",
    every: Annotated[bool, typer.Option("--all", help="Every topic, now or later.")] = False,
    regex: Annotated[
        str | None,
        typer.Option(help="Every topic whose whole name matches.", metavar="PATTERN"),
    ] = None,
    reliable: Annotated[
        bool,
        typer.Option(
            "--reliable", help="Reliable publishers wait for the disk, and nothing is lost."
        ),
    ] = False,
    buffer: Annotated[
        int,
        typer.Option(
            parser=bytes_in,
            help="Limit of bytes that wait to be written, as 500M.",
            metavar="BYTES",
        ),
    ] = "2G",  # type: ignore[assignment]
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to record; by default until Ctrl-C.", metavar="S"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    split_size: Annotated[
        int | None,
        typer.Option(
            parser=bytes_in,
            help="Start another file after this many bytes, as 4G.",
            metavar="BYTES",
        ),
    ] = None,
    split_duration: Annotated[
        float | None,
        typer.Option(
            parser=seconds_in, help="Start another file after this time, as 10m.", metavar="S"
        ),
    ] = None,
    snapshot: Annotated[
        float | None,
        typer.Option(
            parser=seconds_in,
            help="Keep this many seconds in memory; write on demand.",
            metavar="S",
        ),
    ] = None,
    compress: Annotated[
        list[str] | None,
        typer.Option(
            help="zstd or lz4: messages below 1 MiB; TOPIC=zstd: all of a topic. Repeatable.",
            metavar="[TOPIC=]HOW",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="The name for `tensorbus recorder`.", metavar="NAME")
    ] = NAME,
    domain: Domain = None,
    as_json: Json = False,
) -> None:
    """Record topics to a file, from the memory in which they were published.

    Without --reliable, no publisher waits for the recorder; messages that arrive faster than the
    disk writes are lost, and counted. After SIGINT, SIGTERM or SIGHUP the recorder completes the
    file and ends. The file can be read even if the recorder is killed. With --snapshot, it writes
    only after `tensorbus recorder snapshot` or SIGUSR1.
    """
    if not (topics or every or regex):
        raise typer.BadParameter("name topics, or give --all or --regex")
    compressed = compressions(compress or [])
    output = with_time(output)
    leave_gpus()
    with Node(name, domain=domain) as node, stop_signals(node.stop), _usr1(as_json) as recorders:
        try:
            recorder = Recorder(
                output,
                topics or (),
                all=every,
                regex=regex,
                reliable=reliable,
                buffer=buffer,
                overwrite=overwrite,
                split_size=split_size,
                split_duration=split_duration,
                snapshot=snapshot,
                compress=compressed,
                domain=domain,
            )
        except InvalidArgument as error:
            if "it exists" in str(error):
                fail(shown(str(error)))
            raise
        node.create_service(name, callback=partial(_answer, recorder), mode="sync")
        node.spawn_thread(_follow, recorder, node)
        recorders.append(recorder)
        print(f"recording to {shown(output)}; Ctrl-C ends it", file=sys.stderr, flush=True)
        node.spin(seconds)
        _end(recorder, as_json)  # in this context, further signals do not interrupt it


def _follow(stop: threading.Event, recorder: Recorder, node: Node) -> None:
    """Stops the node when recording has ended by itself."""
    while not stop.is_set() and not recorder.wait(_POLL):
        pass
    node.stop()


def _answer(recorder: Recorder, request: Any) -> dict[str, Any]:
    """Replies to `tensorbus recorder`: `{"do": one of REQUESTS}`."""
    what = request.get("do") if isinstance(request, dict) else None
    if what not in REQUESTS:
        raise InvalidArgument(f"{request!r}: expected {{'do': one of {REQUESTS}}}")
    file = recorder.snapshot() if what == "snapshot" else recorder.path
    return {"file": file, **recorder.stats}


@contextmanager
def _usr1(as_json: bool) -> Iterator[list[Recorder]]:
    """A context in which SIGUSR1 makes the recorders in the list write and print a snapshot.

    At its end the previous handler is restored. If that is the default action, which would end the
    process, the signal is ignored instead: it may arrive late.
    """
    recorders: list[Recorder] = []

    def write() -> None:
        for recorder in recorders:
            try:
                file = recorder.snapshot()
                if as_json:
                    _print_record(recorder, file)
                else:
                    print(shown(file), flush=True)
            except Error as error:
                print(f"tensorbus: {shown(str(error))}", file=sys.stderr)

    def on_signal(number: int, frame: object) -> None:
        threading.Thread(target=write).start()  # in a thread, because it waits for the disk

    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        yield recorders
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN if before is signal.SIG_DFL else before)


def _print_record(recorder: Recorder, file: str) -> None:
    print_record("recorder", {"file": file, **recorder.stats})


def _end(recorder: Recorder, as_json: bool) -> None:
    failure = None
    try:
        recorder.close()
    except Error as error:
        failure = error
    stats = recorder.stats
    if as_json:
        _print_record(recorder, recorder.path)
    else:
        print(
            f"{stats.messages} messages of {stats.topics} topics, {bytes_text(stats.bytes)}, "
            f"{stats.lost} lost: {shown(recorder.path)}"
        )
    if stats.unwritable:
        print(f"tensorbus: {stats.unwritable} lost messages have tensors on a GPU", file=sys.stderr)
    if failure is not None:
        fail(shown(str(failure)))
