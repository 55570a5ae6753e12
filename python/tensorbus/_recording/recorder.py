"""Recording of topics to a file."""

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

_MAX_BYTES = 2**62  # of `buffer` and `split_size`


@public
@dataclass(frozen=True, eq=False)
class RecorderStats(Stats):
    """Counters of a `Recorder` since it was made, and its current state."""

    messages: int
    """Messages in the file, or in all files."""
    bytes: int
    """Bytes of the file, or of all files."""
    files: int
    """Files that were begun: one, unless the recorder splits them or writes snapshots."""
    lost: int
    """Messages that were published during the recording and are not in the file."""
    unwritable: int
    """Lost messages that had a tensor on a GPU."""
    buffered_bytes: int
    """Bytes that were received and are not yet written; their memory is held until then."""
    topics: int
    """Topics to which the recorder has subscribed."""
    error: str
    """Why recording has ended by itself, for example a full disk; "" while it continues."""


@public
class Recorder(Closing):
    """Writes the messages of topics to a file, from the memory in which they were published.

    It records from its construction to `close`, or to the end of its `with` block, in two threads
    of the core, which do not need the GIL. The file format is MCAP: see docs/recording.md.

    Args:
        path: the file, usually `NAME.mcap`.
        topics: one topic, or several.
        all: record every topic that is published, now or later.
        regex: also record topics whose whole name matches this POSIX extended regular expression.
        reliable: publishers with `reliable=True` wait for the recorder, which then loses none of
            their messages. By default no publisher waits; messages that arrive faster than the disk
            writes are lost. The lost messages are counted, also in the file.
        buffer: bytes that may wait to be written. The publishers' memory is held until then.
        depth: samples of each publisher that may wait until they are moved into the buffer.
        overwrite: replace an existing file; by default the file must not exist.
        split_size: bytes after which another file is begun; the files are `NAME-0001.mcap`, ...
        split_duration: seconds after which another file is begun.
        snapshot: seconds for which samples are kept, in their publishers' memory and within
            `buffer`. They are written only when `snapshot` is called.
        compress: `"zstd"` or `"lz4"`: compress messages of less than 1 MiB; larger messages are
            written directly from shared memory. A mapping gives a method for some topics; it
            applies to messages of any size. By default no message is compressed.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: no topic is given, the file exists, or an option is out of range.
        AccessDenied: the file may not be written.
        Unsupported: the library of a compression is not installed; the message names it.
        SystemCallError: the file cannot be created.

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
            buffer_bytes=whole_number("buffer", buffer, low=1, high=_MAX_BYTES),
            depth=whole_number("depth", depth, low=1, high=MAX_DEPTH),
            overwrite=overwrite,
            split_bytes=0
            if split_size is None
            else whole_number("split_size", split_size, low=1, high=_MAX_BYTES),
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
        """Counters of messages written and lost, and of bytes that wait to be written."""
        return RecorderStats(**self._core.stats)

    def snapshot(self, timeout: float | None = None) -> str:
        """Writes the kept samples to a new file; the recorder continues.

        Returns:
            The path of the new file.

        Raises:
            InvalidArgument: the recorder was made without `snapshot`.
            Timeout: the file was not written in `timeout` seconds; it will still be written.
            Closed: recording has ended.
        """
        result = self._core.snapshot(seconds("timeout", timeout))
        if isinstance(result, str):
            return result
        if result is Outcome.CLOSED:
            raise Closed(f"recording to {self._path!r} has ended")
        raise Timeout(f"the snapshot was not written in {timeout} s")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until recording has ended by itself, for example on a full disk.

        Returns:
            True if it has ended: `stats` is final, and `close` raises the error. False after
            `timeout` seconds.
        """
        return self._core.wait(seconds("timeout", timeout)) is Outcome.DONE

    def close(self) -> None:
        """Writes all messages that were published before this call, and ends the file.

        A second call does nothing.

        Raises:
            OutOfMemory: the disk is full; the message describes what is in the file.
            SystemCallError: the file could not be written for another reason.
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
    return {topic_name(topic): method for topic, method in compress.items()}


def _duration(name: str, value: float | None) -> float:
    """Seconds; 0.0 for None."""
    if value is None:
        return 0.0
    limit = seconds(name, value)
    if not limit:
        raise InvalidArgument(f"{name}={value!r}: expected a number of seconds above 0")
    return limit
