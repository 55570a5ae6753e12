"""`--json`: each line of each command is one object of a declared kind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.repository import ROOT
from support.screens.command_world import ARGUMENTS, NAME, World, all_commands, world
from support.screens.commands import Tensorbus, parsed, program
from tensorbus._cli.records import KINDS

sys.path.insert(0, str(ROOT / "docs/site"))

from native_kinds import NATIVE_KINDS

pytest.importorskip("typer", reason="typer is not installed")

DECLARED = {**NATIVE_KINDS, **KINDS}

# Commands that print nothing, or a screen, or the address of a server.
WITHOUT_JSON = {"top", "view", "metrics", "wait"}
# Kinds of commands that serve until a signal ends them.
SERVED = {
    "kept": "queue keep",
    "process_state": "up",  # tests/python/up look at each line of it
    "expectation": "up",
    "notice": "up",
}
SILENT = ("topic", "pub", NAME, "1", "--history", "1")


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


def test_every_command_that_prints_data_has_the_option(tensorbus: Tensorbus) -> None:
    helps = {name: tensorbus(*name.split(), "--help").out for name in all_commands()}
    has_option = re.compile(r"^ +--json\b", re.MULTILINE)
    assert {name for name, text in helps.items() if not has_option.search(text)} == WITHOUT_JSON


def test_every_kind_names_commands() -> None:
    named = {command for kind in DECLARED.values() for command in kind.commands}
    assert named == all_commands() - WITHOUT_JSON


@contextmanager
def others(bus: World) -> Iterator[None]:
    """A bridge, a stopped process with a publisher, and a subscriber that holds memory."""
    quiet = {"stdin": DEVNULL, "stderr": DEVNULL}
    address = ["--listen", "127.0.0.1:0", "--trust-network"]
    with (
        bus.start([program(), "bridge", *address], stdout=DEVNULL, **quiet) as bridge,
        bus.start([program(), *SILENT], stdout=PIPE, **quiet) as silent,
        tb.Publisher[Any]("bytes", history=1, domain=bus.domain) as publisher,
        tb.Subscriber[Any]("bytes", domain=bus.domain, timeout=PATIENCE) as subscriber,
        tb.Subscriber[Any](NAME, domain=bus.domain, timeout=PATIENCE) as holder,
    ):
        try:
            publisher.publish(b"x" * 100_000)
            held = subscriber.receive(), holder.receive()
            assert silent.stdout is not None
            assert silent.stdout.readline().startswith("published 1")
            silent.send_signal(signal.SIGSTOP)
            assert tb.wait_for_topic("tensorbus/bridge", PATIENCE, bus.domain)
            yield
            assert held
        finally:
            bridge.terminate()
            silent.kill()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_line_of_each_command_is_of_a_declared_kind(
    bus: World, tmp_path: Path, tensorbus: Tensorbus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORBUS_DOMAIN", bus.domain)
    monkeypatch.setenv("TENSORBUS_CUDA_DRIVER", "off")  # as `record` and `play` leave it
    found = defaultdict(set)
    with others(bus):
        for name in sorted(set(ARGUMENTS) - WITHOUT_JSON - {""}):
            words = bus.command(name, tmp_path / name.replace(" ", "_"))[1:]
            for record in tensorbus(*words, "--json").rows:
                kind = record.pop("kind")
                assert tuple(record) == DECLARED[kind].fields, (name, record)
                found[kind].add(name)
    assert found.keys().isdisjoint(SERVED)
    found["log"].add("up")
    found |= {kind: {command} for kind, command in SERVED.items()}
    assert found == {kind: {*declared.commands} for kind, declared in DECLARED.items()}


def test_kept_queues_are_told_as_lines(domain: str) -> None:
    command = [program(), "queue", "keep", "jobs", "--json"]
    with subprocess.Popen(command, stdin=DEVNULL, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        with tb.Queue.open("jobs") as jobs:
            jobs.put(7)
        process.send_signal(signal.SIGTERM)
        last, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert [parsed(line) for line in (first, last)] == [
        {"kind": "kept", "queue": "jobs", "event": "kept", "items": 0},
        {"kind": "kept", "queue": "jobs", "event": "closed", "items": 1},
    ]
