"""Making one recording of others: a part of one, or several together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tensorbus import _core
from tensorbus._base.arguments import topic_name
from tensorbus._base.errors import InvalidArgument
from tensorbus._recording.recording import END, Recording


class Copied(NamedTuple):
    """What is in a new recording."""

    messages: int
    bytes: int
    unreadable: int
    """Messages that were left out, because they are damaged."""
    error: str
    """About the first of them."""


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
    """Writes messages of recordings to a new one, in the order of their times.

    Args:
        sources: the recordings.
        path: of the new file.
        topics: their names; none: all. A recording that has none of them gives nothing.
        start_ns: nanoseconds since 1970: messages that were recorded from then on,
        end_ns: and before then.
        overwrite: `True`: replaces a file of this name.
        compress: by default what lay in a compressed chunk is compressed again in the same way, and
            nothing else. `"zstd"` or `"lz4"`: all messages, as `Recorder(compress=)` does it;
            `"none"`: nothing. A mapping from topics to one of these counts for these topics.

    Raises:
        InvalidArgument: a topic that no recording has; the new file is one of the old; a
            compression of no meaning.
        OutOfMemory: the disk is full.
    """
    names, sources = [*topics], [*sources]
    known = {name for source in sources for name in source.topics}
    if unknown := set(names) - known:
        raise InvalidArgument(
            f"topics: nothing was recorded on {', '.join(map(repr, sorted(unknown)))}; "
            f"there are: {', '.join(map(repr, sorted(known))) or 'none'}"
        )
    path = os.fsdecode(path)
    require_another_file(path, sources)
    begin, end = (min(max(bound, 0), END) for bound in (start_ns, end_ns))
    parts = [
        (source._open(), [name for name in names if name in source.topics], begin, end)
        for source in sources
        if not names or not source.topics.keys().isdisjoint(names)
    ]
    all_of_them = _core_name(compress) if isinstance(compress, str) else None
    topics_of_them = compress if isinstance(compress, Mapping) else {}
    named = {topic_name(topic): _core_name(how) for topic, how in topics_of_them.items()}
    return Copied(**_core.copy_recordings(parts, path, overwrite, all_of_them, named))


def require_another_file(path: str, sources: Iterable[Recording]) -> None:
    """Raises InvalidArgument if the file at `path` is one of those that are read."""
    if os.path.exists(path) and any(os.path.samefile(path, source.path) for source in sources):
        raise InvalidArgument(f"file {path!r}: it cannot be read and replaced at once")


def _core_name(compression: str) -> str:
    return "" if compression == "none" else compression
