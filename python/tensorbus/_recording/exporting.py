"""Recordings as files of arrays and images."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tensorbus._base.errors import InvalidArgument, Unsupported
from tensorbus._recording.recording import Recording

FORMATS = ("npy", "npz", "safetensors", "png", "jpg")
_CHANNELS = {"png": (1, 3, 4), "jpg": (1, 3)}


class Exported(NamedTuple):
    """What was written."""

    messages: int
    files: int


def export(
    recording: Recording, folder: str | os.PathLike[str], topics: list[str], kind: str
) -> Exported:
    """Writes the tensors of messages to files, and the rest to a line of JSON for each message.

    For each topic there is a folder: its tensors lie in `000000.npz` (safetensors, npz) or
    `000000.NAME.npy` (npy, png, jpg), and `messages.jsonl` has sequence, times, and the other
    fields; a tensor stands there as `{"file": ..., "tensor": name}`.

    Args:
        recording: what is read, with `library="numpy"`.
        folder: where to; it must be empty, or not be there.
        topics: their names; none: all.
        kind: one of `FORMATS`.

    Raises:
        InvalidArgument: an unknown format; a folder that is not empty; a topic that is not there.
        Unsupported: a tensor that the format has no place for, as one that is no image.
        ImportError: the package that writes the format is missing.
    """
    if kind not in FORMATS:
        raise InvalidArgument(f"format={kind!r}: expected one of {FORMATS}")
    write = _WRITERS[kind]()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise InvalidArgument(f"folder {str(folder)!r}: it is not empty")
    messages = files = 0
    for topic, name in _file_names(topics or recording.topics).items():
        place = target / name
        place.mkdir()
        with open(place / "messages.jsonl", "w") as lines:
            samples = recording.select(topic)
            for number, sample in enumerate(samples):
                tensors: dict[str, Any] = {}
                rest = _without_tensors(sample.data, "", tensors)
                written = write(place, f"{number:06}", tensors) if tensors else {}
                files += len(set(written.values()))
                messages += 1
                line = {
                    "sequence": sample.header.sequence,
                    "timestamp_ns": sample.header.timestamp_ns,
                    "time_ns": samples.time_ns(number),
                    "files": written,
                    "data": rest,
                }
                lines.write(json.dumps(line) + "\n")
    return Exported(messages, files)


def _file_name(topic: str) -> str:
    """
    >>> _file_name("/camera/left image"), _file_name("..")
    ('camera_left image', '_')
    """
    name = topic.strip("/").replace("/", "_").replace("\0", "_")
    return name if name.strip(".") else "_"


def _file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for each, all different.

    >>> _file_names(["a/b", "a_b", "c"])
    {'a/b': 'a_b', 'a_b': 'a_b_2', 'c': 'c'}
    """
    found: dict[str, str] = {}
    for name in names:
        found[name] = _unused(_file_name(name), found.values())
    return found


def _unused(name: str, used: Collection[str]) -> str:
    """The name, with a number if it is in use."""
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found


def _without_tensors(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    """The value as JSON has it; its arrays are put into `tensors`, by their places."""
    import numpy as np

    if isinstance(value, np.ndarray) or type(value).__module__ == "torch":
        name = _unused(path or "data", tensors)
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.generic):
        return _without_tensors(value.item(), path, tensors)
    if isinstance(value, dict):
        return {
            str(key): _without_tensors(item, _within(path, key), tensors)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [
            _without_tensors(item, _within(path, index), tensors)
            for index, item in enumerate(value)
        ]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(value).decode()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


def _within(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


# Takes the folder, the beginning of a file's name, and the arrays; returns the file of each.
_Write = Callable[[Path, str, dict[str, Any]], dict[str, str]]


def _npy() -> _Write:
    import numpy as np

    def write(place: Path, start: str, tensors: dict[str, Any]) -> dict[str, str]:
        names = {key: f"{start}.{name}.npy" for key, name in _file_names(tensors).items()}
        for key, name in names.items():
            np.save(place / name, tensors[key], allow_pickle=False)
        return names

    return write


def _npz() -> _Write:
    import numpy as np

    def write(place: Path, start: str, tensors: dict[str, Any]) -> dict[str, str]:
        # Not savez: a key may be one of its arguments.
        import zipfile

        name = f"{start}.npz"
        with zipfile.ZipFile(place / name, "w", zipfile.ZIP_STORED) as file:
            for key, tensor in tensors.items():
                with file.open(f"{key}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(tensor), allow_pickle=False)
        return dict.fromkeys(tensors, name)

    return write


def _safetensors() -> _Write:
    from safetensors.numpy import save_file  # type: ignore[import-not-found, unused-ignore]

    def write(place: Path, start: str, tensors: dict[str, Any]) -> dict[str, str]:
        import numpy as np

        name = f"{start}.safetensors"
        save_file({key: np.ascontiguousarray(one) for key, one in tensors.items()}, place / name)
        return dict.fromkeys(tensors, name)

    return write


def _images(suffix: str) -> _Write:
    from PIL import Image

    def write(place: Path, start: str, tensors: dict[str, Any]) -> dict[str, str]:
        names = {key: f"{start}.{name}.{suffix}" for key, name in _file_names(tensors).items()}
        for key, name in names.items():
            Image.fromarray(_pixels(key, tensors[key], _CHANNELS[suffix])).save(place / name)
        return names

    return write


def _pixels(name: str, array: Any, channels: tuple[int, ...]) -> Any:
    shown = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    is_image = shown.ndim == 2 or (shown.ndim == 3 and shown.shape[2] in channels)
    if not is_image or array.dtype != "uint8":
        raise Unsupported(
            f"tensor {name!r}: {array.dtype} of {array.shape} is no image: expected uint8 of "
            f"(height, width) or (height, width, channels), with channels one of {channels}"
        )
    return shown


_WRITERS: dict[str, Callable[[], _Write]] = {
    "npy": _npy,
    "npz": _npz,
    "safetensors": _safetensors,
    "png": lambda: _images("png"),
    "jpg": lambda: _images("jpg"),
}
