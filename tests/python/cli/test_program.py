"""The program `tensorbus`: its ends, its signals, what it needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.pipelines import state
from support.repository import BUILT, ROOT
from support.screens.commands import Tensorbus, program


def test_a_process_that_does_not_reply_is_named_once(
    elsewhere: Elsewhere, tensorbus: Tensorbus
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
            rates = tensorbus("topic", "hz", "--count", "2", "--window", "0.01", "--timeout", "0.1")
            listed = tensorbus("topic", "list", "--timeout", "0.1", "--json")
            info = tensorbus("topic", "info", "image", "--timeout", "0.1", "--json")
            whole = tensorbus("inspect", "--timeout", "0.1", "--json")
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


def test_names_of_any_characters_are_shown_in_columns(tensorbus: Tensorbus) -> None:
    """Wide ones take two columns, combining ones none; those that a terminal obeys are "?"."""
    with tb.Publisher("größe/図像/a\x1b[31m\u202eb/e\u0301\u200b"), tb.Publisher("image"):
        out = tensorbus("topic", "list").out
    assert out.splitlines()[1:] == [
        "größe/図像/a?[31m?b/e\u0301?                 1            0          ",
        "image                                  1            0          ",
    ]


def test_a_wrong_word_is_named(tensorbus: Tensorbus) -> None:
    assert "there is no command 'foo': see tensorbus topic --help" in tensorbus("topic", "foo").err
    assert "a command is missing: see tensorbus topic --help" in tensorbus("topic").err
    assert "there is no option '--nothing'" in tensorbus("--nothing").err


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
    arguments: str, status: int, tensorbus: Tensorbus, tmp_path: Path
) -> None:
    done = tensorbus(*arguments.replace("RUN", str(tmp_path)).split())
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
    return subprocess.Popen([program(), *arguments], text=True, **options)


def test_streams_that_cannot_be_used_end_it_with_a_line(domain: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([program(), "inspect"], stdout=full, stderr=PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "tensorbus: [Errno 28] No space left on device: 'standard output'\n"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([program(), "inspect"], stdout=writer, stderr=PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
    for closed in ("0", "1", "2"):
        shell = f'exec "{program()}" topic list {closed}>&-'
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True)
        assert done.returncode == (1 if closed == "1" else 0)


def test_ctrl_c_ends_it_with_status_130() -> None:
    with tb.Publisher("image"):
        running = start("topic", "hz", "--window", "0.01", stdout=PIPE)
        assert running.stdout
        assert running.stdout.readline().startswith("TOPIC")
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.wait(PATIENCE) == 130


def test_an_interrupt_that_a_shell_had_ignored_stays_ignored() -> None:
    with tb.Publisher("image"):
        words = ("topic", "hz", "--window", "0.01", "--count", "20")
        shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", program(), *words]
        running = subprocess.Popen(shell, text=True, stdout=PIPE)
        assert running.stdout
        assert running.stdout.readline().startswith("TOPIC")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=PATIENCE)
        assert running.returncode == 0


def test_names_are_taken_as_they_are(tensorbus: Tensorbus, tmp_path: Path) -> None:
    path = str(tmp_path / "run.mcap")
    done = tensorbus("record", "[a,b]", "c//d", "--reliable", "e", "--seconds", "0", "-o", path)
    assert done.out.startswith("0 messages of 3 topics, "), done
    wrong = tensorbus("topic", "list", "a\nb\x1b[31m")
    assert (wrong.status, wrong.err.count("\n")) == (2, 1)
    assert "\x1b" not in wrong.err
    assert tensorbus("topic", "hz", "", "--count", "1").status == 1


def test_a_recorder_that_does_not_reply_is_not_said_to_be_missing(
    tensorbus: Tensorbus, tmp_path: Path
) -> None:
    record = start("record", "--all", "-o", str(tmp_path / "run.mcap"), stderr=PIPE)
    assert record.stderr
    assert record.stderr.readline().startswith("recording to ")
    try:
        assert tensorbus("recorder", "status").status == 0
        record.send_signal(signal.SIGSTOP)
        eventually(lambda: state(record.pid) == "T")
        silent = tensorbus("recorder", "status", "--timeout", "0.1")
    finally:
        record.send_signal(signal.SIGCONT)
        record.terminate()
        record.communicate(timeout=PATIENCE)
    assert silent.status == 1
    assert f"({record.pid})" in silent.err
    assert "is running" not in silent.err
    assert record.returncode == 0


def test_other_commands_are_programs_of_their_own(
    tensorbus: Tensorbus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "tensorbus-look"
    script.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    monkeypatch.setenv("PATH", str(script), prepend=os.pathsep)  # no folder
    assert tensorbus("look").status == 2
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    script.chmod(0o755)
    done = tensorbus("look", "--at", "a b")
    assert (done.status, done.out) == (7, "--at a b\n")
    script.write_text("#!/nowhere\n")
    assert tensorbus("look").status == 2


def test_it_can_be_installed_anywhere_and_needs_no_python(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    install = ["cmake", "--install", BUILT.parent, "--component", "command", "--prefix", prefix]
    subprocess.run(install, check=True, capture_output=True)
    read = ["readelf", "-d", prefix / "bin/tensorbus"]
    dynamic = subprocess.run(read, check=True, stdout=PIPE, text=True).stdout
    (places,) = re.findall(r"runpath: \[(.*)]", dynamic)
    (libraries,) = re.findall(r"\$ORIGIN/\.\./(lib\w*(?:/[^/:]+-linux-gnu)?)$", places)
    (prefix / libraries).mkdir(parents=True)
    shutil.copy(BUILT.parent / "libtensorbus.so.0", prefix / libraries)
    moved = prefix.rename(tmp_path / "moved")
    command = [moved / "bin/tensorbus", "--version"]
    done = subprocess.run(command, env={}, stdout=PIPE, text=True, check=True)
    assert done.stdout == f"tensorbus {(ROOT / 'VERSION').read_text().strip()}\n"
    needed = subprocess.run(["ldd", command[0]], stdout=PIPE, text=True, check=True).stdout
    names = {line.split()[0].rpartition("/")[2] for line in needed.splitlines()}
    allowed = r"(libtensorbus|libstdc\+\+|libgcc_s|libc|libm|ld-linux.*|linux-vdso)\.so\.\d+"
    assert {name for name in names if not re.fullmatch(allowed, name)} == set()


def test_an_output_file_has_the_time_in_its_name(
    tensorbus: Tensorbus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = tensorbus("record", "--all", "--seconds", "0", "-o", "~/runs/{time}/{time}.mcap")
    assert done.status == 0, done
    (folder,) = (tmp_path / "runs").iterdir()
    (file,) = folder.iterdir()
    assert file.name == f"{folder.name}.mcap"
    assert re.fullmatch(r"\d{8}-\d{6}-\d{3}", folder.name)
    assert done.out.startswith("0 messages of 0 topics, ")
    again = tensorbus("record", "--all", "--seconds", "0", "-o", str(file))
    assert (again.status, again.out) == (1, "")
    assert "it exists" in again.err
    replaced = tensorbus(
        "record", "--all", "--seconds", "0", "-o", str(file), "--overwrite", "--json"
    )
    record = json.loads(replaced.out)
    assert (record["kind"], record["file"], record["messages"]) == ("recorder", str(file), 0)
