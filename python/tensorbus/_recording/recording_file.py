"""Recordings of messages that were not published, written by the `mcap` package."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._codec.typed import plan_or_none
from tensorbus._recording.copying import copy_recordings
from tensorbus._recording.message_data import ENCODING, encode
from tensorbus._recording.recording import Recording
from tensorbus.messages import Message


class RecordingFile:
    """Writes messages in any order of their times. Made by `recording_file`."""

    def __init__(self, file: IO[bytes]) -> None:
        from mcap.writer import Writer

        self._writer: Any = Writer(file, use_chunking=False)
        self._writer.start(library="tensorbus")
        self._participant = secrets.token_hex(16)
        self._channels: dict[tuple[str, type[Any] | None], int] = {}
        self._sequences: dict[int, int] = {}

    def add(self, topic: str, message: Any, time_ns: int, timestamp_ns: int) -> None:
        """Writes a message.

        Args:
            topic: the topic's name.
            message: a typed message, or any other value that can be sent; with NumPy arrays.
            time_ns: when it was recorded, in nanoseconds since 1970.
            timestamp_ns: when it was published, likewise.

        Raises:
            MessageError: a field of a typed message has another type.
            Unsupported: the message contains a value that cannot be sent.
        """
        cls = type(message) if isinstance(message, Message) else None
        plan = plan_or_none(cls)
        value = message if plan is None else plan.checked(message)
        fingerprint = 0 if cls is None else cls.fingerprint()
        channel = self._channels.get((topic, cls))
        sequence = 0 if channel is None else self._sequences[channel]
        data = encode(value, fingerprint, sequence)
        if channel is None:
            channel = self._channels[topic, cls] = self._new_channel(topic, cls, fingerprint)
        self._writer.add_message(channel, time_ns, data, timestamp_ns, sequence % 2**32)
        self._sequences[channel] = sequence + 1

    def _new_channel(self, topic: str, cls: type[Message] | None, fingerprint: int) -> int:
        schema = 0
        if cls is not None:
            definition = cls.definition()
            name = definition.partition("\n")[0]
            schema = self._writer.register_schema(name, ENCODING, definition.encode())
        publisher = f"{self._participant}.{len(self._channels)}"
        metadata = {"publisher": publisher, "fingerprint": str(fingerprint)}
        return int(self._writer.register_channel(topic, ENCODING, schema, metadata))

    def finish(self) -> None:
        self._writer.finish()


@contextmanager
def recording_file(path: str | os.PathLike[str], overwrite: bool) -> Iterator[RecordingFile]:
    """A new recording. At the end of the `with` block it is complete, and has its index.

    The messages are written to a temporary file in the same folder first. It has no name, so
    nothing is left of it if the process is killed. If the block raises, there is no new recording.

    Raises:
        InvalidArgument: the file exists.
        OSError: a file cannot be written.
    """
    path = os.fsdecode(path)
    if os.path.exists(path) and not overwrite:
        raise InvalidArgument(f"file {path!r} exists: choose another name, or --overwrite")
    folder = os.path.dirname(path) or "."
    with tempfile.TemporaryFile(dir=folder) as file:
        writer = RecordingFile(file)
        yield writer
        writer.finish()
        file.flush()
        written = Recording(f"/proc/self/fd/{file.fileno()}")
        copy_recordings([written], path, overwrite=overwrite)
