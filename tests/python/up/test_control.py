"""Clients of a running pipeline that read much, little, or nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, eventually
from support.pipelines import Up
from tensorbus._up.client import ask, find, logs
from tensorbus._up.control import Request

Start = Callable[..., Up]

WORDY = """
import sys
for number in range(1000):
    print(number, "x" * 20_000)
print("all", flush=True)
for line in range(20):
    sys.stdin.read()
    print("later", line, flush=True)
import time
time.sleep(1000)
"""


def client(path: Path, request: dict[str, object]) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(str(path))
    connection.sendall(json.dumps(request).encode() + b"\n")
    return connection


def test_a_follower_gets_all_earlier_lines_and_then_the_new_ones(up: Start) -> None:
    """The earlier lines of all processes are more than the new ones that may be unread."""
    program = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
for number in range(900):
    print(number, "x" * 1000)
print("all", flush=True)
signal.sigwait({signal.SIGUSR1})
print("new", flush=True)
signal.pause()
"""
    names = [f"a.{number}" for number in range(1, 7)]
    pipeline = up("[process.a]\nrun = 'python a.py'\nreplicas = 6", a=program)
    for _ in names:
        pipeline.until(kind="log", text="all")
    pids = [line["pid"] for line in pipeline.seen if line.get("state") == "running"]
    lines = logs(find(None, None), Request("logs", follow=True, lines=6000))
    first = next(lines)
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    found = [first, *(next(lines) for _ in range(6 * 902 - 1))]
    for name in names:
        texts = [line["text"] for line in found if line["process"] == name]
        assert [text.split()[0] for text in texts] == [*map(str, range(900)), "all", "new"]
    assert pipeline.end(signal.SIGINT)[0] == 130
    assert [*lines] == []


def test_clients_that_read_nothing_delay_the_end_once(up: Start) -> None:
    pipeline = up('[process.a]\nrun = "python a.py"', a=WORDY)
    pipeline.until(kind="log", text="~later 19")
    path = find(None, None)
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(client(path, {"do": "logs", "lines": 1000}))
        begin = time.monotonic()
        assert pipeline.end(signal.SIGINT)[0] == 130
        # One after the other they would take 40 s.
        assert time.monotonic() - begin < PATIENCE


@pytest.mark.skipif(SANITIZED, reason="its allocator keeps memory that was freed")
def test_what_a_follower_sends_is_not_kept(up: Start) -> None:
    pipeline = up('[process.a]\nrun = "sleep 1000"')
    pipeline.state("a", "running")
    (supervisor,) = Path(f"/proc/{pipeline.pid}/task/{pipeline.pid}/children").read_text().split()

    def resident() -> int:
        return int(Path(f"/proc/{supervisor}/statm").read_text().split()[1]) * 4096

    with client(find(None, None), {"do": "logs", "follow": True}) as connection:
        before = resident()
        for _ in range(1000):
            connection.sendall(bytes(64 << 10))
        assert resident() - before < 16 << 20
    assert pipeline.end()[0] == 130


def test_a_name_that_is_too_long_is_refused(up: Start) -> None:
    pipeline = up(f'name = "{"n" * 100}"\n[process.a]\nrun = "sleep 1000"')
    assert pipeline.finish()[0] == 2
    assert pipeline.process.stderr
    assert "has more than 107 bytes" in pipeline.process.stderr.read()


def test_a_supervisor_that_does_not_reply_is_an_error_in_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[process.a]\nrun = "sleep 1000"\nafter = ["never"]')
    pipeline = tb.Pipeline.load(file)
    with pipeline:
        with pytest.raises(tb.Timeout, match="waits for never"):
            pipeline.wait_until_healthy(timeout=0.01)
        eventually(lambda: pipeline.status()[0].state == "waiting")


SLOW_END = """
import signal, time
def end(*_):
    print("ends", flush=True)
    time.sleep(1)
    raise SystemExit
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("name", ["a", ""])
def test_stop_may_wait_for_the_end(name: str, up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'python a.py'\n[process.b]\nrun = 'true'", a=SLOW_END)
    pipeline.until(kind="log", text="runs")
    reply = ask(find(None, None), Request("stop", name, wait=True))
    assert {each["process"]: each["state"] for each in reply["processes"]}["a"] == "ended"
    assert pipeline.finish()[0] == 0
    assert pipeline.printed("a") == ["runs", "ends"]


def test_stop_waits_for_the_process_that_ran_then(up: Start) -> None:
    """It may be started again before it has ended."""
    pipeline = up("[process.a]\nrun = 'python a.py'", a=SLOW_END)
    pipeline.until(kind="log", text="runs")
    path = find(None, None)
    with client(path, {"do": "stop", "name": "a", "wait": True}) as waiting:
        pipeline.until(kind="log", text="ends")
        ask(path, Request("restart", "a"))
        reply = json.loads(waiting.makefile().readline())
    assert reply["processes"][0]["process"] == "a"
    pipeline.until(kind="log", text="runs")
    assert pipeline.end()[0] == 130


def test_another_pipeline_of_the_name_can_be_started_when_stop_has_waited(up: Start) -> None:
    for _ in range(3):
        pipeline = up("[process.a]\nrun = 'sleep 1000'")
        pipeline.state("a", "running")
        ask(find(None, None), Request("stop", wait=True))
    assert pipeline.finish()[0] == 0


def test_a_slow_follower_loses_lines_that_are_counted(up: Start) -> None:
    program = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("runs", flush=True)
signal.sigwait({signal.SIGUSR1})
for number in range(200):
    print(number, "x" * 60_000)
print("all", flush=True)
signal.sigwait({signal.SIGUSR1})
print("last", flush=True)
signal.pause()
"""
    pipeline = up("[process.a]\nrun = 'python a.py'", a=program)
    pipeline.until(kind="log", text="runs")
    pid = ask(find(None, None), Request("status"))["processes"][0]["pid"]
    lines = logs(find(None, None), Request("logs", follow=True))
    assert next(lines)["text"] == "runs"
    os.kill(pid, signal.SIGUSR1)
    pipeline.until(kind="log", text="all")  # 12 MB, of which 4 MiB are kept for the follower
    seen: list[str] = []
    for line in lines:
        seen.append(line["text"])
        if "lines were dropped" in seen[-1]:  # it comes although no line comes after them
            os.kill(pid, signal.SIGUSR1)
        if seen[-1] == "last":
            break
    dropped = [text for text in seen if "lines were dropped" in text]
    assert len(dropped) == 1
    assert int(dropped[0].split()[0]) + len(seen) == 200 + 3
    assert pipeline.end()[0] == 130
    assert pipeline.process.stderr is not None
    assert pipeline.process.stderr.read() == ""


def test_a_pipeline_that_ends_while_lines_are_followed_says_nothing(up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'python a.py'", a=SLOW_END)
    pipeline.until(kind="log", text="runs")
    lines = logs(find(None, None), Request("logs", follow=True))
    assert next(lines)["text"] == "runs"
    assert pipeline.end()[0] == 130
    assert [line["text"] for line in lines] == ["ends"]
    assert pipeline.process.stderr is not None
    assert pipeline.process.stderr.read() == ""
