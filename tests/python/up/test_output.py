"""Lines on a terminal and in files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.harness import PATIENCE, eventually
from support.pipelines import Up
from tensorbus._up.events import LogLine, Notice, StateChange
from tensorbus._up.log_files import LogFiles
from tensorbus._up.output import formatter
from tensorbus._up.recent_lines import RecentLines

Start = Callable[..., Up]
LINE = LogLine("camera", 1_700_000_000_123_000_000, "hello")


def test_plain_lines_have_names_of_one_width() -> None:
    text = formatter(["camera", "a"], "plain")
    assert text(LINE) == "camera | hello\n"
    assert text(LogLine("a", 1, "x")) == "a      | x\n"
    assert text(Notice(1, "ends")) == "up     | ends\n"
    assert text(Notice(1, "waits for a\nb")) == "up     | waits for a?b\n"
    change = StateChange("a", 1, "backing off", 0, 2, "exit 1")
    assert text(change) == "up     | a: backing off: exit 1\n"


def test_a_terminal_has_times_and_a_colour_for_each_name() -> None:
    text = formatter(["camera", "a"], "colour")
    lines = [text(LINE), text(LogLine("a", LINE.time_ns, "hello"))]
    assert all(line.endswith("|\x1b[0m hello\n") for line in lines)
    colours = {line.partition(" \x1b[")[2].partition("m")[0] for line in lines}
    assert len(colours) == 2


def test_a_file_becomes_an_older_file_when_it_is_full(tmp_path: Path) -> None:
    files = LogFiles(tmp_path, max_bytes=100)
    for _ in range(40):
        assert files.write(LINE) == ""
    files.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["camera.log", *(f"camera.log.{number}" for number in range(1, 6))]
    assert all(path.stat().st_size <= 150 for path in tmp_path.iterdir())
    assert (tmp_path / "camera.log").read_text().endswith(".123 hello\n")


def test_a_full_disk_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "camera.log").symlink_to("/dev/full")
    files = LogFiles(tmp_path)
    path = tmp_path / "camera.log"
    assert files.write(LINE) == f"{path}: No space left on device: lines are lost"
    assert files.write(LINE) == ""
    assert files.write(LogLine("a", 1, "x")) == ""
    files.close()


def test_a_line_that_does_not_fit_on_the_disk_is_not_written_in_part(tmp_path: Path) -> None:
    files = LogFiles(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        found = [files.write(LINE) for _ in range(4)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    path = tmp_path / "camera.log"
    assert found == ["", "", "", f"{path}: File too large: lines are lost"]
    assert files.write(LINE) == ""
    files.close()
    lines = path.read_text().splitlines()
    assert len(lines) == 4
    assert len({*lines}) == 1


def test_a_removed_file_or_folder_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    files = LogFiles(folder)
    for remove in (lambda: (folder / "camera.log").unlink(), lambda: shutil.rmtree(folder)):
        assert files.write(LINE) == ""
        remove()
        assert files.write(LINE) == ""
        assert (folder / "camera.log").read_text().endswith(".123 hello\n")
    files.close()


def test_only_so_many_lines_are_kept() -> None:
    lines = RecentLines()
    for number in range(1500):
        lines.append(LogLine("a", number, "x"))
    assert [line.time_ns for line in lines] == [*range(500, 1500)]
    lines.append(LogLine("a", 1500, "x" * 1_000_000))
    assert next(iter(lines)).time_ns > 500
    lines.append(LogLine("a", 1501, "x" * 1_000_000))
    assert [line.time_ns for line in lines] == [1501]


def test_a_reader_that_is_slow_costs_the_files_no_line(up: Start, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    program = """import time
for n in range(400): print(n, 'x' * 60_000)
print('last')
time.sleep(600)
"""
    pipeline = up("[process.a]\nrun = 'python3 -u a.py'", "--log-dir", str(logs), a=program)
    eventually(lambda: "last\n" in "".join(_texts(logs)))
    _, lines = pipeline.end()
    notices = [line["text"] for line in lines if line["kind"] == "notice"]
    [dropped] = [int(text.split()[0]) for text in notices if "lines were dropped" in text]
    shown = [line for line in lines if line["kind"] == "log"]
    assert dropped + len(shown) == 401
    assert dropped > 100
    assert sum(text.count("\n") for text in _texts(logs)) == 401


def _texts(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.glob("a.log*")]


def test_an_output_that_does_not_block_loses_no_line(write: Callable[..., Path]) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    path = write("[process.a]\nrun = ['seq', '30000']")
    process = subprocess.Popen([sys.executable, "-m", "tensorbus", "up", path], stdout=write_end)
    os.close(write_end)
    with open(read_end) as output:
        first = output.readline()
        # By now the pipe, which has room for 64 KiB, is full or about to be.
        texts = [line.partition(" | ")[2].strip() for line in (first, *output)]
    assert process.wait(PATIENCE) == 0
    assert [text for text in texts if text.isdigit()] == [str(n + 1) for n in range(30_000)]


def test_a_full_disk_does_not_end_the_pipeline(up: Start, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").symlink_to("/dev/full")
    pipeline = up("[process.a]\nrun = 'echo hello'", "--log-dir", str(logs))
    pipeline.until(kind="notice", text="~No space left on device")
    assert pipeline.finish()[0] == 0


def test_a_file_has_what_the_supervisor_itself_reports(up: Start, tmp_path: Path) -> None:
    pipeline = up("[process.a]\nrun = 'false'", "--log-dir", str(tmp_path / "logs"))
    assert pipeline.finish()[0] == 1
    lines = (tmp_path / "logs/up.log").read_text().splitlines()
    assert lines[-1].endswith(" a: failed: exit 1")
