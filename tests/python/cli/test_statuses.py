"""Status 2 is for what is wrong on each machine; what depends on files or the bus is 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tensorbus as tb
from support.screens.commands import Tensorbus
from tensorbus._cli import process

pytest.importorskip("typer", reason="typer is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


@pytest.fixture
def run(folder: Path) -> str:
    path = str(folder / "run.mcap")
    with tb.Recorder(path, ["pose"]) as recorder, tb.Publisher("pose") as publisher:
        assert publisher.wait_for_subscribers(timeout=30)
        publisher.publish({"x": 1.0})
        recorder.close()
    return path


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("recording info TEXT", "it is no recording"),
        ("recording info FOLDER/missing.mcap", "No such file"),
        ("recording cut RUN nothing -o FOLDER/cut.mcap", "nothing was recorded on 'nothing'"),
        ("recording cut RUN -o TEXT", "exists"),
        ("recording cut RUN -o RUN --overwrite", "cannot be read and replaced at once"),
        ("recording merge RUN TEXT -o FOLDER/merged.mcap", "it is no recording"),
        ("recording merge RUN -o TEXT", "exists"),
        ("recording export RUN -o FOLDER", "it is not empty"),
        ("recording export RUN nothing -o FOLDER/out", "no topic 'nothing'"),
        ("recording convert TEXT -o FOLDER/fox.mcap", "it is no recording"),
        ("recording convert RUN -o TEXT", "exists"),
        ("recording import FOLDER FOLDER/bag.mcap", "metadata"),
        ("play TEXT", "it is no recording"),
        ("play RUN nothing", "no topic 'nothing'"),
        ("record pose --seconds 0 -o TEXT", "it exists"),
        ("queue keep taken", "already exists"),
    ],
)
def test_a_failure_is_status_1_and_one_line(
    arguments: str, why: str, run: str, folder: Path, tensorbus: Tensorbus
) -> None:
    text = folder / "text.mcap"
    text.write_text("this is no recording")
    names = {"RUN": run, "TEXT": str(text), "FOLDER": str(folder)}
    given = arguments
    for name, path in names.items():
        given = given.replace(name, path)
    with tb.Queue(name="taken"):
        done = tensorbus(*given.split())
    assert (done.status, done.out) == (1, "")
    assert why in done.err
    assert done.err.startswith("tensorbus: ")
    assert done.err.count("\n") == 1
    assert text.read_text() == "this is no recording"


@pytest.mark.parametrize(
    "arguments",
    [
        "recording export RUN --format tiff",
        "recording cut RUN --compress rar",
        "recording cut RUN --start -1",
        "play RUN --rate 0",
        "play RUN --device gpu",
        "play RUN --remap pose",
        "record pose --regex ( -o FOLDER/new.mcap",
        "record -o FOLDER/new.mcap",
        "record pose --compress pose= -o FOLDER/new.mcap",
        "queue keep jobs --maxsize -1",
    ],
)
def test_a_wrong_command_line_is_status_2(
    arguments: str, run: str, folder: Path, tensorbus: Tensorbus
) -> None:
    done = tensorbus(*arguments.replace("RUN", run).replace("FOLDER", str(folder)).split())
    assert (done.status, done.out) == (2, "")
    assert [each.name for each in folder.iterdir()] == ["run.mcap"]


def raising(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


def test_a_domain_of_another_user_is_no_wrong_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert process.status_of(raising(tb.AccessDenied("the domain belongs to root"))) == 1
    assert capsys.readouterr().err == "tensorbus: the domain belongs to root\n"
    assert process.status_of(raising(tb.InvalidArgument("domain: a path"))) == 2
