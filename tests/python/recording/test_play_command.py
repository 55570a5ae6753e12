"""`tensorbus play`, its keys, and `tensorbus player`."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.screens.commands import Tensorbus

COUNT = 5
Plays = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


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


@pytest.fixture
def playing(command: tuple[str, ...]) -> Plays:
    """Runs `tensorbus play` with some arguments, which obeys."""

    @contextmanager
    def run(*arguments: object) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [*command, "play", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr
            line = process.stderr.readline()
            assert line.startswith("playing "), line + process.stderr.read()
            try:
                yield process
            finally:
                process.kill()

    return run


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def test_it_plays_to_the_end(path: Path, playing: Plays) -> None:
    with (
        tb.Subscriber("number", depth=COUNT, timeout=PATIENCE) as numbers,
        playing(path, "--wait", PATIENCE) as process,
    ):
        assert [numbers.receive().data for _ in range(COUNT)] == [*range(COUNT)]
        out = ended(process)
    assert out.startswith(f"{COUNT} messages, at most ")
    assert out.endswith(f" ms late: {path}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_well(path: Path, playing: Plays, number: signal.Signals) -> None:
    for options in (("--paused",), ("--wait", 10 * PATIENCE)):
        with playing(path, *options) as process:
            process.send_signal(number)
            assert ended(process).startswith("0 messages")


def test_a_signal_ends_it_although_nobody_reads_what_it_says(
    path: Path, command: tuple[str, ...]
) -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writes, bytes(65536))
    os.set_blocking(writes, True)
    words = [*command, "play", str(path), "--json"]
    with subprocess.Popen(words, stdout=writes, stderr=subprocess.DEVNULL) as process:
        eventually(lambda: stopped_in_write(process.pid) or process.poll() is not None)
        process.terminate()
        assert process.wait(PATIENCE) == -signal.SIGTERM
    os.close(reads)
    os.close(writes)


def stopped_in_write(pid: int) -> bool:
    return "pipe" in Path(f"/proc/{pid}/wchan").read_text()


def test_options_say_what_is_played(path: Path, playing: Plays) -> None:
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


def test_another_process_pauses_and_steps(path: Path, playing: Plays, tensorbus: Tensorbus) -> None:
    with (
        tb.Subscriber("number", timeout=PATIENCE) as numbers,
        playing(path, "--step", "--name", "mine") as process,
    ):
        assert numbers.wait_for_publishers(timeout=PATIENCE)
        mine = ("--json", "--name", "mine")
        assert tensorbus("player", "status", *mine).row["paused"] is True
        assert tensorbus("player", "step", 2, *mine).row["file"] == str(path)
        assert [numbers.receive().data for _ in range(2)] == [0, 1]
        assert tensorbus("player", "rate", 2, *mine).row["rate"] == 2.0
        assert tensorbus("player", "pause", *mine).row["messages"] == 2
        shown = tensorbus("player", "status", "--name", "mine")
        assert shown.status == 0
        assert "messages: 2 published, 3 left" in shown.out
        tensorbus("player", "resume", "--name", "mine")  # it may have ended before it answers
        assert [numbers.receive().data for _ in range(3)] == [2, 3, 4]
        ended(process)
    gone = tensorbus("player", "status", "--name", "mine")
    assert gone.status == 1
    assert "no `tensorbus play` with the name 'mine' is running" in gone.err


def test_two_of_a_name_are_told(path: Path, playing: Plays, tensorbus: Tensorbus) -> None:
    with playing(path, "--paused"), playing(path, "--paused"):
        told = tensorbus("player", "pause")
    assert told.status == 1
    assert "2 processes have the name 'player'" in told.err


def published(command: Tensorbus) -> int:
    return int(command("player", "status", "--json").row["messages"])


def test_a_player_refuses_what_it_does_not_know(path: Path, playing: Plays) -> None:
    requests = ({"do": "rewind"}, {"do": "rate", "rate": -1}, {"do": "step", "count": 0}, 7)
    with playing(path, "--paused"), tb.Client("player", timeout=PATIENCE) as client:
        for request in requests:
            with pytest.raises(tb.ServiceError, match=r"expected|count|rate"):
                client.call_sync(request)
        assert client.call_sync({"do": "status"})["messages"] == 0


def test_keys_do_the_same(path: Path, command: tuple[str, ...]) -> None:
    # The terminal of the command is this one, as of a shell.
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], [*command, "play", str(path), "--paused"])
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


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("--remap", "number"), 2, "expected OLD:=NEW"),
        (("--rate", "0"), 2, "expected a number above 0"),
        (("--rate", "nan"), 2, "expected a number above 0"),
        (("none",), 1, "no topic 'none'; its topics: 'number'"),
        (("--clock", "number"), 2, "number"),
        (("--name", ""), 2, "name"),
    ],
)
def test_mistakes_are_told(
    path: Path, tensorbus: Tensorbus, arguments: tuple[str, ...], status: int, text: str
) -> None:
    done = tensorbus("play", path, *arguments)
    assert done.status == status
    assert text in " ".join(done.err.replace("│", "").split())


def test_what_is_no_recording_is_told(path: Path, tensorbus: Tensorbus) -> None:
    path.with_name("other").write_text("no recording")
    for name in ("nowhere", "other"):
        done = tensorbus("play", path.with_name(name))
        assert done.status == 1
        assert name in done.err


def test_damage_is_told(path: Path, playing: Plays) -> None:
    data = bytearray(path.read_bytes())
    data[data.find(b"TBR1", data.find(b"TBR1") + 1)] ^= 1
    path.write_bytes(data)
    with playing(path) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert out.startswith(f"{COUNT - 1} messages")
    assert "1 messages were left out" in err
    assert "message 1" in err
