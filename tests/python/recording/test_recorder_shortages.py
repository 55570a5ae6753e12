"""What a recorder lacks for a while, and what it loses, ends neither it nor its publishers."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, Elsewhere, eventually, hear, tell


def _record_all(path: str) -> None:
    import resource

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda line: lines.append(line.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tensorbus").addHandler(handler)

    def told() -> list[str]:
        return [line for line in lines if line.startswith("recorder")]

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tb.Recorder(path, all=True, reliable=True) as recorder:
        tell("ready")
        hear()
        eventually(lambda: recorder.stats.messages == 1)  # it has all descriptors of that link
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        tell("short of descriptors")
        hear()
        eventually(told)
        assert "RLIMIT_NOFILE" in told()[0]
        tell("it has looked in vain")
        hear()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        tell("no more")
        hear()
        recorder.close()
        assert len(told()) == 1, told()
        tell((recorder.stats.messages, recorder.stats.lost, recorder.stats.error))


def test_a_shortage_of_descriptors_ends_neither_the_recording_nor_its_publishers(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    other = elsewhere.start(_record_all, str(path))
    assert other.hear() == "ready"
    with tb.Publisher("early", reliable=True, depth=2, timeout=PATIENCE) as early:
        assert early.wait_for_subscribers(timeout=PATIENCE)
        early.publish({"number": 0})
        other.tell()
        other.hear()
        with tb.Publisher("late", reliable=True, timeout=PATIENCE) as late:  # it looks at once
            other.tell()
            assert other.hear() == "it has looked in vain"
            for number in range(1, 100):
                early.publish({"number": number})
            other.tell()
            other.hear()
            assert late.wait_for_subscribers(timeout=PATIENCE)
            late.publish({"number": 0})
            other.tell()
            assert other.hear() == (101, 0, "")
    recording = tb.Recording(path)
    assert [one.data["number"] for one in recording.select("early")] == [*range(100)]
    assert len(recording.select("late")) == 1


def test_what_is_dropped_before_the_first_message_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    count = 500
    with (
        tb.Publisher("topic", depth=1) as publisher,
        tb.Recorder(path, "topic", depth=1) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(count):
            publisher.publish(number)
        recorder.close()
        stats = recorder.stats
    recording = tb.Recording(path)
    assert stats.messages + stats.lost == count
    assert (len(recording), recording.lost) == (stats.messages, stats.lost)


def test_a_mapped_file_that_is_cut_ends_no_recording(tmp_path: Path) -> None:
    rows = tmp_path / "rows.bin"
    rows.write_bytes(bytes([7]) * (64 << 12))
    mapped = tb.map_file(rows, (64, 1 << 12), np.uint8)
    with (
        tb.Publisher("rows", reliable=True, timeout=PATIENCE) as publisher,
        tb.Publisher("other", reliable=True, timeout=PATIENCE) as other,
        tb.Recorder(tmp_path / "run.mcap", ["rows", "other"], snapshot=3600) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert other.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(mapped)
        other.publish({"number": 1})
        eventually(lambda: recorder.stats.buffered_bytes > 64 << 12)
        os.truncate(rows, 20 << 12)
        recording = tb.Recording(recorder.snapshot(timeout=PATIENCE))
        recorder.close()
        assert recorder.stats.error == ""
    (kept,) = recording.select("rows")
    assert (kept.data[:20] == 7).all()
    assert (kept.data[20:] == 0).all()
    assert [one.data for one in recording.select("other")] == [{"number": 1}]


def _open_with_little_memory(path: str) -> None:
    import resource

    most = 200 << 20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # of which a mapped file is none
    recording = tb.Recording(path)
    assert "the summary is damaged" in recording.recovered
    assert [one.data for one in recording] == [1]


@pytest.mark.skipif(SANITIZED, reason="its allocator ends a process that has no memory left")
def test_a_footer_that_names_the_whole_file_does_not_fill_the_memory(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("topic", reliable=True) as publisher,
        tb.Recorder(path, "topic", reliable=True),
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(1)
    footer = b"\x02" + (20).to_bytes(8, "little") + (8).to_bytes(8, "little") + bytes(12)
    end = footer + b"\x89MCAP0\r\n"
    os.truncate(path, (64 << 30) - len(end))
    with path.open("ab") as file:
        file.write(end)
    elsewhere.run(_open_with_little_memory, str(path))
