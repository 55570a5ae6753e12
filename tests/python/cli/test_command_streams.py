"""Each command without a terminal, a reader, room, or a stream at all, and in every locale."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

from support.harness import PATIENCE
from support.screens.command_world import (
    ARGUMENTS,
    ENDLESS,
    IN_PYTHON,
    NAME,
    World,
    all_commands,
    world,
)

pytest.importorskip("typer", reason="typer is not installed")

pytestmark = pytest.mark.slow

CONFIG = "import sys; from tensorbus._cli.config import main; sys.exit(main())"


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

    def begin(self, way: str, encoding: str = "utf-8", **options: Any) -> None:
        """`encoding` is that of the arguments and of what is printed."""
        words = self._bus.command(self._name, self._folder / way.replace(" ", "_"))
        command = [word.encode(encoding) for word in words]
        options["encoding"] = encoding
        streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE}
        self._begun[way] = process = self._bus.start(command, **{**streams, **options})
        if self._name == "trace":  # one tracer at a time is possible
            process.wait(PATIENCE)

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


@pytest.fixture(scope="module")
def latin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a locale whose encoding is Latin-1."""
    folder = tmp_path_factory.mktemp("locales")
    make = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(folder / "de_DE")]
    try:
        subprocess.run(make, check=True, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("localedef cannot make de_DE with ISO-8859-1")
    return {"LC_ALL": "de_DE", "LOCPATH": str(folder), "PYTHONUTF8": "0"}


ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_command_works_in_every_locale(
    name: str, bus: World, tmp_path: Path, latin: dict[str, str]
) -> None:
    runs = Runs(bus, name, tmp_path)
    runs.begin("well")
    runs.begin("ASCII", env=ASCII)
    runs.begin("POSIX", env={"LC_ALL": "POSIX"})
    if not {name, name.split(" ")[0]} & IN_PYTHON:  # names and output are always UTF-8
        runs.begin("Latin-1", env=latin)
        ended = runs.end()
        assert {each.status for each in ended.values()} == {ended["well"].status}
        assert len({NAME in each.out for each in ended.values()}) == 1
        return
    runs.begin("output in ASCII", env={"PYTHONIOENCODING": "ascii"})
    runs.begin("Latin-1", env=latin, encoding="latin-1")
    ended = runs.end()
    assert not [way for way, each in ended.items() if "Traceback" in each.err], ended
    well = ended["well"]
    if name == "recording export":  # makes a folder of the topic's name
        assert "'ascii' codec can't encode" in ended.pop("ASCII").err
    assert {way: each.status for way, each in ended.items()} == dict.fromkeys(ended, well.status)
    for way, each in ended.items():
        escaped = NAME.encode("ascii", "backslashreplace").decode()
        assert (NAME in well.out) == (NAME in each.out or escaped in each.out), way
    assert NAME not in ended["output in ASCII"].out


@pytest.mark.parametrize("name", ENDLESS)
def test_a_server_whose_line_nobody_can_read_ends(name: str, bus: World, tmp_path: Path) -> None:
    gone = without_reader()
    runs = Runs(bus, name, tmp_path)
    with open("/dev/full", "w") as full:
        runs.begin("no output", stdout=None, preexec_fn=closing(1))
        runs.begin("full", stdout=full)
        runs.begin("unread", stdout=gone)
        os.close(gone)
        ended = runs.end()
    assert {way: each.status for way, each in ended.items()} == dict.fromkeys(ended, 1)
    assert not [way for way, each in ended.items() if "Traceback" in each.err], ended


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_server_ends_by_a_signal_without_a_traceback(
    name: str, stop: signal.Signals, bus: World, tmp_path: Path
) -> None:
    command = bus.command(name, tmp_path)
    with bus.start(command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as server:
        assert server.stdout is not None
        assert re.search(r"http://|is kept", server.stdout.readline())
        server.send_signal(stop)
        _, err = server.communicate(timeout=PATIENCE)
    assert "Traceback" not in err
    assert server.returncode in (0, 130, -stop)


@pytest.mark.parametrize("option", ["--version", "--includedir --libs"])
def test_the_paths_for_a_compiler_are_printed_or_the_command_fails(option: str) -> None:
    command = [sys.executable, "-c", CONFIG, *option.split()]
    with open("/dev/full", "w") as full:
        failed = subprocess.run(command, stdout=full, stderr=PIPE, text=True, timeout=PATIENCE)
    closed = subprocess.run(command, stderr=PIPE, text=True, preexec_fn=closing(1))
    for each, why in ((failed, "No space left on device"), (closed, "Bad file descriptor")):
        assert each.returncode == 1
        assert re.fullmatch(rf"tensorbus: .*{why}: 'standard output'\n", each.stderr)
