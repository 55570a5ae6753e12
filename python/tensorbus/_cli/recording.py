"""``tensorbus recording``: cuts, merges, converts and exports recordings."""

from __future__ import annotations

import heapq
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tensorbus._base.errors import InvalidArgument
from tensorbus._cli.options import Json, compressions, finite, group
from tensorbus._cli.output import fail, fail_without, refusals
from tensorbus._cli.records import print_record
from tensorbus._inspection.units import bytes_text, shown
from tensorbus._recording.copying import Copied, copy_recordings, require_another_file
from tensorbus._recording.exporting import FORMATS, export
from tensorbus._recording.left_out import LeftOut
from tensorbus._recording.recorded_samples import RecordedSamples
from tensorbus._recording.recording import Recording

app = group("Make other files of recordings.")

File = Annotated[str, typer.Argument(help="A file that `tensorbus record` has written.")]
Output = Annotated[str, typer.Option("--output", "-o", help="The new file.", metavar="FILE")]
Some = Annotated[list[str] | None, typer.Argument(help="Names of recorded topics; by default all.")]
Start = Annotated[
    float,
    typer.Option(min=0, callback=finite, help="Start this many seconds after the first message."),
]
End = Annotated[
    float | None,
    typer.Option(
        min=0,
        callback=finite,
        help="End this many seconds after the first message; by default at the last.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the new file.")]
Compress = Annotated[
    list[str] | None,
    typer.Option(
        help="zstd, lz4 or none; TOPIC=zstd: for one topic. By default as before. Repeatable.",
        metavar="[TOPIC=]HOW",
    ),
]


@app.command("cut", epilog="Example: tensorbus recording cut run.mcap pose --start 10 -o cut.mcap")
def cut(
    file: File,
    topics: Some = None,
    output: Output = "cut.mcap",
    start: Start = 0.0,
    end: End = None,
    overwrite: Overwrite = False,
    compress: Compress = None,
    as_json: Json = False,
) -> None:
    """Write the messages of some topics, or of a time span, to a new recording."""
    found, methods = _opened(file), compressions(compress or [])
    with refusals():
        copied = copy_recordings(
            [found],
            output,
            topics=topics or (),
            overwrite=overwrite,
            compress=methods,
            **_bounds(found, start, end),
        )
    _report_copied(copied, output, as_json)


@app.command("merge", epilog="Example: tensorbus recording merge run-*.mcap -o run.mcap")
def merge(
    files: Annotated[list[str], typer.Argument(help="The recordings.")],
    output: Output = "merged.mcap",
    overwrite: Overwrite = False,
    compress: Compress = None,
    as_json: Json = False,
) -> None:
    """Write the messages of several recordings to a new one, in the order of their times."""
    sources, methods = [*map(_opened, files)], compressions(compress or [])
    with refusals():
        copied = copy_recordings(sources, output, overwrite=overwrite, compress=methods)
    _report_copied(copied, output, as_json)


@app.command("convert", epilog="Example: tensorbus recording convert run.mcap -o foxglove.mcap")
def convert(
    file: File,
    topics: Some = None,
    output: Output = "foxglove.mcap",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a file for Foxglove: images, point clouds and poses as its types, the rest as JSON."""
    try:
        from tensorbus._view.sinks.to_foxglove import FoxgloveSink
    except ImportError as error:
        fail_without(error)
    from tensorbus._view.sinks.parts import parts_of

    recording = _opened(file)
    names = topics or recording.topics
    with refusals():
        selected = {topic: recording.select(topic) for topic in names}
        if os.path.exists(output) and not overwrite:
            raise InvalidArgument(f"file {output!r} exists: choose another name, or --overwrite")
        require_another_file(output, [recording])
    sink, left_out, written = FoxgloveSink(output), LeftOut(), 0
    try:
        for _, topic, number in heapq.merge(*(_times(*each) for each in selected.items())):
            with left_out.of(topic):
                sample = selected[topic][number]
                sink.send(topic, sample.header, parts_of(sample.data, sample.header))
                written += 1
    finally:
        sink.close()
    _print_written(output, written, "", as_json)
    _report_left_out(left_out, recording.damage)


@app.command("export", epilog="Example: tensorbus recording export run.mcap -o frames --format png")
def export_(
    file: File,
    topics: Some = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The folder.", metavar="FOLDER")
    ] = "exported",
    format: Annotated[
        str, typer.Option(help=f"The format: {', '.join(FORMATS)}.", metavar="FORMAT")
    ] = "npz",
    start: Start = 0.0,
    end: End = None,
    as_json: Json = False,
) -> None:
    """Write tensors to files of arrays, images or videos, and other values to lines of JSON."""
    if format not in FORMATS:
        raise typer.BadParameter(f"--format {format}: expected one of {', '.join(FORMATS)}")
    found = _opened(file)
    try:
        with refusals():
            done = export(found, output, topics or [], format, **_bounds(found, start, end))
    except ImportError as error:
        fail_without(error)
    text = f", {done.files} files"
    _print_written(output, done.messages, text, as_json, files=done.files)
    _report_left_out(done.left_out, found.damage)


@app.command("import", epilog="Example: tensorbus recording import rosbag2_run run.mcap")
def import_(
    bag: Annotated[str, typer.Argument(help="The folder of a ROS 2 bag: sqlite3 or MCAP.")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The new recording.")],
    topics: Some = None,
    overwrite: Overwrite = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Write each message as a dict of all its fields.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a recording of a ROS 2 bag: images, point clouds, poses as types, the rest as dicts."""
    try:
        from tensorbus._recording.ros.bags import import_bag

        with refusals():
            done = import_bag(bag, output, topics=topics or (), overwrite=overwrite, plain=plain)
    except ImportError as error:
        fail_without(error)
    _print_written(output, done.messages, "", as_json)
    _report_left_out(done.left_out)


def _opened(file: str) -> Recording:
    with refusals():
        return Recording(file, library="numpy")


def _bounds(found: Recording, start: float, end: float | None) -> dict[str, int]:
    """The times of `--start` and `--end`, in nanoseconds since 1970."""
    begin = found.start_ns
    first = {"start_ns": begin + round(start * 1e9)} if start else {}
    return first if end is None else {**first, "end_ns": begin + round(end * 1e9)}


def _times(topic: str, samples: RecordedSamples[Any]) -> Iterator[tuple[int, str, int]]:
    """The time, the topic and the index of each sample."""
    return ((samples.time_ns(number), topic, number) for number in range(len(samples)))


def _report_left_out(left_out: LeftOut, damage: str = "") -> None:
    """Ends the command with status 1 if parts of the source were not written."""
    troubles = [*left_out, *([damage] if damage else ())]
    for trouble in troubles:
        print(f"tensorbus: {shown(trouble)}", file=sys.stderr)
    if troubles:
        raise typer.Exit(1)


def _report_copied(copied: Copied, output: str, as_json: bool) -> None:
    text = f", {bytes_text(copied.bytes)}"
    _print_written(output, copied.messages, text, as_json, bytes=copied.bytes)
    if copied.unreadable:
        fail(f"{copied.unreadable} messages were left out: {shown(copied.error)}")


def _print_written(file: str, messages: int, text: str, as_json: bool, **more: int) -> None:
    """Prints what was written: `text`, or the messages, files and bytes as JSON."""
    if as_json:
        written = {"file": file, "messages": messages, "files": 1, "bytes": None, **more}
        return print_record("written", written)
    print(f"{messages} messages{text}: {shown(file)}")
