"""`tensorbus.Pipeline`, and `tensorbus pipeline` beside a running `tensorbus up`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.pipelines import Up, alive
from support.screens.commands import Done
from tensorbus._cli.command import main

Start = Callable[..., Up]
Write = Callable[..., Path]

TWO = """
[process.a]
run = "sleep 1000"
[process.b]
run = ["sh", "-c", "echo one; echo two; exec sleep 1000"]
"""
COUNTER = """
import time
import tensorbus as tb
with tb.Publisher("numbers") as publisher:
    while True:
        publisher.publish(1)
        time.sleep(0.01)
"""
COUNTED = """
[process.counter]
run = "python counter.py"
provides = ["numbers"]
expect = { numbers = ">= 1 Hz" }
"""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs `tensorbus pipeline`."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(["pipeline", *arguments])
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run


@pytest.fixture
def two(up: Start) -> Up:
    pipeline = up(TWO)
    for name in ("a", "b"):
        pipeline.state(name, "running")
    return pipeline


def test_the_status_of_processes(two: Up, command: Callable[..., Done]) -> None:
    done = command("status")
    assert done.lines[0] == ["PROCESS", "STATE", "PID", "RESTARTS", "REASON"]
    assert [line[:2] for line in done.lines[1:]] == [["a", "running"], ["b", "running"]]
    (row,) = command("status", "a", "--json").rows
    assert (row["kind"], row["process"], row["state"]) == ("process_status", "a", "running")
    assert row["unmet"] == []


def test_a_process_is_stopped_and_started_again(two: Up, command: Callable[..., Done]) -> None:
    assert command("stop", "a").status == 0
    two.state("a", "ended")
    assert command("restart", "a").status == 0
    first = two.state("a", "running")["pid"]
    assert command("restart", "a").status == 0
    two.state("a", "stopping")
    assert two.state("a", "running")["pid"] != first


def test_a_name_that_is_not_there_is_status_2(two: Up, command: Callable[..., Done]) -> None:
    done = command("restart", "c")
    assert done.status == 2
    assert done.err == "tensorbus: there is no process 'c': there are a, b\n"
    done = command("status", "--pipeline", "other")
    assert done.status == 2
    assert "no pipeline 'other' runs on " in done.err


def test_stop_without_a_name_ends_the_pipeline(two: Up, command: Callable[..., Done]) -> None:
    assert command("stop").status == 0
    assert two.finish()[0] == 0


def test_lines_are_printed_again(two: Up, command: Callable[..., Done]) -> None:
    if not any(each.get("text") == "two" for each in two.seen):
        two.until(kind="log", text="two")
    done = command("logs", "b")
    assert done.out == "b | one\nb | two\n"
    (row,) = command("logs", "--lines", "1", "--json").rows
    assert (row["kind"], row["process"], row["text"]) == ("log", "b", "two")


def test_new_lines_follow_until_the_pipeline_ends(two: Up, command: Callable[..., Done]) -> None:
    follow = [sys.executable, "-m", "tensorbus", "pipeline", "logs", "-f", "b"]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "b | one\n"
        assert process.stdout.readline() == "b | two\n"
        command("restart", "b")
        assert process.stdout.readline() == "b | one\n"
        assert process.stdout.readline() == "b | two\n"
        two.end()
        assert process.stdout.read() == ""
        assert process.wait(PATIENCE) == 0


def test_a_pipeline_in_a_program(write: Write, tensorbus_domain: str) -> None:
    with tb.Pipeline.load(write(COUNTED, counter=COUNTER)) as pipeline:
        with tb.Subscriber("numbers", timeout=PATIENCE) as numbers:
            assert numbers.receive().data == 1
        pipeline.wait_until_healthy(PATIENCE)
        (counter,) = pipeline.status()
        assert (counter.process, counter.state, counter.unmet) == ("counter", "running", ())
        pipeline.stop("counter")  # the last one
        assert pipeline.wait(PATIENCE) == 0
    assert not alive(counter.pid)
    with pytest.raises(tb.Closed):
        pipeline.status()


def test_run_returns_the_exit_status(write: Write, tensorbus_domain: str) -> None:
    assert tb.Pipeline.load(write("[process.a]\nrun = 'true'")).run() == 0
    assert tb.Pipeline.load(write("[process.a]\nrun = 'false'")).run() == 1


def test_what_is_not_well_in_time_is_named(write: Write, tensorbus_domain: str) -> None:
    path = write("[process.a]\nrun = 'sleep 1000'\nafter = ['image']")
    with tb.Pipeline.load(path) as pipeline:
        with pytest.raises(tb.Timeout, match=r"not healthy within 0.2 s: a: waiting: waits for im"):
            pipeline.wait_until_healthy(0.2)
        with tb.Publisher("image"):
            pipeline.wait_until_healthy(PATIENCE)


def test_a_failed_process_is_never_well(write: Write, tensorbus_domain: str) -> None:
    failing = "[process.a]\nrun = 'sh -c \"exit 4\"'\nprovides = ['image']\n"
    path = write(failing + "[process.b]\nrun = 'sleep 1000'")
    with (
        tb.Pipeline.load(path) as pipeline,
        pytest.raises(tb.InvalidArgument, match="a: failed: exit 4"),
    ):
        pipeline.wait_until_healthy(PATIENCE)


def test_two_of_one_name_are_refused(write: Write, tensorbus_domain: str) -> None:
    path = write("[process.a]\nrun = 'sleep 1000'")
    with tb.Pipeline.load(path), pytest.raises(tb.InvalidArgument, match="did not start"):
        tb.Pipeline.load(path).start()


def run_and_wait(path: str, domain: str) -> None:
    pipeline = tb.Pipeline.load(path, domain)
    told = os.dup(1)
    os.dup2(2, 1)  # the test reads standard output
    pipeline.start()
    os.dup2(told, 1)
    tell(pipeline.status()[0].pid)
    hear()


def test_it_ends_with_a_program_that_is_killed(
    write: Write, tensorbus_domain: str, elsewhere: Elsewhere
) -> None:
    path = write("[process.a]\nrun = 'sleep 1000'")
    process = elsewhere.start(run_and_wait, str(path), tensorbus_domain)
    pid = process.hear()
    assert alive(pid)
    process.kill()
    eventually(lambda: not alive(pid))


def test_the_fixture_of_pytest(
    write: Write, tensorbus_pipeline: Callable[..., tb.Pipeline]
) -> None:
    pipeline = tensorbus_pipeline(write(COUNTED, counter=COUNTER), timeout=PATIENCE)
    assert [each.state for each in pipeline.status()] == ["running"]
    with tb.Subscriber("numbers", timeout=PATIENCE) as numbers:
        assert numbers.receive().data == 1


def test_no_descriptor_is_left(write: Write, tensorbus_domain: str) -> None:
    path = write("[process.a]\nrun = 'sleep 1000'")

    def run_once() -> None:
        with tb.Pipeline.load(path) as pipeline:
            pipeline.wait_until_healthy(PATIENCE)

    run_once()
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        run_once()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_request_that_is_no_json_is_refused(two: Up, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tmp_path / "bus/up.pipeline.sock"))
        connection.sendall(b"nonsense\n")
        reply = json.loads(connection.makefile().readline())
    assert "error" in reply
    assert two.end(signal.SIGINT)[0] == 130
