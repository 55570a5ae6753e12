"""All commands of `tensorbus`, and a domain in which each of them has something to show."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE
from support.repository import ROOT
from support.screens.commands import program

NAME = "größe"  # of the topic, the node, the service and the queue

# The arguments of each command that ends by itself. {out} is a file that does not exist.
ARGUMENTS = {
    "": "--help",
    "doctor": "",
    "bridge": "status",
    "topic list": "",
    "topic info": NAME,
    "topic echo": f"{NAME} --count 1",
    "topic hz": f"{NAME} --count 1 --window 0.1",
    "topic bw": f"{NAME} --count 1 --window 0.1",
    "topic delay": f"{NAME} --count 1 --window 0.2",
    "topic pub": f"{NAME} 1 --wait 20",
    "node list": "",
    "node info": NAME,
    "queue list": "",
    "queue info": NAME,
    "service list": "",
    "service call": f"{NAME} 1",
    "param list": NAME,
    "param get": f"{NAME} rate",
    "param set": f"{NAME} rate 2",
    "memory": "",
    "inspect": "--json",
    "record": f"{NAME} --seconds 0.1 --name another -o {{out}}",
    "recorder status": "",
    "recorder snapshot": "",
    "recording info": "{file}",
    "recording cut": "{file} -o {out}",
    "recording merge": "{file} -o {out}",
    "recording convert": "{file} -o {out}",
    "recording export": "{file} -o {out}",
    "recording import": "{bag} {out}",
    "play": "{file} --name another",
    "player status": "",
    "player pause": "",
    "player resume": "",
    "player step": "",
    "player rate": "1",
    "top": "",
    "up": "--check {pipeline}",
    "pipeline status": "",
    "pipeline restart": NAME,
    "pipeline stop": "other",
    "pipeline logs": "",
    "trace": "--seconds 0.1 -o {out}",
    "wait": NAME,
}
# One process prints a line; the other one may be stopped.
PIPELINE = f"""
[process."{NAME}"]
run = ["sh", "-c", "echo here; exec sleep 1000"]
[process.other]
run = "sleep 1000"
"""
# These are in Python, the others in C++.
IN_PYTHON = {
    *("doctor", "bridge", "metrics", "top", "up", "pipeline", "trace", "view", "wait"),
    *("topic pub", "queue keep"),
    *(f"recording {name}" for name in ("cut", "merge", "convert", "export", "import")),
}
# These serve until they are told to end, after they have printed a line.
ENDLESS = {"metrics": "--port 0", "queue keep": "kept", "view": "--no-browser"}


def all_commands() -> set[str]:
    """Their names, as the help has them, without those of groups."""
    sys.path.insert(0, str(ROOT / "docs/site"))
    import command_line

    names = {name[1:] for name in command_line.commands(program()) if name[0] == "tensorbus"}
    groups = {name[:-1] for name in names}
    return {" ".join(name) for name in names - groups}


@contextmanager
def robot(domain: str) -> Iterator[None]:
    """A topic, a node with a parameter, a service and a queue."""
    with tb.Node(NAME, domain=domain) as node, tb.Queue[Any](name=NAME, domain=domain):
        node.declare_parameter("rate", 1.0, on_set=lambda value: value)
        publisher = node.create_publisher(NAME, history=1)
        node.create_timer(
            0.02, lambda: publisher.publish({"id": 1, "text": NAME}), mode="sync", at_once=True
        )
        node.create_service(NAME, callback=lambda request: request, mode="sync")
        thread = threading.Thread(target=node.spin)
        thread.start()
        try:
            yield
        finally:
            node.stop()
            thread.join()


@dataclass(frozen=True)
class World:
    """A domain with a robot, a recorder, a player and a pipeline, and their files; a ROS bag."""

    domain: str
    file: Path
    bag: Path
    pipeline: Path

    def command(self, name: str, out: Path) -> list[str]:
        """The command with its arguments; `out` is what it may write."""
        given = ({**ARGUMENTS, **ENDLESS})[name].format(
            file=self.file, bag=self.bag, pipeline=self.pipeline, out=out
        )
        return [program(), *name.split(), *shlex.split(given)]

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        """Starts a command in this domain."""
        environment = {**os.environ, "TENSORBUS_DOMAIN": self.domain, **options.pop("env", {})}
        return subprocess.Popen(command, env=environment, **{"text": True, **options})


def write_bag(path: Path) -> None:
    """A bag of one message. Names in ROS are ASCII."""
    from rosbags import rosbag2
    from rosbags.typesys import Stores, get_typestore

    kind, types = "std_msgs/msg/String", get_typestore(Stores.LATEST)
    with rosbag2.Writer(path, version=9) as bag:
        connection = bag.add_connection("/text", kind, typestore=types)
        bag.write(connection, 1, types.serialize_cdr(types.types[kind](NAME), kind))


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Made in a folder that is empty."""
    made = World(
        str(folder / "domain"), folder / "run.mcap", folder / "bag", folder / "pipeline.toml"
    )
    write_bag(made.bag)
    made.pipeline.write_text(PIPELINE)
    record = ["record", NAME, "--seconds", "0.2", "-o", str(made.file)]
    with robot(made.domain), ExitStack() as ends:
        assert made.start([program(), *record], stdout=DEVNULL, stderr=DEVNULL).wait(PATIENCE) == 0
        for server in (
            ["record", NAME, "--snapshot", "60", "-o", str(folder / "snapshot.mcap")],
            ["play", str(made.file), "--paused", "--loop"],
        ):
            started = ends.enter_context(
                made.start([program(), *server], stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
            )
            ends.callback(started.terminate)
            assert started.stderr is not None
            assert started.stderr.readline()  # it runs
        up = ends.enter_context(
            made.start([program(), "up", str(made.pipeline)], stdin=DEVNULL, stdout=PIPE)
        )
        ends.callback(up.terminate)
        assert up.stdout is not None
        assert any(NAME in line and " | here" in line for line in up.stdout)
        yield made
