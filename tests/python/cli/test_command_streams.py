"""Each command without a terminal, a reader, room, or a stream at all, and in every locale."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

from support.command_world import ARGUMENTS, ENDLESS, NAME, World, all_commands, world
from support.harness import PATIENCE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@dataclass(frozen=True)
class Ended:
    """How a command has ended."""

    status: int
    out: str
    err: str


class Runs:
    """One command, run at the same time in several ways."""

    def __init__(self, bus: World, name: str, folder: Path) -> None:
        self._bus = bus
        self._name = name
        self._folder = folder
        self._begun: dict[str, subprocess.Popen[str]] = {}

    def begin(self, way: str, **options: Any) -> None:
        command = self._bus.command(self._name, self._folder / way.replace(" ", "_"))
        streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE}
        self._begun[way] = self._bus.start(command, **{**streams, **options})

    def end(self) -> dict[str, Ended]:
        ended = {}
        for way, process in self._begun.items():
            out, err = process.communicate(timeout=3 * PATIENCE)
            ended[way] = Ended(process.returncode, out or "", err or "")
        return ended


def closing(*descriptors: int) -> Callable[[], None]:
    """For the child, before it becomes the command: what `>&-` does in a shell."""

    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close


def without_reader() -> int:
    """The end of a pipe for writing, of which nobody has the other end."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_the_list_here_has_every_command() -> None:
    assert all_commands() == {*ARGUMENTS, *ENDLESS} - {""}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_streams_that_cannot_be_used_end_a_command_with_a_line(
    name: str, bus: World, tmp_path: Path
) -> None:
    gone = without_reader()
    runs = Runs(bus, name, tmp_path)
    with open("/dev/full", "w") as full:
        runs.begin("well")
        runs.begin("no input", preexec_fn=closing(0))
        runs.begin("no errors", stderr=None, preexec_fn=closing(2))
        runs.begin("errors full", stderr=full)
        runs.begin("errors unread", stderr=gone)
        runs.begin("no output", stdout=None, preexec_fn=closing(1))
        runs.begin("full", stdout=full)
        runs.begin("unread", stdout=gone)
        runs.begin("nothing", stdin=None, stdout=None, stderr=None, preexec_fn=closing(0, 1, 2))
        os.close(gone)
        ended = runs.end()
    well = ended.pop("well")
    assert not [way for way, each in ended.items() if "Traceback" in each.err], ended
    for way in ("no input", "no errors", "errors unread"):
        assert ended[way].status == well.status, way
        assert bool(ended[way].out) == bool(well.out), way
    if not well.out:
        return
    lost = {way: ended[way] for way in ("no output", "full", "unread", "nothing")}
    assert {way: each.status for way, each in lost.items()} == dict.fromkeys(lost, 1)
    assert "Bad file descriptor: 'standard output'" in lost["no output"].err
    assert "No space left on device: 'standard output'" in lost["full"].err
    assert "output" not in lost["unread"].err
