"""Recordings in chunks: compressed by a recorder, and as other programs write them."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, in_a_fork, tell
from support.mcap_files import read_mcap
from support.screens.commands import program, run_program
from support.two_topics import two_topics

COUNT = 50
LARGE = 1_500_000

EACH = pytest.mark.parametrize("how", ["zstd", "lz4"])


def pose_of(number: int) -> dict[str, Any]:
    return {"id": number, "matrix": np.full((4, 4), number, "f8"), "frame": "base_link"}


def image_of(number: int, size: int) -> np.ndarray:
    return np.full(size, number, "u1")


def record_both(path: Path, size: int = 100_000, **options: Any) -> int:
    """The size of the file."""
    with two_topics(path, COUNT, **options) as (pose, image):
        for number in range(COUNT):
            pose.publish(pose_of(number))
            image.publish(image_of(number, size))
    return sum(os.path.getsize(file) for file in path.parent.glob(f"{path.stem}*"))


def require_all(path: Path, size: int = 100_000) -> None:
    recording = tb.Recording(path)
    assert (recording.recovered, recording.damage) == ("", "")
    poses, images = recording.select("pose"), recording.select("image")
    assert (len(poses), len(images)) == (COUNT, COUNT)
    for number in range(COUNT):
        data = poses[number].data
        assert (data["id"], data["frame"]) == (number, "base_link")
        assert data["matrix"].tobytes() == pose_of(number)["matrix"].tobytes()
        assert (images[number].data == image_of(number, size)).all()
        assert images[number].header.sequence == number
    times = [recording.time_ns(index) for index in range(len(recording))]
    assert times == sorted(times)


def messages_in(path: Path) -> int:
    """Of a file that may have only begun."""
    try:
        return len(tb.Recording(path))
    except (FileNotFoundError, tb.InvalidArgument):
        return 0


@EACH
def test_all_topics_are_compressed_and_the_mcap_package_reads_them(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / "run.mcap"
    assert record_both(path, compress=how) < COUNT * 100_000 / 10
    require_all(path)
    file = read_mcap(path)
    assert file.messages == {"pose": COUNT, "image": COUNT}
    assert {index.compression for index in file.summary.chunk_indexes} == {how}


def test_large_messages_stay_as_they_are_unless_their_topic_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    whole = record_both(path, LARGE, compress="zstd")
    assert whole > COUNT * LARGE
    require_all(path, LARGE)
    assert read_mcap(path).messages == {"pose": COUNT, "image": COUNT}
    image = tb.Recording(path).select("image")[0].data
    with tb.Player(path, "image", rate=1e9) as player:
        assert player.wait(PATIENCE)
        assert player.stats.bytes_copied == 0
    assert image.ctypes.data % 4096 == 0

    named = tmp_path / "named.mcap"
    assert record_both(named, LARGE, compress={"image": "lz4", "pose": "zstd"}) < whole / 10
    require_all(named, LARGE)
    file = read_mcap(named)
    assert file.messages == {"pose": COUNT, "image": COUNT}
    assert {index.compression for index in file.summary.chunk_indexes} == {"lz4", "zstd"}


def test_a_topic_that_is_not_named_is_not_compressed(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    assert record_both(path, compress={"pose": "zstd"}) > COUNT * 100_000
    require_all(path)
    assert {index.compression for index in read_mcap(path).summary.chunk_indexes} == {"zstd", ""}


def test_what_waits_for_a_chunk_is_written_after_a_second(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("pose", reliable=True) as pose,
        tb.Recorder(path, "pose", reliable=True, compress="zstd") as recorder,
    ):
        assert pose.wait_for_subscribers(timeout=PATIENCE)
        for number in range(3):
            pose.publish(pose_of(number))
        eventually(lambda: recorder.stats.messages == 3)
        assert [sample.data["id"] for sample in tb.Recording(path)] == [0, 1, 2]


def _record_until_killed(path: str) -> None:
    with (
        tb.Publisher("pose", reliable=True, timeout=PATIENCE) as pose,
        tb.Recorder(path, "pose", reliable=True, compress="zstd") as recorder,
    ):
        assert pose.wait_for_subscribers(timeout=PATIENCE)
        for number in range(100_000):
            pose.publish({"id": number, "data": os.urandom(20_000)})
            if number % 100 == 0:
                tell(recorder.stats.messages)


def test_what_a_killed_recorder_has_acknowledged_is_there(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    other = elsewhere.start(_record_until_killed, str(path))
    written = 0
    while not written:
        written = other.hear()
    other.kill()
    recording = tb.Recording(path)
    assert "it has no index at its end" in recording.recovered
    assert recording.damage == ""
    assert len(recording) >= written
    assert [sample.data["id"] for sample in recording] == [*range(len(recording))]


def test_files_that_are_split_and_snapshots_are_compressed(tmp_path: Path) -> None:
    record_both(tmp_path / "run.mcap", compress="zstd", split_size=300_000)
    files = sorted(tmp_path.glob("run-*"))
    assert len(files) > 3
    assert sum(len(tb.Recording(file)) for file in files) == 2 * COUNT
    for file in files:
        read_mcap(file)
    with (
        tb.Publisher("pose", reliable=True) as pose,
        tb.Recorder(
            tmp_path / "kept.mcap", "pose", reliable=True, snapshot=3600, compress="lz4"
        ) as recorder,
    ):
        assert pose.wait_for_subscribers(timeout=PATIENCE)
        for number in range(5):
            pose.publish(pose_of(number))
        eventually(lambda: recorder.stats.buffered_bytes > 5 * 512)
        kept = recorder.snapshot(timeout=PATIENCE)
    assert tb.Recording(kept).recovered == ""
    assert [sample.data["id"] for sample in tb.Recording(kept)] == [*range(5)]
    assert read_mcap(kept).messages == {"pose": 5}


def test_compressed_files_are_played(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record_both(path, compress="zstd")
    with (
        tb.Subscriber("pose", timeout=PATIENCE, depth=COUNT) as poses,
        tb.Player(path, rate=1e9, paused=True) as player,
    ):
        poses.wait_for_publishers(timeout=PATIENCE)
        player.resume()
        assert [poses.receive().data["id"] for _ in range(COUNT)] == [*range(COUNT)]
        assert player.wait(PATIENCE)
        assert player.stats.bytes_copied > 0


def test_samples_stay_valid_and_a_forked_child_reads(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record_both(path, compress="zstd")
    recording = tb.Recording(path)
    images = [sample.data for sample in recording.select("image")]
    with pytest.raises(ValueError, match="read-only"):
        images[0][0] = 1

    def read() -> None:
        assert (recording.select("image")[COUNT - 1].data == COUNT - 1).all()

    in_a_fork(read)
    recording.close()
    os.unlink(path)
    assert all((image == number).all() for number, image in enumerate(images))


def test_threads_read_chunks_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record_both(path, 300_000, compress="lz4")
    images = tb.Recording(path).select("image")

    def read(seed: int) -> int:
        order = np.random.default_rng(seed).permutation(COUNT)
        return sum(bool((images[int(number)].data == number).all()) for number in order)

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(read, range(8))] == [COUNT] * 8


@pytest.mark.parametrize("recorded", [None, "zstd"])
@pytest.mark.parametrize("copies", [False, True])
@EACH
def test_chunks_of_other_programs_are_read(
    tmp_path: Path, how: str, copies: bool, recorded: str | None
) -> None:
    """As the `mcap` package writes them, of messages that Tensorbus has encoded.

    A program that copies attachments and metadata copies an index of the file that was.
    """
    from mcap import reader, writer

    plain, other = tmp_path / "plain.mcap", tmp_path / "other.mcap"
    record_both(plain, compress=recorded)
    kind = {"zstd": writer.CompressionType.ZSTD, "lz4": writer.CompressionType.LZ4}[how]
    with plain.open("rb") as source, other.open("wb") as target:
        out = writer.Writer(target, compression=kind, chunk_size=200_000)
        out.start()
        channels: dict[int, int] = {}
        for _, channel, message in reader.make_reader(source).iter_messages():
            if channel.id not in channels:
                channels[channel.id] = out.register_channel(
                    channel.topic, channel.message_encoding, 0, channel.metadata
                )
            out.add_message(
                channels[channel.id],
                message.log_time,
                message.data,
                message.publish_time,
                message.sequence,
            )
        if copies:
            source.seek(0)
            for found in reader.make_reader(source).iter_attachments():
                out.add_attachment(
                    found.create_time, found.log_time, found.name, found.media_type, found.data
                )
            source.seek(0)
            for about in reader.make_reader(source).iter_metadata():
                out.add_metadata(about.name, about.metadata)
        out.finish()
    recording = tb.Recording(other)
    assert recording.damage == ""
    assert "has not finished" not in recording.recovered
    assert recording.about.get("format") == ("1" if copies else None)
    assert len(recording) == 2 * COUNT
    for number, sample in enumerate(recording.select("image")):
        assert (sample.data == image_of(number, 100_000)).all()
    for number, sample in enumerate(recording.select("pose")):
        assert sample.data["matrix"][0, 0] == number


def test_other_messages_in_chunks_are_counted_and_refused(tmp_path: Path) -> None:
    from mcap import writer

    path = tmp_path / "other.mcap"
    with path.open("wb") as file:
        other = writer.Writer(file)
        other.start()
        channel = other.register_channel("topic", "json", 0)
        other.add_message(channel, 5, b"{}", 5)
        other.finish()
    recording = tb.Recording(path)
    assert recording.topics["topic"].messages == 1
    with pytest.raises(tb.Unsupported, match=r"message 0, .*encoded as 'json'"):
        recording[0]


def test_a_compression_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with pytest.raises(tb.InvalidArgument, match="compress: compression 'bz2' is not known"):
        tb.Recorder(path, "topic", compress="bz2")
    with pytest.raises(tb.InvalidArgument, match="compress: "):
        tb.Recorder(path, "topic", compress={"topic": "zip"})
    assert not path.exists()


def _record_without_the_library(folder: str) -> None:
    tell("ready")
    path = Path(folder) / "run.mcap"
    try:
        tb.Recorder(path, "topic", compress="zstd")
    except tb.Unsupported as error:
        tell(str(error))
    tell(path.exists())


def test_a_library_that_is_missing_is_named_with_its_package(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    (tmp_path / "libzstd.so.1").write_bytes(b"this is no library")
    found = os.environ.get("LD_LIBRARY_PATH")
    where = str(tmp_path) if found is None else f"{tmp_path}:{found}"
    other = elsewhere.start(
        _record_without_the_library, str(tmp_path), env={"LD_LIBRARY_PATH": where}
    )
    assert other.hear() == "ready"
    text = other.hear()
    assert "needs libzstd.so.1, which cannot be loaded: " in text
    assert text.endswith("Install Debian's package libzstd1")
    assert other.hear() is False
    other.finish()


def test_the_command_takes_topics_with_a_compression(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    command = [program(), "record", "pose", "-o", str(path), "--reliable"]
    with tb.Publisher("pose", reliable=True, history=8, depth=8) as pose:
        for number in range(8):
            pose.publish(pose_of(number))
        with subprocess.Popen([*command, "--compress", "pose=zstd"]) as process:
            try:
                eventually(lambda: messages_in(path) == 8)
                process.terminate()
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()
    assert {index.compression for index in read_mcap(path).summary.chunk_indexes} == {"zstd"}
    wrong = run_program("record", "pose", "--compress", "pose=", "-o", path)
    assert wrong.status == 2
