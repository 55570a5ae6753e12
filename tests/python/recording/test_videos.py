"""`tensorbus recording export --format mp4 | mkv`, and `tb.VideoFrames`."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from recorded_topics import record
from tensorbus._cli.command import main

pytest.importorskip("typer")
av = pytest.importorskip("av")

COUNT = 70  # more than two intervals between key frames
KINDS = ["mp4", "mkv"]


def shade(number: int) -> int:
    return 20 + 3 * number


def image(number: int, shape: tuple[int, ...] = (48, 64, 3)) -> np.ndarray[Any, Any]:
    return np.full(shape, shade(number), np.uint8)


def export(path: Path, kind: str, status: int = 0) -> Path:
    folder = path.parent / kind
    command = ["recording", "export", str(path), "-o", str(folder), "--format", kind]
    assert main(command) == status
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos") / "run.mcap"
    record(path, {"camera/image": [{"id": n, "image": image(n)} for n in range(COUNT)]})
    return path


@pytest.fixture(scope="module", params=KINDS)
def video(recorded: Path, request: pytest.FixtureRequest) -> Path:
    return export(recorded, request.param) / "camera_image" / f"image.{request.param}"


def is_shade(frame: tb.VideoFrame, number: int) -> bool:
    assert frame.image.dtype == np.uint8
    return bool(abs(frame.image.astype(int) - shade(number)).max() <= 2)


def test_every_frame_has_its_recorded_time(recorded: Path, video: Path) -> None:
    samples = tb.Recording(recorded)
    with tb.VideoFrames(video) as frames:
        assert len(frames) == COUNT
        for number, (frame, sample) in enumerate(zip(frames, samples, strict=True)):
            assert frame.time_ns == sample.time_ns == frames.time_ns(number)
            assert frame.image.shape == (48, 64, 3)
            assert is_shade(frame, number)


def test_frames_are_found_in_any_order(video: Path) -> None:
    with tb.VideoFrames(video) as frames:
        order = np.random.default_rng(3).permutation(COUNT).tolist()
        for number in [0, COUNT - 1, 0, 1, *order, -1]:
            assert is_shade(frames[number], number % COUNT)
        assert [is_shade(frame, n) for n, frame in zip((5, 3, 1), frames[5:0:-2], strict=True)]


def test_a_frame_is_the_last_at_a_time_or_before(video: Path) -> None:
    with tb.VideoFrames(video) as frames:
        times = [frame.time_ns for frame in frames]
        assert is_shade(frames.at(times[40]), 40)
        assert is_shade(frames.at(times[40] - 1), 39)
        assert frames.index_at(times[40] + 1) == 40
        assert frames.at(times[-1] + 10**12).time_ns == times[-1]
        with pytest.raises(IndexError, match="no frame at"):
            frames.at(times[0] - 1)
        with pytest.raises(IndexError):
            frames[COUNT]


def test_players_show_the_frames_at_their_recorded_intervals(video: Path, recorded: Path) -> None:
    samples = tb.Recording(recorded)
    with av.open(str(video)) as container:
        (stream,) = container.streams.video
        assert stream.codec_context.name == "h264"
        shown = [frame.pts * stream.time_base for frame in container.decode(stream)]
    intended = [Fraction(one.time_ns - samples.start_ns, 10**9) for one in samples]
    # Frames closer than the container's unit are shown one unit after the other.
    unit = stream.time_base
    for number in range(COUNT):
        assert -unit <= shown[number] - intended[number] <= (number + 1) * unit
    assert shown == sorted(set(shown))


@pytest.mark.parametrize("kind", KINDS)
def test_odd_sizes_gray_images_and_the_order_of_colours(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.mcap"
    blue = np.full((31, 33, 3), (240, 20, 10), np.uint8)
    record(
        path,
        {
            "odd": [tb.ImageMessage(blue, encoding="bgr8")] * 3,
            "gray": [np.full((32, 32), 77, np.uint8)] * 2,
            "two": [{"left": image(1), "right": image(9)}],
        },
        {"odd": tb.ImageMessage},
    )
    folder = export(path, kind)
    odd = tb.VideoFrames(folder / "odd" / f"data.{kind}")
    assert len(odd) == 3
    assert odd[2].image.shape == (31, 33, 3)
    assert abs(odd[2].image[15, 15].astype(int) - (10, 20, 240)).max() <= 8
    gray = tb.VideoFrames(folder / "gray" / f"data.{kind}")
    assert abs(gray[1].image.astype(int) - 77).max() <= 2
    for side, number in (("left", 1), ("right", 9)):
        assert is_shade(tb.VideoFrames(folder / "two" / f"{side}.{kind}")[0], number)


def test_what_is_no_frame_is_left_out_and_the_index_stays_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.mcap"
    messages = [image(0), image(1, (16, 16, 3)), np.zeros(3), image(2, (48, 64, 4)), image(3)]
    record(path, {"camera": messages, "pose": [np.zeros(7)]})
    folder = export(path, "mp4", 1)
    said = capsys.readouterr()
    assert said.out.startswith("2 messages, 1 files: ")
    assert "topic 'camera': 3 messages were left out" in said.err
    assert "(16, 16, 3), the first one (48, 64, 3)" in said.err
    assert [each.name for each in folder.iterdir()] == ["camera"]
    frames, samples = tb.VideoFrames(folder / "camera/data.mp4"), tb.Recording(path)
    assert [frame.time_ns for frame in frames] == [samples[0].time_ns, samples[4].time_ns]
    assert is_shade(frames[1], 3)


def test_a_child_and_a_pickle_read_the_same_frames(video: Path) -> None:
    frames = tb.VideoFrames(video)
    assert is_shade(frames[10], 10)
    child = os.fork()
    if child == 0:
        right = all(is_shade(frames[number], number) for number in (50, 3, 11))
        os._exit(0 if right else 1)
    assert is_shade(frames[11], 11)
    assert os.waitpid(child, 0)[1] == 0
    assert is_shade(frames[12], 12)
    assert is_shade(pickle.loads(pickle.dumps(frames))[30], 30)


def test_mistakes_are_named(video: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tb.VideoFrames(tmp_path / "none.mp4")
    alone = tmp_path / video.name
    shutil.copy(video, alone)
    with pytest.raises(FileNotFoundError, match=r"messages\.jsonl"):
        tb.VideoFrames(alone)
    index = tmp_path / "messages.jsonl"
    index.write_text("no JSON\n")
    with pytest.raises(tb.InvalidArgument, match="no index"):
        tb.VideoFrames(alone)
    index.write_text('{"files": {}, "time_ns": 1}\n')
    with pytest.raises(tb.InvalidArgument, match="no index of the video"):
        tb.VideoFrames(alone)
    lines = (video.parent / "messages.jsonl").read_text().splitlines(keepends=True)
    later = lines[-1].replace('"time_ns": ', '"time_ns": 9')
    index.write_text("".join([*lines, later]))
    with pytest.raises(tb.InvalidArgument, match="ends before frame 70"):
        [*tb.VideoFrames(alone)]
    index.write_text("".join([*lines[:60], later]))
    with pytest.raises(tb.InvalidArgument, match="frame"):
        [*tb.VideoFrames(alone)]
    index.write_text("".join(lines))
    alone.write_bytes(b"no video")
    with pytest.raises(tb.InvalidArgument, match="no video"):
        tb.VideoFrames(alone)
    frames = tb.VideoFrames(video)
    frames.close()
    with pytest.raises(tb.Closed):
        frames[0]


def test_a_missing_package_is_named(
    video: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(tb.Unsupported, match=r"pip install 'tensorbus\[video\]'"):
        tb.VideoFrames(video)
    folder = recorded.parent / "without"
    command = ["recording", "export", str(recorded), "-o", str(folder), "--format", "mp4"]
    assert main(command) == 1
    assert "pip install 'tensorbus[video]'" in capsys.readouterr().err
    assert not folder.exists()
