"""Frames of exported videos, by their recorded times."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, InvalidArgument, Unsupported
from tensorbus._base.public import public
from tensorbus._recording.video_times import INDEX, KEY_FRAME_DISTANCE, time_after

if TYPE_CHECKING:
    import numpy as np


@public
class VideoFrame(NamedTuple):
    """A frame of a video."""

    time_ns: int
    """When its message was recorded, in nanoseconds since 1970."""
    image: np.ndarray[Any, Any]
    """The pixels: uint8 of shape (height, width, 3), in the order red, green, blue."""


@public
class VideoFrames(Closing, Sequence[VideoFrame]):
    """The frames of a video that `tensorbus recording export --format mp4` (or `mkv`) has written.

    A sequence of frames in the order of their times. Its index is the file `messages.jsonl` beside
    the video. To read a frame, up to 30 frames are decoded; frames that are read one after the
    other are decoded once. The object is for one thread. A forked child, and a process that gets a
    pickle of it, opens the file itself.

    Args:
        path: the video.

    Raises:
        Unsupported: PyAV is not installed.
        OSError: the video or its index cannot be opened.
        InvalidArgument: the index does not belong to the video, or the video is damaged.

    >>> frames = VideoFrames("out/camera_image/data.mp4")  # doctest: +SKIP
    >>> frames.at(frames[0].time_ns + 40_000_000).image.shape  # doctest: +SKIP
    (480, 640, 3)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        _import_av()
        self._path = os.fsdecode(path)
        self._times = _times_of(Path(self._path))
        self._reader: _Reader | None = _Reader(self._path, self._times)

    @property
    def path(self) -> str:
        """The video's path, as it was given."""
        return self._path

    def time_ns(self, index: int) -> int:
        """When the message of a frame was recorded, in nanoseconds since 1970."""
        return self._times[index]

    def index_at(self, time_ns: int) -> int:
        """The index of the last frame that was recorded at this time or before.

        Raises:
            IndexError: all frames are later.
        """
        index = bisect_right(self._times, time_ns) - 1
        if index < 0:
            raise IndexError(f"video {self._path!r} has no frame at {time_ns} or before")
        return index

    def at(self, time_ns: int) -> VideoFrame:
        """The last frame that was recorded at this time or before: see `index_at`."""
        return self[self.index_at(time_ns)]

    def close(self) -> None:
        """Closes the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, index: int) -> VideoFrame: ...
    @overload
    def __getitem__(self, index: slice) -> list[VideoFrame]: ...
    def __getitem__(self, index: int | slice) -> VideoFrame | list[VideoFrame]:
        numbers = range(len(self._times))[index]
        if isinstance(numbers, range):
            return [self._frame(number) for number in numbers]
        return self._frame(numbers)

    def __iter__(self) -> Iterator[VideoFrame]:
        return map(self._frame, range(len(self._times)))

    def __reduce__(self) -> tuple[Any, ...]:
        return VideoFrames, (self._path,)

    def __repr__(self) -> str:
        return f"<tensorbus.VideoFrames {self._path!r} frames={len(self)}>"

    def _frame(self, index: int) -> VideoFrame:
        if self._reader is None:
            raise Closed(f"video {self._path!r} is closed")
        if self._reader.process != os.getpid():  # a forked child shares the file's position
            self._reader = _Reader(self._path, self._times)
        return VideoFrame(self._times[index], self._reader.image(index))


class _Reader:
    """Decodes frames by their index."""

    def __init__(self, path: str, times: Sequence[int]) -> None:
        av = _import_av()
        self.process = os.getpid()
        self._path = path
        try:
            self._container = av.open(path)
            self._stream = self._container.streams.video[0]
            # No threads, here and for the conversion of colours: a forked child would wait for
            # them for ever when it frees this decoder.
            self._stream.codec_context.thread_count = 1
        except (av.InvalidDataError, IndexError) as error:
            raise InvalidArgument(f"file {path!r} is no video, or is incomplete: {error}") from None
        self._places: list[int] = []
        for time_ns in times:
            last = self._places[-1] if self._places else -1
            elapsed = time_ns - times[0]
            self._places.append(time_after(last, elapsed, self._stream.time_base))
        self._decoder: Iterator[Any] = iter(())
        self._next: int | None = None  # the index of the next frame of the decoder

    def image(self, index: int) -> Any:
        place = self._places[index]
        if self._next is None or not self._next <= index < self._next + KEY_FRAME_DISTANCE:
            self._container.seek(place, stream=self._stream)
            self._decoder = self._container.decode(self._stream)
        self._next = None  # in case of an error
        for frame in self._decoder:
            if frame.pts >= place:
                break
        else:
            raise InvalidArgument(f"video {self._path!r} ends before frame {index}")
        if frame.pts != place:
            raise InvalidArgument(
                f"video {self._path!r} has no frame at {place * self._stream.time_base} s: it is "
                f"not the one that {INDEX!r} describes"
            )
        self._next = index + 1
        return frame.to_ndarray(format="rgb24", threads=1)

    def close(self) -> None:
        self._decoder = iter(())
        self._container.close()


def _times_of(path: Path) -> list[int]:
    """The recorded times of the messages whose images are in a video."""
    index = path.with_name(INDEX)
    times = []
    with index.open() as lines:
        try:
            for text in lines:
                line = json.loads(text)
                if path.name in line["files"].values():
                    times.append(int(line["time_ns"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"file {str(index)!r} is no index of videos: {error}") from None
    if not times or times != sorted(times):
        raise InvalidArgument(f"file {str(index)!r} has no index of the video {path.name!r}")
    return times


def _import_av() -> Any:
    try:
        import av
    except ImportError:
        raise Unsupported("PyAV is not installed: pip install 'tensorbus[video]'") from None
    return av
