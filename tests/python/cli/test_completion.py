"""Completion in a shell, with the script that the package installs."""

from __future__ import annotations

import os
import pty
import select
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, here_first
from support.repository import ROOT
from support.screens.commands import program

pytest.importorskip("typer", reason="typer is not installed")

SCRIPT = ROOT / "src/tensorbus/cli/completion/tensorbus.bash"

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")


# Prints its arguments, unless the shell asks it for words.
COMMAND = """#!/bin/sh
[ "$_TENSORBUS_COMPLETE" ] && exec {command} "$@"
printf '<%s>' "$@"
echo END
"""


class Bash:
    """An interactive bash on a terminal."""

    def __init__(self, folder: Path) -> None:
        command = folder / "tensorbus"
        command.write_text(COMMAND.format(command=program()))
        command.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        environment = {**here_first(), "PATH": path, "TERM": "dumb", "INPUTRC": os.devnull}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self._type(f"source {SCRIPT}; echo RE''ADY\n")
        self._read_until("READY")

    def _type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _read_until(self, text: str) -> str:
        shown, end = "", time.monotonic() + PATIENCE
        while text not in shown:
            assert select.select([self._terminal], [], [], end - time.monotonic())[0], shown
            shown += os.read(self._terminal, 65536).decode(errors="replace")
        return shown

    def words(self, line: str) -> list[str]:
        """The arguments with which the line runs its command, after a Tab at its end."""
        self._type(f"{line}\t\n")
        shown = self._read_until(">END")
        return shown[shown.index("<") + 1 : shown.index(">END")].split("><")

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Bash]:
    shell = Bash(tmp_path)
    try:
        yield shell
    finally:
        shell.close()


def test_bash_completes_commands_options_and_names(bash: Bash) -> None:
    with tb.Publisher("camera/left"), tb.Publisher("robot:arm"), tb.Queue(name="jobs"):
        assert bash.words("tensorbus topic e") == ["topic", "echo"]
        assert bash.words("tensorbus topic echo --onc")[-1] == "--once"
        assert bash.words("tensorbus topic hz cam")[-1] == "camera/left"
        assert bash.words("tensorbus topic hz robot:")[-1] == "robot:arm"
        assert bash.words("tensorbus queue info ")[-1] == "jobs"
        assert bash.words("tensorbus topic pu") == ["topic", "pub"]  # which is in Python
        assert bash.words("tensorbus topic pub cam")[-1] == "camera/left"
        assert bash.words("tensorbus wait queue:")[-1] == "queue:jobs"


def test_bash_completes_names_as_data(bash: Bash, tmp_path: Path) -> None:
    with tb.Publisher("a b*"), tb.Publisher("$(touch found)"):
        assert bash.words("tensorbus topic hz a")[-1] == "a b*"
        assert bash.words(r"tensorbus topic hz \$")[-1] == "$(touch found)"
    assert not (tmp_path / "found").exists()


def test_bash_completes_files_where_there_is_no_name(bash: Bash, tmp_path: Path) -> None:
    (tmp_path / "frame.png").touch()
    assert bash.words("tensorbus topic pub image fra")[-1] == "frame.png"
