"""What all commands have in common: the help, statuses, extras, completion, ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere, eventually, hear, tell
from support.screens.command_world import IN_PYTHON
from support.screens.commands import Tensorbus, program
from tensorbus._cli import app, command, plain

pytest.importorskip("typer", reason="typer is not installed")

ALL = [
    "topic list",
    "topic info",
    "topic echo",
    "topic hz",
    "topic bw",
    "topic delay",
    "topic pub",
    "node list",
    "node info",
    "queue list",
    "queue info",
    "queue keep",
    "service list",
    "service call",
    "param list",
    "param get",
    "param set",
    "memory",
    "inspect",
    "metrics",
    "top",
    "view",
    "trace",
    "record",
    "recorder status",
    "recorder snapshot",
    "recording info",
    "recording cut",
    "recording merge",
    "recording convert",
    "recording export",
    "play",
    "player status",
    "player step",
    "up",
    "pipeline status",
    "pipeline logs",
    "wait",
]


def main_help(words: list[str]) -> str:
    """The help of a command in Python."""
    done = subprocess.run(["tensorbus-python", *words, "--help"], capture_output=True, text=True)
    return done.stdout


def test_the_help_lists_every_command(tensorbus: Tensorbus) -> None:
    done = tensorbus("--help")
    assert done.status == 0
    names = {*(each.split()[0] for each in ALL), *plain.HELP}
    assert names > {*app._MODULES}
    assert {*re.findall(r"^  (\w+) ", done.out, re.M)} == names


def test_the_help_says_of_commands_in_python_what_they_say(tensorbus: Tensorbus) -> None:
    for words in map(str.split, IN_PYTHON):
        *group, name = words
        shown = tensorbus(*group, "--help").out
        (listed,) = re.findall(rf"^  {name} (.*(?:\n {{10,}}.*)*)", shown, re.M)
        about = plain.HELP.get(name) or main_help(words).split("\n\n")[1]
        assert " ".join(about.split()).startswith(" ".join(listed.split()))


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_with_an_example(name: str, tensorbus: Tensorbus) -> None:
    done = tensorbus(*name.split(), "--help")
    assert done.status == 0
    assert re.search(rf"Examples?:\s+tensorbus {name}\b", done.out)
    assert "--domain" in done.out or name.startswith("recording ")


@pytest.mark.parametrize(
    "arguments",
    ["nonsense", "topic nonsense", "topic list --nonsense", "topic info", "topic hz --count x"],
)
def test_a_wrong_command_line_is_status_2(arguments: str, tensorbus: Tensorbus) -> None:
    done = tensorbus(*arguments.split())
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("tensorbus: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("topic info image", "topic 'image' has no publisher and no subscriber"),
        ("topic hz image", "topic 'image' has no publisher"),
        ("topic echo image --timeout 0", "no sample on 'image' in 0 s"),
        ("topic pub image 1 --wait 0", "topic 'image' has no subscriber"),
        ("node info camera", "there is no node 'camera'"),
        ("queue info jobs", "there is no queue 'jobs'"),
        ("param get camera rate", "no running node 'camera' has parameters"),
        ("service call mean 1 --timeout 0", "there was no service 'mean' in time"),
    ],
)
def test_what_is_not_there_is_status_1(arguments: str, why: str, tensorbus: Tensorbus) -> None:
    done = tensorbus(*arguments.split())
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines()[-1] == f"tensorbus: {why}"


def test_an_argument_that_the_bus_refuses_is_status_2(tensorbus: Tensorbus) -> None:
    done = tensorbus("topic", "echo", "\udcff")
    assert done.status == 2
    assert "is not UTF-8" in done.err


def test_without_the_extra_doctor_works(
    in_python: Tensorbus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert in_python("doctor").status == 0
    done = in_python("topic", "pub", "speed", "1")
    assert (done.status, done.out) == (1, "")
    assert "pip install 'tensorbus[cli]'" in done.err


def test_names_of_other_processes_cannot_move_the_cursor(tensorbus: Tensorbus) -> None:
    with tb.Publisher("a\x1b[2Jb\nc"):
        done = tensorbus("topic", "list")
    assert "a?[2Jb?c" in done.out
    assert "\x1b" not in done.out


def completions(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    script = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        program(),
        env={**os.environ, **script, "_TENSORBUS_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.stdout.split()


def test_completion_knows_the_names_that_there_are() -> None:
    with tb.Publisher("camera/left"), tb.Publisher("camera/right"), tb.Queue(name="jobs"):
        assert completions("tensorbus topic hz camera/") == ["camera/left", "camera/right"]
        assert completions("tensorbus queue info ") == ["jobs"]
    assert completions("tensorbus topic e") == ["echo"]


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("top --domain robot", ("robot",)),
        (
            "view --port 80 --no-browser --rerun a.rrd",
            (None, 80, False, {"rerun": "a.rrd", "foxglove": None}),
        ),
        ("trace image -o a.json --seconds 5", (["image"], "a.json", 5.0, None, None)),
    ],
)
def test_what_others_draw_is_called_with_the_options(
    command: str, given: object, in_python: Tensorbus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object, **options: object) -> int:
        assert (*arguments, options) == given if options else arguments == given
        return 7

    other = SimpleNamespace(run=run)
    monkeypatch.setitem(sys.modules, f"tensorbus._{command.split()[0]}", other)
    assert in_python(*command.split()).status == 7


def test_a_stopped_process_delays_no_command_beyond_its_timeout(
    elsewhere: Elsewhere, tensorbus: Tensorbus
) -> None:
    def publish() -> None:
        node = tb.Node("camera")
        node.declare_parameter("rate", 30.0)
        thread = threading.Thread(target=node.spin)
        thread.start()
        eventually(lambda: node.is_running)
        with tb.Publisher("image"), tb.Queue(name="jobs"):
            tell(None)
            hear()
        node.stop()
        thread.join()
        node.close_sync()

    camera = elsewhere.start(publish)
    camera.hear()
    camera.stop()
    commands = {
        "topic list": "image",
        "topic info image": "which did not reply",
        "topic hz image --count 1 --window 0.01": "TOPIC",
        "node list": "camera",
        "node info camera": f"({camera.pid})",
        "param list": "NODE",
        "service list": "SERVICE",
        "queue list": "QUEUE",
        "memory": "PROCESS",
        "inspect": "no answer",
    }
    for name, shown in commands.items():
        begin = time.monotonic()
        done = tensorbus(*name.split(), "--timeout", "0.1")
        assert time.monotonic() - begin < PATIENCE / 2  # it would wait for ever
        assert done.status == 0
        assert shown in done.out
        named = "node camera" if name == "param list" else f"({camera.pid})"
        assert done.err.count(f"{named}: no answer") == 1
    done = tensorbus("queue", "info", "jobs", "--timeout", "0.1")
    assert done.status == 1
    assert done.err.endswith("tensorbus: queue 'jobs': no process that replied has it\n")
    assert "there is no queue" not in done.err
    camera.signal(signal.SIGCONT)
    camera.tell()


def test_names_of_nodes_move_no_cursor(tensorbus: Tensorbus) -> None:
    with tb.Node("b\x1b[2J"):
        nodes = tensorbus("node", "list").out
    assert "b?[2J" in nodes
    assert "\x1b" not in nodes


def test_ctrl_c_ends_it_quietly_and_nobody_has_waited_for_it() -> None:
    with tb.Publisher("image", reliable=True, history=1) as publisher:
        publisher.publish(7)
        with subprocess.Popen(
            (program(), "topic", "echo", "image"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as echo:
            assert echo.stdout is not None
            assert echo.stdout.readline().startswith("image #0")
            links = [
                link
                for each in tb.inspect().participants
                for found in each.publishers
                for link in found.links
            ]
            assert [link.reliable for link in links] == [False]
            echo.send_signal(signal.SIGINT)
            assert echo.wait(PATIENCE) == 130
            assert echo.stderr is not None
            assert echo.stderr.read() == ""


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    with tb.Publisher("image", history=1) as publisher:
        publisher.publish(0)
        with subprocess.Popen(
            (program(), "topic", "echo", "image"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as echo:
            assert echo.stdout is not None
            assert echo.stdout.readline().startswith("image #0")
            echo.stdout.close()

            def ended() -> bool:
                publisher.publish(1)
                return echo.poll() is not None

            eventually(ended)
            assert echo.stderr is not None
            assert echo.stderr.read() == ""
