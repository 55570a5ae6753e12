"""Reading recordings: by index, by time, damaged, and from what other programs wrote."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, in_a_fork, joined, tell

DAMAGED = int(os.environ.get("TENSORBUS_DAMAGED_FILES", "1000"))


@dataclass
class Count(tb.Message, name="test.Count"):
    number: int


@dataclass
class Weight(tb.Message, name="test.Weight"):
    number: float


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Six samples on "a" and six on "b", by turns."""
    path = tmp_path / "run.mcap"
    with (
        tb.Recorder(path, ["a", "b"], reliable=True) as writer,
        tb.Publisher("a", reliable=True) as one,
        tb.Publisher("b", reliable=True) as other,
    ):
        assert one.wait_for_subscribers(timeout=PATIENCE)
        assert other.wait_for_subscribers(timeout=PATIENCE)
        for number in range(6):
            one.publish({"id": number, "data": np.full(1000, number)})
            eventually(lambda n=number: writer.stats.messages == 2 * n + 1)
            other.publish(np.full(300_000, number, "f4"))
            eventually(lambda n=number: writer.stats.messages == 2 * n + 2)
    return path


def test_it_is_a_sequence_in_the_order_of_time(path: Path) -> None:
    recording = tb.Recording(path)
    assert len(recording) == 12
    times = [recording.time_ns(index) for index in range(12)]
    assert times == sorted(times)
    assert (recording.start_ns, recording.end_ns) == (times[0], times[-1])
    assert recording.duration == (times[-1] - times[0]) / 1e9
    assert recording[2].data["id"] == 1
    assert recording[-1].data[0] == 5
    assert [sample.data["id"] for sample in recording[::2]] == [*range(6)]
    assert [sample.header.topic for sample in recording[-2:]] == ["a", "b"]
    assert len(recording[3:3]) == 0
    with pytest.raises(IndexError):
        recording[12]
    with pytest.raises(IndexError):
        recording.time_ns(12)


def test_samples_know_when_they_were_recorded(path: Path) -> None:
    recording = tb.Recording(path)
    times = [recording.time_ns(index) for index in range(12)]
    assert [sample.time_ns for sample in recording] == times
    assert [sample.time_ns for sample in recording.select("b")[1:3]] == times[3:7:2]
    assert recording[-1].copy().time_ns == times[-1]
    seen = recording.dataset("a", transform=lambda sample: sample.time_ns, library=None)
    assert seen[2] == times[4]


def test_topics_say_what_they_have(path: Path) -> None:
    recording = tb.Recording(path)
    topic = recording.topics["a"]
    assert (topic.name, topic.types, topic.publishers) == ("a", (), 1)
    assert (topic.messages, topic.lost, recording.lost) == (6, 0, 0)
    assert topic.start_ns == recording.start_ns
    assert topic.rate == pytest.approx(5 / topic.duration)
    assert recording.about["version"] == tb.__version__
    assert "messages=12" in repr(recording)


def test_samples_are_selected_by_topic_and_time(path: Path) -> None:
    recording = tb.Recording(path)
    selected = recording.select("b", start_ns=recording.time_ns(5), end_ns=recording.time_ns(9))
    assert [int(sample.data[0]) for sample in selected] == [2, 3]
    assert selected.time_ns(0) == recording.time_ns(5)
    assert len(recording.select("a", "b")) == len(recording.select()) == 12
    assert recording.index_at(recording.time_ns(7)) == 7
    assert recording.index_at(recording.time_ns(7) + 1) == 8
    assert recording.index_at(0) == 0
    assert recording.index_at(2**70) == 12
    with pytest.raises(tb.InvalidArgument, match="no topic 'c'; its topics: 'a', 'b'"):
        recording.select("c")


def test_messages_of_a_type_are_read_as_one_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("count", Count, reliable=True) as publisher,
        tb.Recorder(path, "count", reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(Count(3))
    recording = tb.Recording(path)
    assert [sample.data for sample in recording.select("count", message_type=Count)] == [Count(3)]
    with pytest.raises(tb.TypeMismatch, match="topic 'count': "):
        recording.select("count", message_type=Weight)


def test_tensors_are_read_only_views_of_the_file(path: Path, torch: ModuleType) -> None:
    recording = tb.Recording(path)
    data = recording[1].data
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1
    recording.close()
    with pytest.raises(tb.Closed):
        recording[1]
    os.unlink(path)
    assert (data == 0).all()  # it keeps the mapping
    assert f"{data.ctypes.data:x}"


def _write_to_a_torch_tensor(path: str) -> None:
    sample = tb.Recording(path, library="torch")[1]
    sample.data[0] = 1


def test_a_write_through_torch_ends_the_process_with_a_message(
    path: Path, elsewhere: Elsewhere
) -> None:
    pytest.importorskip("torch")
    before = path.read_bytes()
    code, errors = elsewhere.start(_write_to_a_torch_tensor, str(path)).end()
    assert code == -signal.SIGSEGV
    assert "read-only" in errors
    assert path.read_bytes() == before


def test_a_recorded_tensor_is_published_by_reference(path: Path) -> None:
    recording = tb.Recording(path)
    with joined("again") as (publisher, subscriber):
        for sample in recording:
            publisher.publish(sample.data)
            got = subscriber.receive().data
            if sample.header.topic == "a":
                assert got["id"] == sample.data["id"]
                got, sent = got["data"], sample.data["data"]
            else:
                sent = sample.data
            assert (got == sent).all()
        assert publisher.stats.bytes_copied == 0


def test_a_forked_child_reads_on(path: Path) -> None:
    recording = tb.Recording(path)

    def child() -> None:
        assert [sample.data["id"] for sample in recording.select("a")] == [*range(6)]

    in_a_fork(child)


def test_a_file_that_is_cut_while_it_is_read_is_an_error(path: Path) -> None:
    recording = tb.Recording(path)
    size = path.stat().st_size
    os.truncate(path, size // 2)
    with pytest.raises(tb.InvalidArgument, match=r"message 11, at byte \d+: "):
        recording[11].data.sum()
    with pytest.raises(tb.SystemCallError, match="cut short"):
        recording.check()


def test_a_recording_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(path, "topic", reliable=True) as writer,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish("first")
        eventually(lambda: writer.stats.messages == 1)
        recording = tb.Recording(path)
        assert [sample.data for sample in recording] == ["first"]
        assert recording.recovered.startswith(f"file {str(path)!r}: ")
        assert "its recorder has not finished it" in recording.recovered


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tb.Recording(tmp_path / "nowhere.mcap")
    with pytest.raises(IsADirectoryError):
        tb.Recording(tmp_path)
    (tmp_path / "text.mcap").write_text("this is no recording")
    with pytest.raises(tb.InvalidArgument, match=r"text\.mcap': it is no recording"):
        tb.Recording(tmp_path / "text.mcap")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tb.Error):
        tb.Recording(tmp_path / "pipe")


def test_messages_of_other_programs_are_refused_by_name(tmp_path: Path) -> None:
    writer = pytest.importorskip("mcap.writer")
    path = tmp_path / "other.mcap"
    with path.open("wb") as file:
        other = writer.Writer(file, use_chunking=False)
        other.start()
        channel = other.register_channel("topic", "json", 0)
        other.add_message(channel, 5, b"{}", 5)
        other.finish()
    with pytest.raises(tb.Unsupported, match=r"message 0, .*encoded as 'json'"):
        tb.Recording(path)[0]


def _damage(whole: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, written over, left out or put in; or the file is cut."""
    file = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(file))
        kind = chance.randrange(6)
        if kind == 0:
            file[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            file[at : at + chance.randint(1, 64)] = chance.randbytes(chance.randint(1, 64))
        elif kind == 2:
            file[at : at + 8] = chance.choice((0, 1, 2**31, 2**63 - 1, 2**64 - 1)).to_bytes(
                8, "little"
            )
        elif kind == 3:
            del file[at : at + chance.randint(1, 5000)]
        elif kind == 4:
            file[at:] = bytes(len(file) - at)
        else:
            del file[max(at, 1) :]
        if not file:
            break
    return bytes(file)


def _small_file(path: Path, compress: dict[str, str] | None) -> dict[tuple[str, int], bytes]:
    """A recording whose every part is likely to be met; what is in it."""
    with (
        tb.Publisher("one", reliable=True) as one,
        tb.Publisher("two", reliable=True) as two,
        tb.Recorder(path, ["one", "two"], reliable=True, compress=compress),
    ):
        assert one.wait_for_subscribers(timeout=PATIENCE)
        assert two.wait_for_subscribers(timeout=PATIENCE)
        for number in range(8):
            one.publish({"id": number, "data": np.full(20, number)})
            two.publish(np.full(30, number, "u1"))
    return {
        (sample.header.topic, sample.header.sequence): _elements(sample)
        for sample in tb.Recording(path)
    }


def _elements(sample: tb.Sample[Any]) -> bytes:
    data = sample.data
    return (data["data"] if isinstance(data, dict) else data).tobytes()  # type: ignore[no-any-return]


def _read_all(path: Path, known: dict[tuple[str, int], bytes]) -> tuple[list[str], int, bool]:
    """What was refused, how many samples were read, and whether the file says that it is whole."""
    try:
        recording = tb.Recording(path)
    except tb.Error as error:
        return [str(error)], 0, False
    refused = []
    for index in range(len(recording)):
        try:
            sample = recording[index]
        except tb.Error as error:
            refused.append(str(error))
            continue
        key = sample.header.topic, sample.header.sequence
        # Without an index nothing but the record itself says which topic a message is of.
        if key in known and not recording.recovered:
            assert len(_elements(sample)) == len(known[key])
    is_whole = not (recording.recovered or recording.damage)
    return refused, len(recording) - len(refused), is_whole


def _read_damaged(folder: str, seed: int, count: int, compress: dict[str, str] | None) -> None:
    chance = random.Random(seed)
    path = Path(folder) / "whole.mcap"
    known = _small_file(path, compress)
    whole = path.read_bytes()
    refused = read = told = 0
    for number in range(count):
        damaged = Path(folder) / f"{number}.mcap"  # the last one may still be mapped
        damaged.write_bytes(_damage(whole, chance))
        texts, samples, is_whole = _read_all(damaged, known)
        assert samples == len(known) or texts or not is_whole
        for text in texts:
            assert text.startswith(f"file '{damaged}': "), text
            assert len(text) > len(f"file '{damaged}': ") + 20, text
        refused += len(texts)
        read += samples
        told += bool(texts) or not is_whole
        damaged.unlink()
    tell((refused, read, told))


@pytest.mark.slow
@pytest.mark.parametrize("compress", [None, {"one": "zstd", "two": "lz4"}, {"one": "zstd"}])
def test_damaged_files_are_errors_that_name_the_place_and_never_a_crash(
    tmp_path: Path, elsewhere: Elsewhere, compress: dict[str, str] | None
) -> None:
    other = elsewhere.start(_read_damaged, str(tmp_path), 1, DAMAGED, compress)
    refused, read, told = other.hear(4 * PATIENCE)
    other.finish()
    assert refused > 0
    assert read > DAMAGED
    assert told > DAMAGED // 2
