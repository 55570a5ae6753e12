"""Formats with files for each message: arrays and images."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from tensorbus._recording.formats.image_pixels import rgb_pixels
from tensorbus._recording.formats.topic_files import Message, file_names
from tensorbus._recording.message_parts import MessageParts

_CHANNELS = {"png": (1, 3, 4), "jpg": (1, 3)}
_PILLOW_NAMES = {"png": "png", "jpg": "jpeg"}

Encoded = tuple[dict[str, str], dict[str, bytes]]
"""The file name of each tensor of a message, and the contents of these files."""
Encode = Callable[[str, MessageParts], Encoded]
"""Called with the start of the files' names, and a message."""


class MessageFiles:
    """Files of each message, and `messages.jsonl` with a line for each."""

    def __init__(self, encode: Encode, folder: Path) -> None:
        self._encode = encode
        self._folder = folder
        self._lines = (folder / "messages.jsonl").open("wb")

    def add(self, message: Message) -> int:
        parts = message.parts
        names, contents = self._encode(message.name, parts) if parts.tensors else ({}, {})
        line = message.line(names)
        for name, content in contents.items():
            (self._folder / name).write_bytes(content)
        self._lines.write(line)
        return len(contents)

    def close(self) -> None:
        self._lines.close()


def npy_bytes(tensor: Any) -> bytes:
    """The contents of an `.npy` file."""
    import numpy as np

    out = BytesIO()
    np.save(out, tensor, allow_pickle=False)
    return out.getvalue()


def _npy() -> Encode:
    def encode(start: str, parts: MessageParts) -> Encoded:
        names = {key: f"{start}.{name}.npy" for key, name in file_names(parts.tensors).items()}
        return names, {names[key]: npy_bytes(parts.tensors[key]) for key in names}

    return encode


def _npz() -> Encode:
    def encode(start: str, parts: MessageParts) -> Encoded:
        import zipfile

        # Not numpy.savez: a key may be the name of one of its arguments.
        name, out = f"{start}.npz", BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
            for key, tensor in parts.tensors.items():
                file.writestr(f"{key}.npy", npy_bytes(tensor))
        return dict.fromkeys(parts.tensors, name), {name: out.getvalue()}

    return encode


def _safetensors() -> Encode:
    from safetensors.numpy import save  # type: ignore[import-not-found, unused-ignore]

    def encode(start: str, parts: MessageParts) -> Encoded:
        import numpy as np

        name = f"{start}.safetensors"
        content = save({key: np.ascontiguousarray(one) for key, one in parts.tensors.items()})
        return dict.fromkeys(parts.tensors, name), {name: content}

    return encode


def _images(suffix: str) -> Encode:
    from PIL import Image

    def encode(start: str, parts: MessageParts) -> Encoded:
        file_name = file_names(parts.tensors)
        names = {key: f"{start}.{name}.{suffix}" for key, name in file_name.items()}
        contents = {}
        for key, name in names.items():
            out = BytesIO()
            image = Image.fromarray(rgb_pixels(key, parts, _CHANNELS[suffix]))
            image.save(out, _PILLOW_NAMES[suffix])
            contents[name] = out.getvalue()
        return names, contents

    return encode


ENCODERS: dict[str, Callable[[], Encode]] = {
    "npz": _npz,
    "npy": _npy,
    "safetensors": _safetensors,
    "png": lambda: _images("png"),
    "jpg": lambda: _images("jpg"),
}
