"""Tensors of a GPU in recordings, over the stand-in for the driver."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.cuda.standin import ENVIRONMENT, Stream, needs_standin, read_on
from support.harness import PATIENCE, Elsewhere, hear, tell
from support.mcap_files import lost_in, read_mcap
from tensorbus._recording.copying import copy_recordings

pytestmark = needs_standin

COUNT = 8
BYTES = 1 << 16
NO_DRIVER = {"TENSORBUS_CUDA_DRIVER": "off"}
EACH_RECORDER = pytest.mark.parametrize(
    "environment", [ENVIRONMENT, NO_DRIVER], ids=["it can use the GPU", "it cannot"]
)


def publish(publisher: tb.Publisher[Any], stream: Stream, number: int) -> None:
    """One whose tensor is written when it is published already."""
    stream.pause()
    publish_unwritten(publisher, stream, number)
    stream.resume()


def publish_unwritten(publisher: tb.Publisher[Any], stream: Stream, number: int) -> None:
    """The stream is paused, and writes the tensor when it goes on."""
    memory = publisher.loan(BYTES, "uint8", device="cuda:1")
    stream.write(memory, number)
    image = np.full((2, 3), number, "f4")
    publisher.publish({"data": memory, "number": number, "image": image}, stream=stream)


def publish_frames() -> None:
    stream = Stream(1)
    with tb.Publisher("frames", reliable=True, timeout=PATIENCE) as publisher:
        tell("there")
        publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(COUNT):
            publish(publisher, stream, number)
        tell("published")
        hear()


def require_frames(path: Path) -> None:
    recording = tb.Recording(path, library="numpy")
    assert len(recording) == COUNT
    for number, sample in enumerate(recording):
        assert sample.data["number"] == number
        assert set(sample.data["data"].tolist()) == {number}
        assert (sample.data["image"] == number).all()
        assert sample.published_on == ("cuda:1", "cpu")


def record(path: str) -> None:
    with tb.Recorder(path, "frames", reliable=True) as recorder:
        tell("recording")
        hear()
        recorder.close()
        assert (recorder.stats.messages, recorder.stats.lost) == (COUNT, 0)
        assert recorder.stats.unwritable == 0


def record_what_others_publish(
    path: Path, elsewhere: Elsewhere, environment: dict[str, str]
) -> None:
    recorder = elsewhere.start(record, str(path), env=environment)
    recorder.hear()
    publisher = elsewhere.start(publish_frames, env=ENVIRONMENT)
    publisher.hear()
    publisher.hear()
    recorder.tell()
    recorder.finish()
    publisher.tell()
    publisher.finish()


@EACH_RECORDER
def test_they_are_in_the_file_and_say_where_they_were(
    tmp_path: Path, elsewhere: Elsewhere, environment: dict[str, str]
) -> None:
    path = tmp_path / "run.mcap"
    record_what_others_publish(path, elsewhere, environment)
    require_frames(path)
    assert read_mcap(path).messages == {"frames": COUNT}
    copy_recordings([tb.Recording(path)], tmp_path / "cut.mcap")
    require_frames(tmp_path / "cut.mcap")
    copy_recordings([tb.Recording(path)], tmp_path / "packed.mcap", compress="zstd")
    require_frames(tmp_path / "packed.mcap")


def both_ends(until: ExitStack, path: str) -> tuple[Stream, tb.Publisher[Any], tb.Recorder]:
    publisher = until.enter_context(tb.Publisher[Any]("frames", reliable=True, timeout=PATIENCE))
    recorder = until.enter_context(tb.Recorder(path, "frames", reliable=True))
    assert publisher.wait_for_subscribers(timeout=PATIENCE)
    return Stream(1), publisher, recorder


def record_our_own(path: str) -> None:
    with ExitStack() as until:
        stream, publisher, recorder = both_ends(until, path)
        for number in range(COUNT):
            publish(publisher, stream, number)
        recorder.close()
        assert (recorder.stats.messages, recorder.stats.lost) == (COUNT, 0)


def test_a_program_records_what_it_publishes_itself(tmp_path: Path, elsewhere: Elsewhere) -> None:
    path = tmp_path / "run.mcap"
    elsewhere.run(record_our_own, str(path), env=ENVIRONMENT)
    require_frames(path)


def record_unwritten(path: str) -> None:
    with ExitStack() as until:
        stream, publisher, recorder = both_ends(until, path)
        stream.pause()
        for number in range(COUNT):
            publish_unwritten(publisher, stream, number)
        closing = threading.Thread(target=recorder.close)
        closing.start()
        closing.join(0.5)
        assert closing.is_alive()
        stream.resume()
        closing.join()
        assert (recorder.stats.messages, recorder.stats.lost) == (COUNT, 0)


def test_the_end_of_a_recorder_waits_for_copies(tmp_path: Path, elsewhere: Elsewhere) -> None:
    path = tmp_path / "run.mcap"
    elsewhere.run(record_unwritten, str(path), env=ENVIRONMENT)
    require_frames(path)


def record_never_written(path: str) -> None:
    with ExitStack() as until:
        stream, publisher, recorder = both_ends(until, path)
        stream.pause()
        for number in range(COUNT):
            publish_unwritten(publisher, stream, number)
        publisher.publish({"number": COUNT})
        publish_unwritten(publisher, stream, COUNT + 1)
        recorder.close()
        stats = recorder.stats
        assert (stats.messages, stats.lost, stats.unwritable) == (1, COUNT + 1, COUNT + 1)
        stream.resume()


@pytest.mark.slow
def test_the_end_of_a_recorder_does_not_wait_for_ever_and_says_what_it_lost(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    elsewhere.run(record_never_written, str(path), env=ENVIRONMENT)
    (sample,) = tb.Recording(path)
    assert sample.data == {"number": COUNT}
    lost = lost_in(read_mcap(path))
    assert [(one["first"], one["count"]) for one in lost] == [
        ("0", str(COUNT)),
        (str(COUNT + 1), "1"),
    ]
    assert all("it was not copied within 5 s" in one["why"] for one in lost)


def record_large_ones(path: str) -> None:
    with ExitStack() as until:
        stream, publisher, recorder = both_ends(until, path)
        for size in (BYTES, 4 << 20, 4 << 20, BYTES, 4 << 20):
            memory = publisher.loan(size, "uint8", device="cuda:1")
            stream.write(memory, 1)
            publisher.publish(memory, stream=stream)
        recorder.close()
        stats = recorder.stats
        assert (stats.messages, stats.lost, stats.unwritable) == (2, 3, 3)


def test_what_cannot_be_copied_is_counted_and_the_file_says_why(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    elsewhere.run(record_large_ones, str(path), env=ENVIRONMENT | {"TENSORBUS_BUDGET": "2097152"})
    assert [sample.header.sequence for sample in tb.Recording(path)] == [0, 3]
    assert tb.Recording(path).topics["frames"].lost == 3
    lost = lost_in(read_mcap(path))
    assert [(one["first"], one["count"]) for one in lost] == [("1", "2"), ("4", "1")]
    assert all("4194304 bytes" in one["why"] for one in lost), lost
    copy_recordings([tb.Recording(path)], tmp_path / "cut.mcap")
    copied = lost_in(read_mcap(tmp_path / "cut.mcap"))
    assert [one["why"] for one in copied] == [one["why"] for one in lost]


def play_from_main_memory(path: str, device: str | None = None) -> None:
    with (
        tb.Subscriber("frames", library="numpy", timeout=PATIENCE) as subscriber,
        tb.Player(path, rate=1e9, paused=True, device=device) as player,
    ):
        player.wait_for_subscribers(PATIENCE)
        player.resume()
        for number in range(COUNT):
            data = subscriber.receive().data
            assert (data["number"], set(data["data"].tolist())) == (number, {number})
        assert player.stats.bytes_copied == 0


def play_onto_a_gpu(path: str) -> None:
    stream = Stream()
    with (
        tb.Subscriber("frames", timeout=PATIENCE) as subscriber,
        tb.Player(path, rate=1e9, paused=True, device="cuda:0") as player,
    ):
        player.wait_for_subscribers(PATIENCE)
        player.resume()
        for number in range(COUNT):
            sample = subscriber.receive()
            data = sample.data
            assert (data["data"].device, data["number"]) == ("cuda:0", number)
            assert read_on(stream, sample, data["data"]) == {number}
            assert (data["image"] == number).all()


def refuse_a_gpu(path: str) -> None:
    with pytest.raises(tb.Unsupported):
        tb.Player(path, device="cuda:0")


def test_they_are_played_from_main_memory_or_put_back_onto_a_gpu(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    record_what_others_publish(path, elsewhere, NO_DRIVER)
    for environment in (NO_DRIVER, ENVIRONMENT):
        elsewhere.run(play_from_main_memory, str(path), env=environment)
        elsewhere.run(play_from_main_memory, str(path), "cpu", env=environment)
    elsewhere.run(play_onto_a_gpu, str(path), env=ENVIRONMENT)
    elsewhere.run(refuse_a_gpu, str(path), env=NO_DRIVER)
