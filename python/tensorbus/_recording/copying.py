"""Copies of recordings: a part of a recording, or several recordings merged."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tensorbus import _core
from tensorbus._base.arguments import topic_name
from tensorbus._base.errors import InvalidArgument
from tensorbus._recording.recording import END, Recording


class Copied(NamedTuple):
    """Counts of a new recording."""

    messages: int
    bytes: int
    unreadable: int
    """Messages that were left out because they are damaged."""
    error: str
    """The error of the first damaged message."""


def copy_recordings(
    sources: Iterable[Recording],
    path: str | os.PathLike[str],
    *,
    topics: Iterable[str] = (),
    start_ns: int = 0,
    end_ns: int = END,
    overwrite: bool = False,
    compress: str | Mapping[str, str] | None = None,
) -> Copied:
    """Writes messages of recordings to a new recording, in the order of their times.

    Args:
        sources: the recordings.
        path: the new file.
        topics: names of topics; empty for all. A recording may have none of them.
        start_ns: the earliest recording time, in nanoseconds since 1970.
        end_ns: the end of the recording times, itself excluded.
        overwrite: replace an existing file.
        compress: by default messages of a compressed chunk are compressed again with the same
            method, and other messages are not compressed. `"zstd"` or `"lz4"`: compress all
            messages as `Recorder(compress=)` does; `"none"`: compress none. A mapping gives one of
            these for each topic in it.

    Raises:
        InvalidArgument: no recording has one of the topics, the new file is one of the sources, or
            a compression is unknown.
        OutOfMemory: the disk is full.
    """
    names, sources = [*topics], [*sources]
    known = {name for source in sources for name in source.topics}
    if unknown := set(names) - known:
        raise InvalidArgument(
            f"topics: nothing was recorded on {', '.join(map(repr, sorted(unknown)))}; "
            f"recorded are {', '.join(map(repr, sorted(known))) or 'none'}"
        )
    path = os.fsdecode(path)
    require_another_file(path, sources)
    begin, end = (min(max(bound, 0), END) for bound in (start_ns, end_ns))
    parts = [
        (source._open(), [name for name in names if name in source.topics], begin, end)
        for source in sources
        if not names or not source.topics.keys().isdisjoint(names)
    ]
    for_all = _core_name(compress) if isinstance(compress, str) else None
    by_topic = compress if isinstance(compress, Mapping) else {}
    named = {topic_name(topic): _core_name(method) for topic, method in by_topic.items()}
    return Copied(**_core.copy_recordings(parts, path, overwrite, for_all, named))


def require_another_file(path: str, sources: Iterable[Recording]) -> None:
    """Raises InvalidArgument if the file at `path` is one of the sources."""
    if os.path.exists(path) and any(os.path.samefile(path, source.path) for source in sources):
        raise InvalidArgument(f"file {path!r}: it cannot be read and replaced at once")


def _core_name(compression: str) -> str:
    return "" if compression == "none" else compression
