"""`tensorbus up --watch`: a process starts again when its files change."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from support.pipelines import Up
from tensorbus._cli.command import main
from tensorbus._up.client import ask, find
from tensorbus._up.control import Request
from tensorbus._up.schema import load

pytest.importorskip("watchfiles")

from tensorbus._up.watch import files_of

Start = Callable[..., Up]

SLEEP = "import time\nprint('{}')\ntime.sleep(1000)\n"
TWO = "[process.a]\nrun = 'python a.py'\n[process.b]\nrun = 'python b.py'\n"


def notices(pipeline: Up) -> list[str]:
    return [each["text"] for each in pipeline.seen if "has changed" in each.get("text", "")]


def test_a_process_whose_file_has_changed_starts_again(up: Start, tmp_path: Path) -> None:
    pipeline = up(TWO, "--watch", a=SLEEP.format("one"), b=SLEEP.format("b"))
    pipeline.until(kind="log", process="a", text="one")
    if not any(each.get("text") == "b" for each in pipeline.seen):
        pipeline.until(kind="log", process="b", text="b")
    (tmp_path / "a.py").write_text(SLEEP.format("two"))
    pipeline.until(kind="notice", text="a: a.py has changed")
    pipeline.until(kind="log", process="a", text="two")
    status, _ = pipeline.end(signal.SIGINT)
    assert status == 130
    starts = [each for each in pipeline.seen if each.get("state") == "running"]
    assert sorted(each["process"] for each in starts) == ["a", "a", "b"]
    assert [each["restarts"] for each in starts] == [0, 0, 0]  # it counts for no limit


def write_in_steps(path: Path, text: str) -> float:
    """Writes a file in steps of 10 ms. Returns the seconds of the longest one."""
    longest, last = 0.0, time.monotonic()
    with open(path, "w") as file:
        for character in text:
            file.write(character)
            file.flush()
            time.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


def test_a_file_that_is_written_in_steps_causes_one_restart(up: Start, tmp_path: Path) -> None:
    pipeline = up(TWO, "--watch", a=SLEEP.format("one"), b=SLEEP.format("b"))
    pipeline.until(kind="log", process="a", text="one")
    for attempt in count():
        before = len(notices(pipeline))
        longest = write_in_steps(tmp_path / "a.py", SLEEP.format(attempt))
        pipeline.until(kind="log", process="a", text=f"{attempt}")
        if longest < 0.1:  # this machine did not stop in the middle
            break
    (tmp_path / "new").write_text(SLEEP.format("last"))
    os.replace(tmp_path / "new", tmp_path / "a.py")  # as many editors do
    pipeline.until(kind="log", process="a", text="last")
    pipeline.end()
    assert notices(pipeline)[before:] == ["a: a.py has changed"] * 2


@pytest.mark.parametrize("restart", ["no", "always"])
def test_a_process_that_fails_starts_again_at_the_next_change(
    restart: str, up: Start, tmp_path: Path
) -> None:
    pipeline = up(
        f"on_failure = 'stop'\n[process.a]\nrun = 'python a.py'\nrestart = '{restart}'\n"
        "backoff = '1ms'\nrestart_limit = 1",
        "--watch",
        a="print('wrong'",
    )
    pipeline.state("a", "failed")
    (tmp_path / "a.py").write_text(SLEEP.format("right"))
    pipeline.until(kind="log", text="right")
    assert pipeline.end()[0] == 130


def test_folders_and_patterns_are_watched(up: Start, tmp_path: Path) -> None:
    for name in ("src/deep", "odd [x]", "other"):
        (tmp_path / name).mkdir(parents=True)
    pipeline = up(
        "[process.a]\nrun = 'sh -c \"echo here; exec sleep 1000\"'\n"
        "watch = ['src', 'odd [[]x]/*.yaml', 'nowhere/']",
        "--watch",
    )
    text = f"there is no folder {tmp_path}/nowhere: it is watched once there is"
    pipeline.until(kind="notice", text=text)
    if not pipeline.printed("a"):
        pipeline.until(kind="log", text="here")
    for unrelated in ("x.py", "odd [x]/x.txt", "other/x.py"):
        (tmp_path / unrelated).write_text("x")
    (tmp_path / "src/deep/new.txt").write_text("x")
    pipeline.until(kind="log", text="here")
    (tmp_path / "odd [x]/x.yaml").write_text("x")
    pipeline.until(kind="log", text="here")
    pipeline.end()
    assert notices(pipeline) == [
        "a: src/deep/new.txt has changed",
        "a: odd [x]/x.yaml has changed",
    ]


def test_a_folder_that_comes_goes_and_comes_again_is_watched(up: Start, tmp_path: Path) -> None:
    pipeline = up(
        "[process.a]\nrun = 'sh -c \"echo here; exec sleep 1000\"'\nwatch = ['src/']", "--watch"
    )
    pipeline.until(kind="log", text="here")
    for _ in range(2):
        (tmp_path / "src").mkdir()
        (tmp_path / "src/x").write_text("1")
        pipeline.until(kind="log", text="here")  # it was found
        (tmp_path / "src/x").write_text("2")
        pipeline.until(kind="log", text="here")  # and is watched
        shutil.rmtree(tmp_path / "src")
        pipeline.until(kind="notice", text="~there is no folder")
        while not pipeline.process.poll() and pipeline.seen[-1].get("text") != "here":
            pipeline.until(kind="log", text="here")
    assert pipeline.end()[0] == 130


def test_a_file_that_is_written_without_a_pause_causes_one_restart(
    up: Start, tmp_path: Path
) -> None:
    pipeline = up(
        "[process.a]\nrun = 'sh -c \"echo here; exec sleep 1000\"'\nwatch = ['x']", "--watch"
    )
    pipeline.until(kind="log", text="here")
    longest = write_in_steps(tmp_path / "x", "x" * 200)  # two seconds
    pipeline.until(kind="log", text="here")
    pipeline.end()
    assert len(notices(pipeline)) == 1 or longest > 0.1


def test_log_files_a_stopped_process_and_links(up: Start, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("1")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "logs").mkdir()
    pipeline = up(
        "[process.a]\nrun = 'sh -c \"echo a; exec sleep 1000\"'\nwatch = ['link', '*.log']\n"
        "[process.b]\nrun = 'sh -c \"echo b; exec sleep 1000\"'\nwatch = ['link']",
        "--watch",
        "--log-dir",
        str(tmp_path / "logs"),
    )
    pipeline.until(kind="log", text="b")
    ask(find(None, None), Request("stop", "b", wait=True))
    (tmp_path / "real").write_text("2")  # where the link leads to
    pipeline.until(kind="notice", text="~a: ")
    pipeline.state("a", "running")
    pipeline.end()
    assert notices(pipeline) == ["a: real has changed"]


def test_what_is_watched_of_a_command(write: Callable[..., Path], tmp_path: Path) -> None:
    def watched(run: list[str]) -> list[str]:
        (program,) = load(write(f"[process.a]\nrun = {json.dumps(run)}")).programs
        return [os.path.relpath(each.pattern, tmp_path) for each in files_of(program)]

    assert watched(["python", "-u", "a[1].py", "out.mcap"]) == ["a[[]1].py"]
    assert watched(["../build/model", "weights.bin"]) == ["../build/model"]
    assert watched(["sleep", "1000"]) == []


def test_check_names_what_is_watched(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--check", str(write("[process.a]\nrun = 'true'\nwatch = ['src/']"))]) == 0
    assert "  watches src/\n" in capsys.readouterr().out


def test_the_package_that_is_missing_is_named(
    write: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tensorbus._cli.pipelines.up.find_spec", lambda name: None)
    assert main(["up", "--watch", str(write("[process.a]\nrun = 'true'"))]) == 1
    assert capsys.readouterr().err == (
        "tensorbus: needs watchfiles: pip install 'tensorbus[watch]'\n"
    )
