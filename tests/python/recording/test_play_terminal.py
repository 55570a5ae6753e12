"""`tensorbus play` as a job of a shell: Ctrl-Z, `bg`, `fg`, and the terminal meanwhile."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.screens.commands import run_program

COUNT = 3
PLAYING = "q ends it"


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


class Shell:
    """A shell on a terminal, and somebody who types."""

    def __init__(self, *command: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1="READY ", TERM="dumb", ENV="")
            os.execvp(command[0], command)
        self.read_until("READY")

    def read_until(self, text: str) -> str:
        """What the terminal shows, up to this text."""
        shown, end = "", time.monotonic() + PATIENCE
        while text not in shown:
            assert select.select([self.terminal], [], [], end - time.monotonic())[0], shown
            shown += os.read(self.terminal, 65536).decode(errors="replace")
        return shown

    def type(self, text: str, until: str) -> str:
        os.write(self.terminal, text.encode())
        return self.read_until(until)

    @property
    def edits_lines(self) -> bool:
        """Whether the terminal is in the mode of a shell: lines are edited, and shown."""
        mode = termios.tcgetattr(self.terminal)[3]
        return bool(mode & termios.ICANON) and bool(mode & termios.ECHO)


SHELLS = [("bash", "--norc", "--noprofile", "--noediting", "-i"), ("dash", "-i")]
Played = Callable[..., AbstractContextManager[tb.Subscriber]]


@pytest.fixture(params=SHELLS, ids=lambda command: command[0])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    if not shutil.which(request.param[0]):
        pytest.skip(f"{request.param[0]} is not installed")
    shell = Shell(*request.param)
    try:
        yield shell
    finally:
        os.close(shell.terminal)  # the shell and its jobs get SIGHUP
        os.kill(shell.pid, signal.SIGKILL)
        os.waitpid(shell.pid, 0)


@pytest.fixture
def played(shell: Shell, path: Path, command: tuple[str, ...]) -> Played:
    """Starts a paused player as a job of the shell; the test has subscribed."""

    @contextmanager
    def run(end: str = "\n") -> Iterator[tb.Subscriber]:
        with tb.Subscriber("number", depth=COUNT, timeout=PATIENCE) as numbers:
            shell.type(f"{' '.join(command)} play {path} --paused{end}", PLAYING)
            assert numbers.wait_for_publishers(timeout=PATIENCE)
            try:
                yield numbers
            finally:
                for pid in numbers_of_players():
                    os.kill(pid, signal.SIGKILL)

    return run


def numbers_of_players() -> list[int]:
    return [
        publisher.pid
        for topic in tb.list_topics()
        if topic.name == "number"
        for publisher in topic.publishers
    ]


def test_in_the_background_it_plays_to_its_end_whatever_is_typed(
    shell: Shell, played: Played
) -> None:
    with played() as numbers:
        shell.type("\x1a", "READY")
        shell.type("bg\n", "READY")
        shell.type("echo he''llo\n", "hello")
        assert run_program("player", "resume", "--timeout", PATIENCE).status == 0
        assert [numbers.receive().data for _ in range(COUNT)] == [*range(COUNT)]
        shell.read_until(f"{COUNT} messages, at most")
        shell.type("wait; echo do''ne\n", "done")
        assert shell.edits_lines


def test_after_fg_the_keys_work_and_are_not_shown(shell: Shell, played: Played) -> None:
    with played() as numbers:
        eventually(lambda: not shell.edits_lines)
        shell.type("\x1a", "READY")
        assert shell.edits_lines, "while it is stopped"
        shell.type("fg\n", "play")
        eventually(lambda: not shell.edits_lines)
        os.write(shell.terminal, b"\n")
        assert numbers.receive().data == 0
        shown = shell.type("q", "READY")
        assert "1 messages, at most" in shown
        assert "q" not in shown.partition("1 messages")[0]
        assert shell.edits_lines


def test_it_can_begin_in_the_background(shell: Shell, played: Played) -> None:
    with played(end=" &\n") as numbers:
        shell.type("echo he''llo\n", "hello")
        assert shell.edits_lines
        shell.type("fg\n", "play")
        eventually(lambda: not shell.edits_lines)
        os.write(shell.terminal, b"\n")
        assert numbers.receive().data == 0
        assert "1 messages, at most" in shell.type("q", "READY")


def test_a_terminal_that_goes_ends_no_player_that_ignores_it(
    path: Path, command: tuple[str, ...]
) -> None:
    """As under nohup."""
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execv(command[0], [*command, "play", str(path), "--paused"])
    with tb.Subscriber("number", depth=COUNT, timeout=PATIENCE) as numbers:
        assert numbers.wait_for_publishers(timeout=PATIENCE)
        os.write(terminal, b"\n")
        assert numbers.receive().data == 0
        os.close(terminal)
        assert run_program("player", "resume", "--timeout", PATIENCE).status == 0
        assert [numbers.receive().data for _ in range(COUNT - 1)] == [*range(1, COUNT)]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
