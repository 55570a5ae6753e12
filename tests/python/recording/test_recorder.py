"""What a recorder writes: read with the `mcap` package and with `tb.Recording`, bit for bit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, in_a_fork, tell
from support.mcap_files import read_mcap


@dataclass
class Seen(tb.Message, name="test.Seen"):
    label: str
    pixels: np.ndarray
    scores: list[np.ndarray] = field(default_factory=list)


def record(path: Path, topic: str, values: list[Any], **options: Any) -> tb.RecorderStats:
    """Records values of one publisher, all of them."""
    with (
        tb.Publisher(topic, reliable=True, timeout=PATIENCE) as publisher,
        tb.Recorder(path, topic, reliable=True, **options) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for value in values:
            publisher.publish(value)
        recorder.close()
        return recorder.stats


def same(one: Any, other: Any) -> bool:
    """The same values of the same types, tensors bit for bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        shape = one.shape == other.shape and one.dtype == other.dtype
        return shape and one.tobytes() == other.tobytes()
    if type(one).__module__ == "torch":
        return one.dtype == other.dtype and bool((one == other).all())
    return bool(one == other)


def test_every_kind_of_message_comes_back(tmp_path: Path, torch: ModuleType) -> None:
    values: list[Any] = [
        np.arange(10, dtype="int16"),
        torch.arange(12.0).reshape(3, 4).to(torch.bfloat16),
        {"image": np.full((48, 64, 3), 7, np.uint8), "id": 3, "pose": (1.0, None, "x")},
        [torch.ones(5), torch.zeros(0), np.float32(2)],
        b"bytes alone",
        None,
        np.array(3.5),
        np.zeros((0, 4)),
        np.arange(100)[::-3],
        torch.arange(100).reshape(10, 10).T,
        np.random.default_rng(0).bytes(3_000_000),
    ]
    stats = record(tmp_path / "run.mcap", "topic", values)
    assert (stats.messages, stats.lost, stats.error) == (len(values), 0, "")
    assert read_mcap(tmp_path / "run.mcap").messages == {"topic": len(values)}
    recording = tb.Recording(tmp_path / "run.mcap")
    assert recording.recovered == recording.damage == ""
    for sample, value in zip(recording, values, strict=True):
        assert same(sample.data, value)
    assert [sample.header.sequence for sample in recording] == [*range(len(values))]


def test_tensors_that_overlap_still_do(tmp_path: Path, torch: ModuleType) -> None:
    base = torch.arange(20.0)
    record(tmp_path / "run.mcap", "topic", [{"all": base, "some": base[3:9]}])
    data = tb.Recording(tmp_path / "run.mcap")[0].data
    assert data["some"].data_ptr() == data["all"].data_ptr() + 12
    assert torch.equal(data["some"], base[3:9])
    assert os.path.getsize(tmp_path / "run.mcap") < 3_000


def test_types_and_nodes_are_in_the_file(tmp_path: Path) -> None:
    seen = Seen("cup", np.ones((4, 4)), [np.zeros(2)])
    with (
        tb.Publisher("seen", Seen, history=1) as publisher,
        tb.Recorder(tmp_path / "run.mcap", "seen") as recorder,
    ):
        publisher.publish(seen)
        eventually(lambda: recorder.stats.messages == 1)
        ((definition,),) = (topic.types for topic in tb.list_topics())
    file = read_mcap(tmp_path / "run.mcap")
    (schema,) = file.summary.schemas.values()
    (channel,) = file.summary.channels.values()
    assert (schema.name, schema.encoding) == ("test.Seen", "tensorbus")
    assert schema.data.decode() == definition
    assert channel.message_encoding == "tensorbus"
    assert channel.metadata["history"] == "1"
    assert channel.metadata["pid"] == str(os.getpid())

    recording = tb.Recording(tmp_path / "run.mcap")
    assert recording.topics["seen"].types == (definition,)
    (sample,) = recording.select("seen", message_type=Seen)
    assert type(sample.data) is Seen
    assert same(sample.data.pixels, seen.pixels)
    assert recording[0].data["label"] == "cup"
    assert recording[0].header.publisher == channel.metadata["publisher"]


def test_tensors_lie_aligned_in_the_file(tmp_path: Path) -> None:
    value = {"small": np.ones(3, np.uint8), "large": np.ones(1 << 20, np.uint8), "odd": "x" * 13}
    record(tmp_path / "run.mcap", "topic", [value, value])
    for sample in tb.Recording(tmp_path / "run.mcap"):
        assert sample.data["small"].ctypes.data % 64 == 0
        assert sample.data["large"].ctypes.data % 4096 == 0


def test_a_reliable_recorder_loses_nothing_of_publishers_that_are_faster(tmp_path: Path) -> None:
    count = 3_000
    values = [np.full(1000, number, np.uint32) for number in range(count)]
    stats = record(tmp_path / "run.mcap", "topic", values, buffer=100_000, depth=4)
    assert (stats.messages, stats.lost) == (count, 0)
    for number, sample in enumerate(tb.Recording(tmp_path / "run.mcap")):
        assert (sample.data == number).all()


def test_whoever_reads_a_file_or_writes_it_keeps_what_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with tb.Publisher("topic", reliable=True) as publisher:
        with tb.Recorder(path, "topic", reliable=True):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(np.full(5000, 7))
        old = tb.Recording(path)
        tensor = old[0].data
        with tb.Recorder(path, "topic", overwrite=True, reliable=True) as other:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            with tb.Recorder(path, all=True, overwrite=True, reliable=True):
                assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
                publisher.publish(8)
            publisher.publish(9)
            other.close()
            assert other.stats.messages == 2
    assert (tensor == 7).all()
    old.check()
    assert [sample.data for sample in tb.Recording(path)] == [8]


def test_what_is_lost_is_counted_in_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    count = 2_000
    with (
        tb.Publisher("topic", depth=1) as publisher,
        tb.Recorder(path, "topic", buffer=1, depth=1) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(count):
            publisher.publish(np.full(100_000, number))
            assert recorder.stats.buffered_bytes < 2_000_000
        eventually(lambda: recorder.stats.buffered_bytes == 0)
        last = {"last": True}
        publisher.publish(last)
        eventually(lambda: type(tb.Recording(path)[-1].data) is dict)
        recorder.close()
        stats = recorder.stats
    assert stats.messages + stats.lost == count + 1
    recording = tb.Recording(path)
    assert (len(recording), recording.lost) == (stats.messages, stats.lost)
    assert read_mcap(path).lost == stats.lost
    sequences = [sample.header.sequence for sample in recording]
    assert count + 1 - len(sequences) == stats.lost
    for sample in recording[:-1]:
        assert (sample.data == sample.header.sequence).all()


def test_topics_are_found_by_a_pattern_and_later(tmp_path: Path) -> None:
    with (
        tb.Recorder(tmp_path / "some.mcap", regex=r"camera/[0-9]+", reliable=True) as some,
        tb.Recorder(tmp_path / "all.mcap", all=True, reliable=True) as everything,
    ):
        publishers = [tb.Publisher(name, history=1) for name in ("camera/1", "lidar", "camera/x")]
        for publisher in publishers:
            publisher.publish("here")
        eventually(lambda: everything.stats.messages == 3)
        eventually(lambda: some.stats.messages == 1)
        for publisher in publishers:
            publisher.close()
    assert [*tb.Recording(tmp_path / "some.mcap").topics] == ["camera/1"]
    assert [*tb.Recording(tmp_path / "all.mcap").topics] == ["camera/1", "camera/x", "lidar"]
    assert read_mcap(tmp_path / "all.mcap").messages == {"camera/1": 1, "camera/x": 1, "lidar": 1}


def test_one_that_is_closed_at_once_has_what_was_published_before(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.mcap"
        record(path, f"topic/{number}", [{"id": number}, np.zeros(300_000)])
        assert len(tb.Recording(path)) == 2
        path.unlink()


def test_two_recorders_write_the_same(tmp_path: Path) -> None:
    values = [np.full(50_000, number) for number in range(50)]
    with tb.Recorder(tmp_path / "other.mcap", "topic", reliable=True) as other:
        with tb.Publisher("topic", reliable=True) as publisher:
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
        eventually(lambda: other.stats.topics == 1)
        with (
            tb.Publisher("topic", reliable=True) as publisher,
            tb.Recorder(tmp_path / "run.mcap", "topic", reliable=True),
        ):
            assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
            for value in values:
                publisher.publish(value)
    one, two = (tb.Recording(tmp_path / name) for name in ("run.mcap", "other.mcap"))
    assert len(one) == len(two) == len(values)
    assert all(same(a.data, b.data) for a, b in zip(one, two, strict=True))


def test_it_holds_no_memory_when_all_is_written(tmp_path: Path) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(tmp_path / "run.mcap", "topic", reliable=True) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(20):
            publisher.publish(np.ones(1_000_000))
        eventually(lambda: recorder.stats.messages == 20)
        eventually(lambda: publisher.stats.bytes_in_flight == 0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "topics: name at least one"),
        ({"topics": ""}, "topic"),
        ({"regex": "("}, "regex: '\\(' is not a regular expression"),
        ({"topics": "topic", "buffer": 0}, "buffer=0"),
        ({"topics": "topic", "depth": 0}, "depth=0"),
    ],
)
def test_mistakes_are_named_and_leave_no_file(
    tmp_path: Path, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(tb.InvalidArgument, match=text):
        tb.Recorder(tmp_path / "run.mcap", **arguments)
    assert not (tmp_path / "run.mcap").exists()


def test_a_file_is_replaced_only_if_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, "topic", [1])
    with pytest.raises(tb.InvalidArgument, match=r"run\.mcap': it exists"):
        tb.Recorder(path, "topic")
    assert len(tb.Recording(path)) == 1
    record(path, "topic", [1, 2], overwrite=True)
    assert len(tb.Recording(path)) == 2
    with pytest.raises(tb.Error, match="nowhere"):
        tb.Recorder(tmp_path / "nowhere" / "run.mcap", "topic")


def test_a_forked_child_leaves_the_file_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with tb.Publisher("topic", reliable=True) as publisher:
        recorder = tb.Recorder(path, "topic", reliable=True)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(1)

        def child() -> None:
            with pytest.raises(tb.Forked):
                recorder.close()
            with recorder:
                pass

        in_a_fork(child)
        publisher.publish(2)
        recorder.close()
        recorder.close()
    assert [sample.data for sample in tb.Recording(path)] == [1, 2]


def _full(path: str, more: int) -> None:
    import resource

    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(path, "topic", reliable=True) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (more, resource.RLIM_INFINITY))
        thread = threading.Thread(
            target=lambda: [publisher.publish(np.full(100_000, i, "u1")) for i in range(30)]
        )
        thread.start()
        assert recorder.wait(PATIENCE)
        thread.join()
        tell((recorder.stats.error, recorder.stats.messages, recorder.stats.lost))
        try:
            recorder.close()
        except tb.OutOfMemory as error:
            tell(str(error))


def test_a_disk_without_room_ends_it_with_what_is_in_the_file(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    other = elsewhere.start(_full, str(path), 1_050_000)
    error, messages, lost = other.hear()
    assert other.hear() == error
    other.finish()
    assert messages == 10
    assert lost > 0
    assert "10 complete messages" in error
    recording = tb.Recording(path)
    assert len(recording) == 10
    assert all((sample.data == i).all() for i, sample in enumerate(recording))


def _publish_and_record(path: str) -> None:
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(path, "topic", reliable=True) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        number = 0
        while True:
            size = 1 + number * 7919 % 200_000
            publisher.publish(np.full(size, number, "u4"))
            number += 1
            if number % 10 == 0:
                tell(recorder.stats.messages)


KILLS = int(os.environ.get("TENSORBUS_RECORDER_KILLS", "8"))


@pytest.mark.slow
@pytest.mark.timeout(120 + 3 * KILLS)
def test_a_killed_recorder_leaves_all_that_it_said_it_had_written(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    for kill in range(KILLS):
        path = tmp_path / f"{kill}.mcap"
        other = elsewhere.start(_publish_and_record, str(path))
        written = 0
        for _ in range(1 + kill * 37 % 11):
            written = other.hear()
        other.kill()
        recording = tb.Recording(path)
        assert recording.recovered
        assert recording.damage == ""
        assert len(recording) >= written
        for number, sample in enumerate(recording):
            data = sample.data
            assert data.shape == (1 + number * 7919 % 200_000,)
            assert (data == number).all()
        path.unlink()


def test_threads_may_ask_and_close_at_once(tmp_path: Path) -> None:
    recorder = tb.Recorder(tmp_path / "run.mcap", all=True)
    asked: list[Callable[[], object]] = [
        recorder.close,
        recorder.close,
        lambda: recorder.stats,
        lambda: repr(recorder),
    ]
    threads = [threading.Thread(target=ask) for ask in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert len(tb.Recording(tmp_path / "run.mcap")) == 0
    assert read_mcap(tmp_path / "run.mcap").messages == {}
