"""`tensorbus record` and `tensorbus recording info`."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.mcap_files import read_mcap
from support.screens.commands import Tensorbus

Records = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def recording(command: tuple[str, ...]) -> Records:
    """Runs `tensorbus record` with some arguments; it has subscribed."""

    @contextmanager
    def run(*arguments: str, before: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [*before, *command, "record", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr
            assert process.stderr.readline().startswith("recording to ")
            try:
                yield process
            finally:
                process.kill()

    return run


@pytest.fixture(autouse=True)
def _sigusr1() -> Iterator[None]:
    """A command that runs in this process leaves the signal ignored; and so do its children."""
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@contextmanager
def published(topic: str, size: int = 1000) -> Iterator[tb.Publisher[Any]]:
    """A reliable publisher that publishes until the block ends."""
    ended = threading.Event()
    with tb.Publisher[Any](topic, reliable=True, timeout=1) as publisher:

        def publish() -> None:
            number = 0
            while not ended.is_set():
                publisher.publish(np.full(size, number % 256, "u1"))
                number += 1

        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield publisher
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_well(recording: Records, tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "run.mcap"
    with recording("topic", "-o", str(path), "--reliable") as process:
        with published("topic"):
            eventually(lambda: path.stat().st_size > 100_000)
            process.send_signal(number)
            # Another one does not cut its end short.
            for again in (number, signal.SIGINT, signal.SIGUSR1):
                process.send_signal(again)
            out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    found = tb.Recording(path)
    assert found.recovered == found.damage == ""
    assert out.startswith(f"{len(found)} messages of 1 topics, ")
    assert out.endswith(f" 0 lost: {path}\n")
    assert read_mcap(path).messages == {"topic": len(found)}
    for index, sample in enumerate(found):
        assert (sample.data == index % 256).all()


def test_one_that_ignores_the_end_of_its_terminal_goes_on(
    recording: Records, tmp_path: Path
) -> None:
    path = tmp_path / "run.mcap"
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    with recording("topic", "-o", str(path), "--reliable", before=nohup) as process:
        process.send_signal(signal.SIGHUP)
        with published("topic"):
            eventually(lambda: path.stat().st_size > 100_000)
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    assert tb.Recording(path).recovered == ""


def test_one_whose_terminal_is_closed_finishes_its_file(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "run.mcap"
    ours, theirs = pty.openpty()
    words = [*command, "record", "topic", "-o", str(path), "--reliable"]
    with subprocess.Popen(
        ["setsid", "--ctty", *words], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        with published("topic"):
            eventually(lambda: path.exists() and path.stat().st_size > 100_000)
            os.close(ours)
            process.wait(PATIENCE)
    assert tb.Recording(path).recovered == ""


def test_it_ends_after_some_seconds(tensorbus: Tensorbus, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    done = tensorbus("record", "--all", "-o", path, "--seconds", "0")
    assert done.status == 0
    assert done.out.startswith("0 messages of 0 topics")
    again = tensorbus("record", "--all", "-o", path, "--seconds", "0")
    assert again.status == 1
    assert "it exists" in again.err


def test_each_start_may_have_a_file_of_its_own(recording: Records, tmp_path: Path) -> None:
    """As a program needs that is started again after a kill."""
    name = str(tmp_path / "runs" / "{time}.mcap")
    with tb.Publisher[Any]("topic") as publisher:
        for _ in range(2):
            with recording("topic", "-o", name) as process:
                assert publisher.wait_for_subscribers(timeout=PATIENCE)
                publisher.publish(1)
                process.kill()
                process.wait(PATIENCE)
            eventually(lambda: publisher.stats.subscribers == 0)
    first, second = sorted((tmp_path / "runs").iterdir())
    for path in (first, second):
        assert re.fullmatch(r"\d{8}-\d{6}-\d{3}\.mcap", path.name)
        assert abs(datetime.strptime(path.name[:15], "%Y%m%d-%H%M%S").timestamp() - time.time()) < (
            10 * PATIENCE
        )


def test_mistakes_are_told(command: tuple[str, ...], tmp_path: Path) -> None:
    path = str(tmp_path / "run.mcap")
    for arguments, text in (
        (("-o", path), "name topics, or give --all or --regex"),
        (("--all", "--buffer", "2X", "-o", path), "expected bytes, as in 500M or 2G"),
        (("--regex", "(", "-o", path), "not a regular expression"),
        (("a", "--compress", "b=zstd", "-o", path), "compress: topic 'b' is not recorded"),
    ):
        done = subprocess.run([*command, "record", *arguments], capture_output=True, text=True)
        assert done.returncode == 2
        assert text in " ".join(done.stderr.replace("│", "").split())


def test_a_signal_for_a_snapshot_does_not_end_one_that_keeps_nothing(
    recording: Records, tmp_path: Path
) -> None:
    with recording("--all", "-o", str(tmp_path / "run.mcap")) as process:
        process.send_signal(signal.SIGUSR1)
        assert process.stderr
        assert "keeps no messages" in process.stderr.readline()
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_a_signal_for_a_snapshot_that_comes_while_it_exits_changes_nothing(
    recording: Records, tmp_path: Path
) -> None:
    with recording("--all", "-o", str(tmp_path / "run.mcap")) as process:
        process.terminate()
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.002)
    assert process.returncode == 0


def test_it_says_for_which_topics_a_compression_was_chosen_in_vain(
    recording: Records, tmp_path: Path
) -> None:
    path = tmp_path / "run.mcap"
    compress = ("--compress", "topic=zstd", "--compress", "topoc=zstd")
    with (
        tb.Publisher("topic", history=1) as publisher,
        recording("--all", *compress, "-o", str(path)) as process,
    ):
        publisher.publish(1)
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "compress: nothing was recorded on topic 'topoc'" in err
    assert "'topic'" not in err


def test_it_says_which_topics_it_has_left_uncompressed_and_why(
    recording: Records,
    tensorbus: Tensorbus,
    tmp_path: Path,
) -> None:
    path, cut = tmp_path / "run.mcap", tmp_path / "cut.mcap"
    with (
        tb.Publisher("image", reliable=True) as image,
        tb.Publisher("pose", reliable=True) as pose,
        recording("--all", "--compress", "zstd", "--reliable", "-o", str(path)) as process,
    ):
        for publisher, count in ((image, 1 << 20), (pose, 1000)):
            assert publisher.wait_for_subscribers(timeout=PATIENCE)
            publisher.publish(np.zeros(count, np.uint8))
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    sentence = (
        "compress: topic 'image': 1 messages of 1 MiB or more were not compressed: "
        "name the topic to compress them (image=zstd)"
    )
    assert f"recorder: {sentence}" in err
    assert "'pose'" not in err

    def said(*compress: str) -> str:
        done = tensorbus("recording", "cut", path, "-o", cut, "--overwrite", *compress)
        assert done.status == 0
        return done.err

    assert f"copy: {sentence}" in said("--compress", "zstd")
    assert cut.stat().st_size > 1 << 20
    assert said("--compress", "image=zstd") == ""
    assert cut.stat().st_size < 1 << 20


@pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="no file system of its own can be mounted here",
)
def test_a_full_disk_ends_it_with_an_error_that_says_what_is_in_the_file(
    recording: Records, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    path = disk / "run.mcap"
    kept = tmp_path / "kept.mcap"
    mounted = (
        f"mount -t tmpfs -o size=4m none {disk} || exit 9; "
        f'"$@"; status=$?; cp {path} {kept}; exit $status'
    )
    before = ("unshare", "-m", "sh", "-c", mounted, "sh")
    with (
        recording("topic", "-o", str(path), "--reliable", before=before) as process,
        published("topic", 300_000),
    ):
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    found = tb.Recording(kept)
    assert 10 <= len(found) <= 14
    assert f"{len(found)} complete messages" in err
    assert "disk" in err or "room" in err
    assert out.startswith(f"{len(found)} messages of 1 topics, ")
    for index, sample in enumerate(found):
        assert (sample.data == index).all()


def test_info_shows_what_is_in_a_file(tensorbus: Tensorbus, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with (
        tb.Publisher("camera/image", tb.ImageMessage, reliable=True) as publisher,
        tb.Recorder(path, all=True, reliable=True) as recorder,
    ):
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for _ in range(3):
            publisher.publish(tb.ImageMessage(np.zeros((4, 4, 3), np.uint8)))
        eventually(lambda: recorder.stats.messages == 3)
    shown = tensorbus("recording", "info", path)
    lines = shown.out.splitlines()
    assert lines[2] == "messages: 3, 0 lost"
    assert lines[-1].split()[:3] == ["camera/image", "tensorbus.ImageMessage", "3"]
    assert (shown.status, shown.err) == (0, "")

    found, topic = tensorbus("recording", "info", path, "--json").rows
    assert (found["messages"], found["recovered"], found["damage"]) == (3, "", "")
    assert (topic["topic"], topic["messages"]) == ("camera/image", 3)

    path.write_bytes(path.read_bytes()[:-1])
    damaged = tensorbus("recording", "info", path)
    assert damaged.status == 0
    assert "its recorder has not finished it" in damaged.err
    missing = tensorbus("recording", "info", tmp_path / "nowhere")
    assert missing.status == 1
    assert "nowhere" in missing.err
