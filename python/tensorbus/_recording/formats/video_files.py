"""Videos: one for each image of the messages of a topic, with an index of their times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tensorbus._base.errors import Unsupported
from tensorbus._recording.formats.image_pixels import rgb_pixels
from tensorbus._recording.formats.topic_files import Message, file_names
from tensorbus._recording.video_times import INDEX, KEY_FRAME_DISTANCE, TIME_BASES, time_after

_CODEC = "libx264"
_CHANNELS = (1, 3)
# No B-frames: frames are in the order of their times, and the first begins at 0 in each container.
_OPTIONS = {"preset": "veryfast", "crf": "18", "bf": "0", "g": str(KEY_FRAME_DISTANCE)}


class VideoFiles:
    """A video for each image, `NAME.mp4` or `NAME.mkv`, and `messages.jsonl`, their index."""

    def __init__(self, suffix: str, folder: Path) -> None:
        self._suffix = suffix
        self._folder = folder
        self._videos: dict[str, _Video] = {}
        self._lines = (folder / INDEX).open("wb")

    def add(self, message: Message) -> int:
        parts = message.parts
        images = {name: rgb_pixels(name, parts, _CHANNELS) for name in parts.tensors}
        names = file_names([*self._videos, *(name for name in images if name not in self._videos)])
        for name, image in images.items():
            if name in self._videos:
                self._videos[name].check(name, image)
        new = [name for name in images if name not in self._videos]
        for name in new:
            path = self._folder / f"{names[name]}.{self._suffix}"
            self._videos[name] = _Video(path, self._suffix, images[name])
        line = message.line({name: self._videos[name].path.name for name in images})
        for name, image in images.items():
            self._videos[name].add(image, message.header["time_ns"])
        self._lines.write(line)
        return len(new)

    def close(self) -> None:
        try:
            for video in self._videos.values():
                video.close()
        finally:
            self._lines.close()


class _Video:
    """One video of H.264."""

    def __init__(self, path: Path, suffix: str, image: Any) -> None:
        """`image` is the first one; it is not yet added."""
        import av

        self.path = path
        self._shape = image.shape
        height, width = image.shape[:2]
        # Players know 4:2:0 best, but it has no odd sizes.
        pixels = "yuv420p" if height % 2 == width % 2 == 0 else "yuv444p"
        self._unit = TIME_BASES[suffix]
        self._container: Any = cast(Any, av.open(str(path), "w"))
        self._stream: Any = self._container.add_stream(_CODEC, 30, dict(_OPTIONS))
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, pixels
        self._stream.codec_context.time_base = self._unit
        self._first_ns = self._last = -1

    def check(self, name: str, image: Any) -> None:
        """Raises Unsupported for an image that has not the size of the first one."""
        if image.shape != self._shape:
            raise Unsupported(
                f"image {name!r} has the shape {image.shape}, the first one {self._shape}: all "
                "images of a video have the same"
            )

    def add(self, image: Any, time_ns: int) -> None:
        import av
        import numpy as np

        if self._last < 0:
            self._first_ns = time_ns
        self._last = time_after(self._last, time_ns - self._first_ns, self._unit)
        pixels = "rgb24" if image.ndim == 3 else "gray"
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format=pixels)
        frame.pts, frame.time_base = self._last, self._unit
        self._write(frame)

    def close(self) -> None:
        """Writes the frames that the encoder still has."""
        try:
            self._write(None)
        finally:
            with _as_os_error():
                self._container.close()

    def _write(self, frame: Any) -> None:
        with _as_os_error():
            self._container.mux(self._stream.encode(frame))


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Makes an `OSError` of errors of FFmpeg: it ends the export. The index would be wrong."""
    import av

    try:
        yield
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror) from error
