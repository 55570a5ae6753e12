"""Runs the camera on one machine, and the model and the sink on another, with a bridge on each.

As root, the machines are two network namespaces of this host, joined by a virtual cable; else they
are two domains of this host, whose bridges talk over the loopback.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from plan import TIMEOUT, Schedule, relaxed_rate
from processes import Failed, Processes
from records import count_arrivals, read_features
from reference import count_equal, reference
from report import Progress, measures, table
from run import HERE, OUTPUT, build_sink

PORT = 7447


class Machine(NamedTuple):
    """Where a command runs: in a network, and in a domain."""

    name: str
    address: str
    enter: list[str]

    def run(self, results: Path, command: list[str]) -> list[str]:
        domain = f"TENSORBUS_DOMAIN={results / self.name}"
        return [*self.enter, "env", domain, *command]


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    names = ("camera-host", "model-host")
    if os.geteuid() != 0:
        print("-- not root: both machines have the network of this host", flush=True)
        here, there = (Machine(name, "127.0.0.1", []) for name in names)
        yield here, there
        return
    spaces = [f"{name}-{os.getpid()}" for name in names]
    addresses = ("10.78.0.1", "10.78.0.2")
    try:
        for space in spaces:
            ip("netns", "add", space)
        first, second = spaces
        ip("-n", first, "link", "add", "eth0", "type", "veth", "peer", "eth0", "netns", second)
        for space, address in zip(spaces, addresses, strict=True):
            ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
        here, there = (
            Machine(name, address, ["ip", "netns", "exec", space])
            for name, address, space in zip(names, addresses, spaces, strict=True)
        )
        yield here, there
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL, check=False)


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def bridge(machine: Machine, *options: str) -> list[str]:
    named = ["--name", machine.name, "--trust-network", *options]
    return [sys.executable, "-m", "tensorbus", "bridge", *named]


@contextmanager
def top(machine: Machine, results: Path) -> Iterator[None]:
    """Shows `tensorbus top` of this machine meanwhile, unless it is quit before."""
    command = machine.run(results, [sys.executable, "-m", "tensorbus", "top"])
    showing = subprocess.Popen(command)
    try:
        yield
    finally:
        showing.terminate()
        showing.wait(TIMEOUT)


def commands_of(results: Path, schedule: Schedule, sink: Path) -> dict[str, list[str]]:
    """The programs of pipeline.toml, each with its arguments."""
    camera = [str(HERE / "camera.py"), str(results), *schedule.to_arguments()]
    model = [str(HERE / "model.py"), str(results), str(schedule.frames)]
    return {
        "camera": [sys.executable, *camera],
        "model": [sys.executable, *model],
        "sink": [str(sink), str(results), str(schedule.frames)],
    }


def demo(results: Path, paced: int, full_speed: int, *, shows_top: bool) -> None:
    sink = build_sink()
    frames = paced + full_speed
    expected, alone = reference(frames, Progress("one process, to compare", frames).show)
    schedule = Schedule(paced, full_speed, relaxed_rate(alone))
    commands = commands_of(results, schedule, sink)
    progress = Progress("two machines", frames)
    with two_machines() as (here, there):
        address = f"{here.address}:{PORT}"
        bridges = {
            "bridge 1": here.run(results, bridge(here, "--listen", address)),
            "bridge 2": there.run(results, bridge(there, "--connect", address)),
        }
        programs = {
            name: (here if name == "camera" else there).run(results, command)
            for name, command in commands.items()
        }
        watching = top(there, results) if shows_top else nullcontext()

        def show() -> None:
            if not shows_top:
                progress.show(count_arrivals(results / "sink.txt"))

        with Processes(bridges, OUTPUT, {}), Processes(programs, OUTPUT, {}) as processes, watching:
            processes.wait(timeout=2 * TIMEOUT + 2 * frames, meanwhile=show)
    progress.show(frames)
    equal = count_equal(expected, read_features(results / "features.bin"))
    rows = [*measures(results, paced), ("equal", f"{equal} of {frames}")]
    print(f"\n{table({'two machines': rows})}\n")
    if equal != frames:
        raise Failed(f"the features of {frames - equal} frames are not equal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paced", type=int, default=40, metavar="FRAMES")
    parser.add_argument("--full-speed", type=int, default=60, metavar="FRAMES")
    parser.add_argument("--top", action="store_true", help="show tensorbus top meanwhile")
    arguments = parser.parse_args()
    try:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            demo(Path(folder), arguments.paced, arguments.full_speed, shows_top=arguments.top)
    except (Failed, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
