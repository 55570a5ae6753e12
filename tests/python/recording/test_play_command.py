"""`tensorbus play`, its keys, and `tensorbus player`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from tensorbus._cli.command import main

pytest.importorskip("typer")

COMMAND = (sys.executable, "-m", "tensorbus")
COUNT = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("number", reliable=True, depth=COUNT) as numbers,
        tb.Recorder(path, all=True, reliable=True),
    ):
        assert numbers.wait_for_subscribers(timeout=PATIENCE)
        for number in range(COUNT):
            numbers.publish(number)
    return path


@contextmanager
def playing(*arguments: object, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """`tensorbus play` with some arguments, which obeys."""
    with subprocess.Popen(
        [*COMMAND, "play", *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=stdin != subprocess.DEVNULL,
    ) as process:
        assert process.stderr
        line = process.stderr.readline()
        assert line.startswith("playing "), line + process.stderr.read()
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def test_it_plays_to_the_end(path: Path) -> None:
    with (
        tb.Subscriber("number", depth=COUNT, timeout=PATIENCE) as numbers,
        playing(path, "--wait", PATIENCE) as process,
    ):
        assert [numbers.receive().data for _ in range(COUNT)] == [*range(COUNT)]
        out = ended(process)
    assert out.startswith(f"{COUNT} messages, at most ")
    assert out.endswith(f" ms late: {path}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_well(path: Path, number: signal.Signals) -> None:
    for options in (("--paused",), ("--wait", 10 * PATIENCE)):
        with playing(path, *options) as process:
            process.send_signal(number)
            assert ended(process).startswith("0 messages")


def test_options_say_what_is_played(path: Path) -> None:
    recording = tb.Recording(path)
    start = (recording.time_ns(1) - recording.start_ns) / 1e9
    end = (recording.time_ns(3) - recording.start_ns) / 1e9
    options = ("--start", start, "--end", end, "--rate", 0.5, "--remap", "number:=other")
    with (
        tb.Subscriber("other", depth=COUNT, timeout=PATIENCE) as numbers,
        tb.Subscriber("clock", timeout=PATIENCE) as clock,
        playing(path, "--topics", "number", *options, "--clock", "clock", "--wait", 9) as process,
    ):
        assert clock.receive().data["rate"] == 0.5
        assert [numbers.receive().data for _ in range(2)] == [1, 2]
        assert ended(process).startswith("2 messages")


def test_another_process_pauses_and_steps(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: object) -> Any:
        assert main(["player", *map(str, arguments), "--json", "--name", "mine"]) == 0
        return json.loads(capsys.readouterr().out)

    with (
        tb.Subscriber("number", timeout=PATIENCE) as numbers,
        playing(path, "--step", "--name", "mine") as process,
    ):
        assert numbers.wait_for_publishers(timeout=PATIENCE)
        assert said("status")["paused"] is True
        assert said("step", 2)["file"] == str(path)
        assert [numbers.receive().data for _ in range(2)] == [0, 1]
        assert said("rate", 2)["rate"] == 2.0
        assert said("pause")["messages"] == 2
        assert main(["player", "status", "--name", "mine"]) == 0
        assert "messages: 2 published, 3 left" in capsys.readouterr().out
        main(["player", "resume", "--name", "mine"])  # it may have ended before it answers
        assert [numbers.receive().data for _ in range(3)] == [2, 3, 4]
        ended(process)
    capsys.readouterr()
    assert main(["player", "status", "--name", "mine"]) == 1
    assert "no `tensorbus play` with the name 'mine' is running" in capsys.readouterr().err


def test_two_of_a_name_are_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with playing(path, "--paused"), playing(path, "--paused"):
        assert main(["player", "pause"]) == 1
    assert "2 processes have the name 'player'" in capsys.readouterr().err


def test_keys_do_the_same(path: Path) -> None:
    # The terminal of the command is this one, as of a shell.
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [*COMMAND, "play", str(path), "--paused"])
    try:
        with tb.Subscriber("number", timeout=PATIENCE) as numbers:
            assert numbers.wait_for_publishers(timeout=PATIENCE)
            os.write(terminal, b"\n")
            assert numbers.receive().data == 0
            os.write(terminal, b"x\n+-")
            assert numbers.receive().data == 1
            os.write(terminal, b" ")
            assert [numbers.receive().data for _ in range(3)] == [2, 3, 4]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        child = 0
    finally:
        os.close(terminal)
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_mistakes_are_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status, text in (
        (("--remap", "number"), 2, "expected OLD:=NEW"),
        (("--rate", "0"), 2, "rate=0.0: expected a number above 0"),
        (("none",), 1, "no topic 'none'; its topics: "),
    ):
        assert main(["play", str(path), *arguments]) == status
        assert text in " ".join(capsys.readouterr().err.replace("│", "").split())
    assert main(["play", str(path.parent / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_damage_is_told(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.find(b"TBR1", data.find(b"TBR1") + 1)] ^= 1
    path.write_bytes(data)
    with playing(path) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert out.startswith(f"{COUNT - 1} messages")
    assert "1 messages were left out" in err
    assert "message 1" in err
