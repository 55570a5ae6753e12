"""Recordings as files of arrays, images and videos."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._recording.formats.message_files import ENCODERS, MessageFiles
from tensorbus._recording.formats.topic_files import Message, TopicFiles, file_names
from tensorbus._recording.formats.video_files import VideoFiles
from tensorbus._recording.formats.web_dataset import WebDatasetFiles
from tensorbus._recording.formats.zarr_arrays import ZarrArrays
from tensorbus._recording.left_out import LeftOut, TopicRefused
from tensorbus._recording.message_parts import MessageParts
from tensorbus._recording.plain_messages import plain_data
from tensorbus._recording.recorded_samples import RecordedSample
from tensorbus._recording.recording import END, Recording


class Exported(NamedTuple):
    """Counts of written messages and files, and the messages that were left out."""

    messages: int
    files: int
    left_out: LeftOut


def export(
    recording: Recording,
    folder: str | os.PathLike[str],
    topics: list[str],
    kind: str,
    *,
    start_ns: int = 0,
    end_ns: int = END,
) -> Exported:
    """Writes the tensors of messages to files, and each message's other values as JSON.

    Each topic has a folder. Tensors are in `000000.npz` (safetensors, npz), `000000.NAME.npy` (npy,
    png, jpg), `NAME.mp4` (mp4, mkv), `data.zarr/NAME` (zarr) or `000000.tar` (webdataset, which has
    the JSON, too).
    `messages.jsonl` has topic, sequence, times and the other fields; a tensor is `{"tensor": name}`
    there. A message that is damaged, or has a tensor that the format cannot hold, is left out. With
    zarr, a topic is left out if its messages have tensors of different shapes.

    Args:
        recording: the source.
        folder: the target, empty or not existing.
        topics: names of topics; empty for all.
        kind: one of `FORMATS`.
        start_ns: the earliest recording time, in nanoseconds since 1970.
        end_ns: the end of the recording times, itself excluded.

    Raises:
        InvalidArgument: the format or a topic is unknown, or the folder is not empty.
        ImportError: the package that writes the format is missing.
        Unsupported: the installed package cannot write the format.
        OSError: a file cannot be written, for example because the disk is full.
    """
    if kind not in FORMATS:
        raise InvalidArgument(f"format={kind!r}: expected one of {FORMATS}")
    open_files = _FORMATS[kind]()
    names = topics or recording.topics
    selected = {topic: recording.select(topic, start_ns=start_ns, end_ns=end_ns) for topic in names}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise InvalidArgument(f"folder {str(folder)!r}: it is not empty")
    messages = files = 0
    left_out = LeftOut()
    for topic, name in file_names(selected).items():
        samples, place = selected[topic], target / name
        place.mkdir()
        written = made = 0
        try:
            with closing(open_files(place)) as of_topic:
                for number in range(len(samples)):
                    with left_out.of(topic):
                        made += of_topic.add(_message(samples[number], number))
                        written += 1
        except TopicRefused as error:
            left_out.add(topic, written + len(samples) - number, error)
            written = made = 0
        if samples and not written:
            shutil.rmtree(place)
        messages += written
        files += made
    return Exported(messages, files, left_out)


def _message(sample: RecordedSample[Any], number: int) -> Message:
    header = sample.header
    return Message(
        f"{number:06}",
        {
            "topic": header.topic,
            "sequence": header.sequence,
            "timestamp_ns": header.timestamp_ns,
            "time_ns": sample.time_ns,
        },
        MessageParts(plain_data(sample, "numpy")),
    )


OpenFiles = Callable[[Path], TopicFiles]
"""Opens the files of a topic in its folder."""


def _message_files(kind: str) -> OpenFiles:
    return partial(MessageFiles, ENCODERS[kind]())


def _web_dataset() -> OpenFiles:
    import webdataset  # noqa: F401 - raises ImportError before anything is written

    return WebDatasetFiles


def _zarr_arrays() -> OpenFiles:
    import zarr  # noqa: F401 - raises ImportError before anything is written

    return ZarrArrays


def _videos(suffix: str) -> OpenFiles:
    import av

    if "libx264" not in av.codecs_available:
        raise Unsupported("this PyAV has no encoder for H.264: pip install 'tensorbus[video]'")
    return partial(VideoFiles, suffix)


_FORMATS: dict[str, Callable[[], OpenFiles]] = {
    **{kind: partial(_message_files, kind) for kind in ENCODERS},
    "mp4": partial(_videos, "mp4"),
    "mkv": partial(_videos, "mkv"),
    "webdataset": _web_dataset,
    "zarr": _zarr_arrays,
}
FORMATS = tuple(_FORMATS)
