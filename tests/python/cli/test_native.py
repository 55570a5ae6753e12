"""The command in C++: it prints what the command of the Python package prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.pipelines import state
from support.repository import BUILT, ROOT
from support.screens.commands import Done, Tensorbus

PROGRAM = BUILT / "tensorbus"
# Characters that a terminal must not get, wide ones, and ones of no width.
ODD = "größe/図像/a\x1b[31m\u202eb/e\u0301\u200b"

COMMANDS = [
    "topic list",
    "topic info image",
    f"topic info {ODD}",
    "topic hz --count 1 --window 0.01",
    "topic bw --count 1 --window 0.01",
    "topic hz image --count 1 --window 0.01",
    "node list",
    "node info camera",
    "queue list",
    "queue info jobs",
    "service list",
    "memory",
    "inspect",
]


@pytest.fixture
def world(elsewhere: Elsewhere, native: Tensorbus) -> Iterator[None]:
    """A process with one of each, which does nothing."""

    def run() -> None:
        with (
            tb.Publisher("image", depth=3, node="camera"),
            tb.Publisher(ODD, reliable=True),
            tb.Subscriber("image", node="viewer"),
            tb.Queue(name="jobs", maxsize=8) as jobs,
            tb.Queue(),
            tb.Node("camera") as node,
        ):
            node.create_service("sum", callback=sum, mode="sync")
            jobs.put(b"x" * 1000)
            tell(None)
            hear()
            jobs.get()

    process = elsewhere.start(run)
    process.hear()
    yield
    process.tell()


def steady(value: Any) -> Any:
    """Without what differs from one inspection to the next one."""
    if isinstance(value, dict):
        kept = {name: steady(each) for name, each in value.items()}
        return {
            name: each for name, each in kept.items() if not name.endswith(("age_ns", "time_ns"))
        }
    return [steady(each) for each in value] if isinstance(value, list) else value


def without_times(text: str) -> str:
    """Without ages, and the width of their columns."""
    text = re.sub(r" *\d+(\.\d)? (m?s|min \d+ s)\b", " TIME", text)
    return re.sub(r" +(?=AGE|OLDEST)", " ", text)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("command", COMMANDS)
def test_it_prints_what_the_command_in_python_prints(command: str, native: Tensorbus) -> None:
    words = command.split()
    script = [sys.executable, "-m", "tensorbus", *words]
    texts, records = (
        subprocess.run([*script, *more], stdout=PIPE, text=True, check=True).stdout
        for more in ((), ("--json",))
    )
    done = native(*words)
    assert done.status == 0, done.err
    assert without_times(done.out) == without_times(texts)
    assert steady(native(*words, "--json").rows) == steady(
        [json.loads(line) for line in records.splitlines()]
    )
    assert len(done.lines) > 1


def test_it_shows_a_recording_like_the_command_in_python(native: Tensorbus, tmp_path: Path) -> None:
    whole, cut, other = tmp_path / "whole.mcap", tmp_path / "cut.mcap", tmp_path / "other"
    with (
        tb.Publisher("speed", tb.PoseMessage, reliable=True),
        tb.Publisher(ODD, reliable=True) as publisher,
        tb.Recorder(whole, all=True, reliable=True) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for number in range(3):
            publisher.publish({"number": number})
        eventually(lambda: recorder.stats.messages == 3)
    cut.write_bytes(whole.read_bytes()[:-1])
    other.write_text("no recording")
    for path in (whole, cut, other, tmp_path / "nowhere"):
        for more in ((), ("--json",)):
            words = ("recording", "info", str(path), *more)
            script = [sys.executable, "-m", "tensorbus", *words]
            done = subprocess.run(script, capture_output=True, text=True)
            told = Done(done.returncode, done.stdout, done.stderr)
            shown = native(*words)
            assert (shown.status, shown.err) == (told.status, told.err)
            assert shown.out == told.out or shown.rows == told.rows


def test_a_process_that_does_not_reply_is_named_once(
    elsewhere: Elsewhere, native: Tensorbus
) -> None:
    def publish() -> None:
        with tb.Publisher("image"), tb.Node("camera"):
            tell(None)
            hear()

    stopped = elsewhere.start(publish)
    stopped.hear()
    os.kill(stopped.pid, signal.SIGSTOP)
    eventually(lambda: state(stopped.pid) == "T")
    try:
        with tb.Publisher("other"):
            rates = native("topic", "hz", "--count", "2", "--window", "0.01", "--timeout", "0.1")
            listed = native("topic", "list", "--timeout", "0.1", "--json")
            info = native("topic", "info", "image", "--timeout", "0.1", "--json")
            whole = native("inspect", "--timeout", "0.1", "--json")
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.tell()
    assert rates.status == 0
    assert rates.err.count(f"({stopped.pid})") == 1
    assert [(row["topic"], row["publishers"]) for row in listed.rows] == [
        ("image", 1),
        ("other", 1),
    ]
    assert [row["kind"] for row in info.rows] == ["topic", "silent_publisher"]
    [silent] = [row for row in whole.rows if row.get("pid") == stopped.pid]
    assert silent["error"]
    assert silent["memory"] is None


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("topic info nothing", 1),
        ("topic hz nothing", 1),
        ("node info nothing", 1),
        ("queue info nothing", 1),
        ("", 2),
        ("topic", 2),
        ("topic info", 2),
        ("record --all -o RUN/run.mcap --seconds nan", 2),
        ("record --all -o RUN/run.mcap --split-size 0", 2),
        ("record --all -o RUN/run.mcap --split-size=", 2),
        ("record --all -o RUN/run.mcap --snapshot=", 2),
        ("record --all -o RUN/run.mcap --buffer 0x10", 2),
        ("record --all -o RUN/run.mcap --nothing", 2),
        ("record --all -o RUN/{time}/run.mcap --buffer x", 2),
        ("record --all -o RUN/run.mcap --split-duration 1h", 2),
        ("record --all -o RUN/run.mcap --compress gzip", 2),
        ("record a -o RUN/run.mcap --compress zstd --compress a=lz4", 2),
        ("record --all -o RUN/{time}/", 2),
        ("record --all -o /dev/null/{time}.mcap", 1),
        ("recorder status", 1),
        ("recorder snapshot --name other", 1),
        ("topic list more", 2),
        ("topic list --nothing", 2),
        ("topic list --timeout nan", 2),
        ("topic list --timeout -1", 2),
        ("topic hz --window nan", 2),
        ("topic hz --window 0", 2),
        ("topic hz --count 0", 2),
        ("topic hz --count 99999999999999999999", 2),
        ("nothing", 2),
        ("../nothing", 2),
        ("--nothing", 2),
        ("topic list --domain", 2),
        ("--help", 0),
        ("topic hz --help", 0),
        ("--version", 0),
    ],
)
def test_the_exit_status_tells(
    arguments: str, status: int, native: Tensorbus, tmp_path: Path
) -> None:
    done = native(*arguments.replace("RUN", str(tmp_path)).split())
    assert done.status == status, done
    if status == 0:
        assert done.out
        assert done.err == ""
    else:
        assert [*tmp_path.glob("2*")] == []  # no folder for a recording
        assert done.out == ""
        assert done.err.startswith("tensorbus: ")
        assert done.err.count("\n") == 1


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([PROGRAM, *arguments], text=True, **options)


@pytest.mark.usefixtures("native")
def test_streams_that_cannot_be_used_end_it_with_a_line(domain: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "inspect"], stdout=full, stderr=PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "tensorbus: [Errno 28] No space left on device: 'standard output'\n"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([PROGRAM, "inspect"], stdout=writer, stderr=PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
    for closed in ("0", "1", "2"):
        shell = f'exec "{PROGRAM}" topic list {closed}>&-'
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True)
        assert done.returncode == (1 if closed == "1" else 0)


@pytest.mark.usefixtures("native")
def test_ctrl_c_ends_it_with_status_130() -> None:
    with tb.Publisher("image"):
        running = start("topic", "hz", "--window", "0.01", stdout=PIPE)
        assert running.stdout
        assert running.stdout.readline().startswith("TOPIC")
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait(PATIENCE) == 130


@pytest.mark.usefixtures("native")
def test_an_interrupt_that_a_shell_had_ignored_stays_ignored() -> None:
    with tb.Publisher("image"):
        words = ("topic", "hz", "--window", "0.01", "--count", "20")
        shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", str(PROGRAM), *words]
        running = subprocess.Popen(shell, text=True, stdout=PIPE)
        assert running.stdout
        assert running.stdout.readline().startswith("TOPIC")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=PATIENCE)
        assert running.returncode == 0


def test_names_are_taken_as_they_are(native: Tensorbus, tmp_path: Path) -> None:
    path = str(tmp_path / "run.mcap")
    done = native("record", "[a,b]", "c//d", "--reliable", "e", "--seconds", "0", "-o", path)
    assert done.out.startswith("0 messages of 3 topics, "), done
    wrong = native("topic", "list", "a\nb\x1b[31m")
    assert (wrong.status, wrong.err.count("\n")) == (2, 1)
    assert "\x1b" not in wrong.err
    assert native("topic", "hz", "", "--count", "1").status == 1


def test_a_recorder_that_does_not_reply_is_not_said_to_be_missing(
    native: Tensorbus, tmp_path: Path
) -> None:
    record = start("record", "--all", "-o", str(tmp_path / "run.mcap"), stderr=PIPE)
    assert record.stderr
    assert record.stderr.readline().startswith("recording to ")
    try:
        assert native("recorder", "status").status == 0
        record.send_signal(signal.SIGSTOP)
        eventually(lambda: state(record.pid) == "T")
        silent = native("recorder", "status", "--timeout", "0.1")
    finally:
        record.send_signal(signal.SIGCONT)
        record.terminate()
        record.communicate(timeout=PATIENCE)
    assert silent.status == 1
    assert f"({record.pid})" in silent.err
    assert "is running" not in silent.err
    assert record.returncode == 0


def test_other_commands_are_programs_of_their_own(
    native: Tensorbus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "tensorbus-look"
    script.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    monkeypatch.setenv("PATH", str(script), prepend=os.pathsep)  # no folder
    assert native("look").status == 2
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    script.chmod(0o755)
    done = native("look", "--at", "a b")
    assert (done.status, done.out) == (7, "--at a b\n")
    script.write_text("#!/nowhere\n")
    assert native("look").status == 2


@pytest.mark.usefixtures("native")
def test_it_can_be_installed_anywhere_and_needs_no_python(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    install = ["cmake", "--install", BUILT.parent, "--component", "command", "--prefix", prefix]
    subprocess.run(install, check=True, capture_output=True)
    read = ["readelf", "-d", prefix / "bin/tensorbus"]
    dynamic = subprocess.run(read, check=True, stdout=PIPE, text=True).stdout
    libraries = re.search(r"runpath: \[\$ORIGIN/\.\./([^]:]+)]", dynamic)
    assert libraries, dynamic
    (prefix / libraries[1]).mkdir(parents=True)
    shutil.copy(BUILT.parent / "libtensorbus.so.0", prefix / libraries[1])
    moved = prefix.rename(tmp_path / "moved")
    command = [moved / "bin/tensorbus", "--version"]
    done = subprocess.run(command, env={}, stdout=PIPE, text=True, check=True)
    assert done.stdout == f"tensorbus {(ROOT / 'VERSION').read_text().strip()}\n"
    needed = subprocess.run(["ldd", command[0]], stdout=PIPE, text=True, check=True).stdout
    names = {line.split()[0].rpartition("/")[2] for line in needed.splitlines()}
    allowed = r"(libtensorbus|libstdc\+\+|libgcc_s|libc|libm|ld-linux.*|linux-vdso)\.so\.\d+"
    assert {name for name in names if not re.fullmatch(allowed, name)} == set()


def test_an_output_file_has_the_time_in_its_name(
    native: Tensorbus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = native("record", "--all", "--seconds", "0", "-o", "~/runs/{time}/{time}.mcap")
    assert done.status == 0, done
    (folder,) = (tmp_path / "runs").iterdir()
    (file,) = folder.iterdir()
    assert file.name == f"{folder.name}.mcap"
    assert re.fullmatch(r"\d{8}-\d{6}-\d{3}", folder.name)
    assert done.out.startswith("0 messages of 0 topics, ")
    again = native("record", "--all", "--seconds", "0", "-o", str(file))
    assert (again.status, again.out) == (1, "")
    assert "it exists" in again.err
    replaced = native("record", "--all", "--seconds", "0", "-o", str(file), "--overwrite", "--json")
    record = json.loads(replaced.out)
    assert (record["kind"], record["file"], record["messages"]) == ("recorder", str(file), 0)
