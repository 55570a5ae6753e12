"""What the formats of exports have in common: the interface, and names of files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tensorbus._base.text import json_text
from tensorbus._recording.message_parts import MessageParts, unused

_MAX_NAME_BYTES = 200  # of a topic or tensor in a file name; file names have at most 255


class Message(NamedTuple):
    """A message that is exported."""

    name: str
    """The start of its files' names: its number in its topic."""
    header: dict[str, Any]
    """Topic, sequence and times."""
    parts: MessageParts

    def line(self, files: dict[str, str]) -> bytes:
        """The message as a line of JSON, with the file of each of its tensors."""
        line = {**self.header, "files": files, "data": self.parts.values}
        return json_text(line).encode() + b"\n"


class TopicFiles(Protocol):
    """The files of one topic. They are made in the order of its messages."""

    def __init__(self, folder: Path) -> None: ...
    def add(self, message: Message) -> int:
        """Writes a message; returns the number of new files with tensors.

        An error other than `OSError` leaves nothing of the message in the files.
        """

    def close(self) -> None:
        """Completes the files."""


def file_name(topic: str) -> str:
    """A file name for a topic or tensor. Long names are cut.

    >>> file_name("/camera/left image"), file_name(".."), len(file_name("x" * 300))
    ('camera_left image', '_', 200)
    """
    name = topic.strip("/").replace("/", "_").replace("\0", "_")
    name = name.encode(errors="replace")[:_MAX_NAME_BYTES].decode(errors="ignore")
    return name if name.strip(".") else "_"


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for each name; no two are the same.

    >>> file_names(["a/b", "a_b", "c"])
    {'a/b': 'a_b', 'a_b': 'a_b_2', 'c': 'c'}
    """
    found: dict[str, str] = {}
    for name in names:
        found[name] = unused(file_name(name), found.values())
    return found
