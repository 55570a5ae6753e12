"""Recordings as files of arrays and images."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._base.text import json_text
from tensorbus._recording.left_out import LeftOut
from tensorbus._recording.message_parts import MessageParts, unused
from tensorbus._recording.plain_messages import plain_data
from tensorbus._recording.recording import END, Recording
from tensorbus._topics.preview import red_first
from tensorbus._topics.sample import Sample

FORMATS = ("npy", "npz", "safetensors", "png", "jpg")
_CHANNELS = {"png": (1, 3, 4), "jpg": (1, 3)}
_PILLOW_NAMES = {"png": "png", "jpg": "jpeg"}
_MAX_NAME_BYTES = 200  # of a topic or tensor in a file name; file names have at most 255


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
    """Writes the tensors of messages to files, and each message's other values as a line of JSON.

    Each topic has a folder. Tensors are in `000000.npz` (safetensors, npz) or `000000.NAME.npy`
    (npy, png, jpg). `messages.jsonl` has topic, sequence, times and the other fields; a tensor is
    `{"tensor": name}` there. A message that is damaged, or has a tensor that the format cannot
    hold, is left out.

    Args:
        recording: the source, opened with `library="numpy"`.
        folder: the target, empty or not existing.
        topics: names of topics; empty for all.
        kind: one of `FORMATS`.
        start_ns: the earliest recording time, in nanoseconds since 1970.
        end_ns: the end of the recording times, itself excluded.

    Raises:
        InvalidArgument: the format or a topic is unknown, or the folder is not empty.
        ImportError: the package that writes the format is missing.
        OSError: a file cannot be written, for example because the disk is full.
    """
    if kind not in FORMATS:
        raise InvalidArgument(f"format={kind!r}: expected one of {FORMATS}")
    encode = _ENCODERS[kind]()
    names = topics or recording.topics
    selected = {topic: recording.select(topic, start_ns=start_ns, end_ns=end_ns) for topic in names}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise InvalidArgument(f"folder {str(folder)!r}: it is not empty")
    messages = files = 0
    left_out = LeftOut()
    for topic, name in _file_names(selected).items():
        samples, place = selected[topic], target / name
        place.mkdir()
        written = 0
        with open(place / "messages.jsonl", "w") as lines:
            for number in range(len(samples)):
                with left_out.of(topic):
                    line, contents = _encoded(samples[number], f"{number:06}", encode)
                    for file, content in contents.items():
                        (place / file).write_bytes(content)
                    lines.write(json_text({**line, "time_ns": samples.time_ns(number)}) + "\n")
                    written += 1
                    files += len(contents)
        if samples and not written:
            (place / "messages.jsonl").unlink()
            place.rmdir()
        messages += written
    return Exported(messages, files, left_out)


def _encoded(
    sample: Sample[Any], start: str, encode: Encode
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The JSON line of a message, and its files by name; names begin with `start`."""
    parts = MessageParts(plain_data(sample, "numpy"))
    names, contents = encode(start, parts) if parts.tensors else ({}, {})
    header = sample.header
    line = {
        "topic": header.topic,
        "sequence": header.sequence,
        "timestamp_ns": header.timestamp_ns,
        "files": names,
        "data": parts.values,
    }
    return line, contents


def _file_name(topic: str) -> str:
    """A file name for a topic or tensor. Long names are cut.

    >>> _file_name("/camera/left image"), _file_name(".."), len(_file_name("x" * 300))
    ('camera_left image', '_', 200)
    """
    name = topic.strip("/").replace("/", "_").replace("\0", "_")
    name = name.encode(errors="replace")[:_MAX_NAME_BYTES].decode(errors="ignore")
    return name if name.strip(".") else "_"


def _file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for each name; no two are the same.

    >>> _file_names(["a/b", "a_b", "c"])
    {'a/b': 'a_b', 'a_b': 'a_b_2', 'c': 'c'}
    """
    found: dict[str, str] = {}
    for name in names:
        found[name] = unused(_file_name(name), found.values())
    return found


Encode = Callable[[str, MessageParts], tuple[dict[str, str], dict[str, bytes]]]
"""From a prefix of file names and a message: each tensor's file name, and the files."""


def _npy() -> Encode:
    def encode(start: str, parts: MessageParts) -> tuple[dict[str, str], dict[str, bytes]]:
        names = {key: f"{start}.{name}.npy" for key, name in _file_names(parts.tensors).items()}
        return names, {names[key]: _npy_bytes(parts.tensors[key]) for key in names}

    return encode


def _npy_bytes(tensor: Any) -> bytes:
    import numpy as np

    out = BytesIO()
    np.save(out, tensor, allow_pickle=False)
    return out.getvalue()


def _npz() -> Encode:
    def encode(start: str, parts: MessageParts) -> tuple[dict[str, str], dict[str, bytes]]:
        import zipfile

        # Not numpy.savez: a key may be the name of one of its arguments.
        name, out = f"{start}.npz", BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
            for key, tensor in parts.tensors.items():
                file.writestr(f"{key}.npy", _npy_bytes(tensor))
        return dict.fromkeys(parts.tensors, name), {name: out.getvalue()}

    return encode


def _safetensors() -> Encode:
    from safetensors.numpy import save  # type: ignore[import-not-found, unused-ignore]

    def encode(start: str, parts: MessageParts) -> tuple[dict[str, str], dict[str, bytes]]:
        import numpy as np

        name = f"{start}.safetensors"
        content = save({key: np.ascontiguousarray(one) for key, one in parts.tensors.items()})
        return dict.fromkeys(parts.tensors, name), {name: content}

    return encode


def _images(suffix: str) -> Encode:
    from PIL import Image

    def encode(start: str, parts: MessageParts) -> tuple[dict[str, str], dict[str, bytes]]:
        file_names = _file_names(parts.tensors)
        names = {key: f"{start}.{name}.{suffix}" for key, name in file_names.items()}
        contents = {}
        for key, name in names.items():
            out = BytesIO()
            pixels = _pixels(key, parts.tensors[key], _CHANNELS[suffix])
            image = Image.fromarray(red_first(pixels, parts.encodings.get(key)))
            image.save(out, _PILLOW_NAMES[suffix])
            contents[name] = out.getvalue()
        return names, contents

    return encode


def _pixels(name: str, array: Any, channels: tuple[int, ...]) -> Any:
    shown = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    is_image = shown.ndim == 2 or (shown.ndim == 3 and shown.shape[2] in channels)
    if not is_image or array.dtype != "uint8":
        raise Unsupported(
            f"tensor {name!r}: {array.dtype} of {array.shape} is no image: expected uint8 of "
            f"(height, width) or (height, width, channels), with channels one of {channels}"
        )
    return shown


_ENCODERS: dict[str, Callable[[], Encode]] = {
    "npy": _npy,
    "npz": _npz,
    "safetensors": _safetensors,
    "png": lambda: _images("png"),
    "jpg": lambda: _images("jpg"),
}
