"""Recording."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorbus import _core
from tensorbus._base.arguments import MAX_DEPTH, seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._base.public import public
from tensorbus._base.stats import Stats
from tensorbus._core import Outcome

_MOST_BUFFER = 2**62


@public
@dataclass(frozen=True, eq=False)
class RecorderStats(Stats):
    """Counters of a `Recorder` since it was made, and its present state."""

    messages: int
    """Messages that are in the file, or in the files."""
    bytes: int
    """Bytes of the file, or of the files."""
    files: int
    """Files that were begun: one, unless it splits them, or makes snapshots."""
    lost: int
    """Messages that were published while it recorded, and that are not in the file."""
    unwritable: int
    """Those of the lost that had a tensor on a GPU."""
    buffered_bytes: int
    """Bytes of what was received and is not yet written; their memory is held until then."""
    topics: int
    """Topics that it has subscribed to."""
    error: str
    """Why recording has ended by itself, as on a full disk; "" while it goes on."""


@public
class Recorder(Closing):
    """Writes the messages of topics to a file, from the memory in which they were published.

    It records from the moment it is made until `close`, or the end of its `with` block, in two
    threads of the core, which do not need the GIL. The file is one of MCAP: `docs/recording.md`.

    Args:
        path: of the file, by custom `NAME.mcap`.
        topics: a name, or several.
        all: every topic that somebody publishes, now or later.
        regex: also every topic whose whole name matches this regular expression (POSIX's extended).
        reliable: `True`: publishers with `reliable=True` wait for it, so it loses nothing of them.
            By default it slows nobody down: what the disk is too slow for is lost, and counted, in
            the file too.
        buffer: bytes that may wait to be written; the publishers' memory is held as long.
        depth: samples that may wait in each publisher until they are taken into the buffer.
        overwrite: `True`: replaces a file of this name; by default it must not exist.
        split_size: bytes after which another file is begun; the files are `NAME-0001.mcap`, ...
        split_duration: seconds after which another file is begun.
        snapshot: seconds for which samples are kept, in their publishers' memory and within
            `buffer`, and not written until `snapshot` is called.
        compress: `"zstd"` or `"lz4"`: messages of less than 1 MiB are compressed, and larger ones,
            which are written from where they lie, are not. A mapping from topics to one of these
            chooses for each topic, whatever its messages' size. By default nothing is.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: no topic, a file that exists, an option out of range.
        AccessDenied: the file may not be written.
        Unsupported: the library of a compression is not there; the message names it.
        SystemCallError: it cannot be made.

    >>> import os, tempfile
    >>> from tensorbus import Publisher, Recording
    >>> path = os.path.join(tempfile.mkdtemp(), "run.mcap")
    >>> with Publisher("doc/recorder", reliable=True) as publisher:
    ...     with Recorder(path, "doc/recorder", reliable=True):
    ...         publisher.wait_for_subscribers(timeout=10)
    ...         publisher.publish({"id": 7})
    True
    1
    >>> [sample.data for sample in Recording(path)]
    [{'id': 7}]
    """

    _in_a_child = "record in the process that made it"

    def __init__(
        self,
        path: str | os.PathLike[str],
        topics: str | Iterable[str] = (),
        *,
        all: bool = False,
        regex: str | None = None,
        reliable: bool = False,
        buffer: int = 2 << 30,
        depth: int = 64,
        overwrite: bool = False,
        split_size: int | None = None,
        split_duration: float | None = None,
        snapshot: float | None = None,
        compress: str | Mapping[str, str] | None = None,
        domain: str | None = None,
    ) -> None:
        self._path = os.fsdecode(path)
        names = [topics] if isinstance(topics, str) else [*topics]
        self._core = _core.Recorder(
            self._path,
            [topic_name(name) for name in names],
            all=all,
            pattern=regex or "",
            reliable=reliable,
            buffer_bytes=whole_number("buffer", buffer, low=1, high=_MOST_BUFFER),
            depth=whole_number("depth", depth, low=1, high=MAX_DEPTH),
            overwrite=overwrite,
            split_bytes=0
            if split_size is None
            else whole_number("split_size", split_size, low=1, high=_MOST_BUFFER),
            split_seconds=_duration("split_duration", split_duration),
            snapshot_seconds=_duration("snapshot", snapshot),
            compress=compress if isinstance(compress, str) else "",
            compress_topics=_compressed_topics(compress),
            domain=domain or "",
        )

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return self._path

    @property
    def stats(self) -> RecorderStats:
        """What it has written and lost, and what waits to be written."""
        return RecorderStats(**self._core.stats)

    def snapshot(self, timeout: float | None = None) -> str:
        """Writes what was kept to a file of its own, and goes on; the path of that file.

        Raises:
            InvalidArgument: it was made without `snapshot`.
            Timeout: it was not written in `timeout` seconds; it still will be.
            Closed: recording has ended.
        """
        told = self._core.snapshot(seconds("timeout", timeout))
        if isinstance(told, str):
            return told
        if told is Outcome.CLOSED:
            raise Closed(f"recording to {self._path!r} has ended")
        raise Timeout(f"the snapshot was not written in {timeout} s")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until recording has ended by itself, as on a full disk: True.

        `stats` is final then, and `close` raises why. False after `timeout` seconds.
        """
        return self._core.wait(seconds("timeout", timeout)) is Outcome.DONE

    def close(self) -> None:
        """Writes what was published before this call, and the end of the file.

        A second call does nothing.

        Raises:
            OutOfMemory: the disk is full; the message says what is in the file.
            SystemCallError: it could not be written for another reason.
        """
        self._core.close()

    def __repr__(self) -> str:
        stats = self.stats
        return (
            f"<tensorbus.Recorder {self._path!r} messages={stats.messages} bytes={stats.bytes} "
            f"lost={stats.lost}>"
        )


def _compressed_topics(compress: str | Mapping[str, str] | None) -> dict[str, str]:
    if compress is None or isinstance(compress, str):
        return {}
    return {topic_name(topic): how for topic, how in compress.items()}


def _duration(name: str, value: float | None) -> float:
    """Seconds; 0.0 for None."""
    if value is None:
        return 0.0
    limit = seconds(name, value)
    if not limit:
        raise InvalidArgument(f"{name}={value!r}: expected a number of seconds above 0")
    return limit
