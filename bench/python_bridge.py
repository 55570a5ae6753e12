"""Messages of 24.9 MB from one machine to another: bytes a second, and the processor time of a GB.

The machines are namespaces that are joined by veth, as those of the tests: it needs root. The rows
take turns, so that a ratio compares neighbours in time. Each turn has a connection of its own.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from harness.other_process import PATIENCE
from harness.report import is_quick, report, report_absent

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/python"))

from support.bridge.certificates import write_certificates  # noqa: E402
from support.bridge.machines import Machine, Machines, why_no_machines  # noqa: E402

SIZE = 24_883_200  # bytes of a message: an image of 3840 x 2160 in RGB
ENDS = Path(__file__).with_name("bridge_ends")
PEERS = "scripts/bench --peers installs all"


class Figures(NamedTuple):
    bytes_per_second: float
    send_per_gb: float  # seconds of processor time, on the machine that sends
    receive_per_gb: float


Measure = Callable[[Machine, Machine, int], Figures]


def wait_until(text: str, machine: Machine, program: subprocess.Popen[Any]) -> None:
    """Until a program has written this."""
    deadline = time.monotonic() + PATIENCE
    while text not in machine.output(program):
        if program.poll() is not None or time.monotonic() > deadline:
            fail(machine, program)
        time.sleep(0.01)


def end_of(machine: Machine, program: subprocess.Popen[Any]) -> str:
    """What it has written by its end, which must be a good one."""
    if program.wait(PATIENCE) != 0:
        fail(machine, program)
    return machine.output(program)


def last_line(machine: Machine, program: subprocess.Popen[Any]) -> Any:
    """The last line of JSON that it has written by its end; libraries may write others."""
    lines = end_of(machine, program).splitlines()
    return json.loads(next(line for line in reversed(lines) if line.startswith(("{", "["))))


def fail(machine: Machine, program: subprocess.Popen[Any]) -> NoReturn:
    sys.exit(f"error: {program.args!r} on {machine.name} failed: {machine.output(program)}")


def through_iperf3(sender: Machine, receiver: Machine, count: int) -> Figures:
    server = receiver.run(["iperf3", "--server", "--one-off", "--forceflush"])
    wait_until("listening", receiver, server)
    amount = ["--bytes", str(count * SIZE)]
    client = sender.run(["iperf3", "--client", receiver.address, "--json", *amount])
    end = json.loads(end_of(sender, client))["end"]
    end_of(receiver, server)
    received, use = end["sum_received"], end["cpu_utilization_percent"]
    per_gb = received["seconds"] / 100 / (received["bytes"] / 1e9)
    return Figures(
        received["bits_per_second"] / 8, use["host_total"] * per_gb, use["remote_total"] * per_gb
    )


Options = Callable[[Machine], list[str]]  # of the program on a machine


def through_programs(program: str, options: Options = lambda _: []) -> Measure:
    """Two programs of bridge_ends, one on each machine."""

    def measure(sender: Machine, receiver: Machine, count: int) -> Figures:
        command = [sys.executable, str(ENDS / program)]
        arguments = [receiver.address, str(SIZE), str(count)]
        receives = receiver.run([*command, "receive", *arguments, *options(receiver)])
        wait_until("ready", receiver, receives)
        sends = sender.run([*command, "send", *arguments, *options(sender)])
        sent = last_line(sender, sends)
        received = last_line(receiver, receives)
        gb = count * SIZE / 1e9
        seconds = received.get("seconds") or sent["seconds"]
        return Figures(gb * 1e9 / seconds, sent["processor"] / gb, received["processor"] / gb)

    return measure


def through_engine(engine: str, options: Options = lambda _: []) -> Measure:
    return through_programs("peers.py", lambda machine: [engine, *options(machine)])


def certified(machines: Sequence[Machine], folder: Path) -> Options:
    """A certificate for each machine, of one authority."""
    names = [f"{machine.name} {machine.address}" for machine in machines]
    made = write_certificates(folder, *names)

    def options(machine: Machine) -> list[str]:
        own = made.machines[machine.name]
        files = {"certificate": own.certificate, "key": own.key, "authority": made.authority}
        return [part for name, path in files.items() for part in (f"--{name}", str(path))]

    return options


def rows(machines: Sequence[Machine], folder: Path) -> dict[str, Measure]:
    """What can be measured here."""
    found: dict[str, Measure] = {}
    if shutil.which("iperf3") is not None:
        found["iperf3"] = through_iperf3
    else:
        report_absent("iperf3", "iperf3 is not installed")
    found["asyncio, sock_recv_into"] = through_programs("asyncio_tcp.py")
    trust = ["--trust-network"]
    certificates = certified(machines, folder)
    for engine, module in {"pyzmq": "zmq", "gRPC": "grpc"}.items():
        if importlib.util.find_spec(module) is not None:
            found[f"{engine}, into a warm buffer"] = through_engine(engine.lower())
        else:
            report_absent(engine, f"{module} is not installed ({PEERS})")
    if importlib.util.find_spec("ray") is not None:
        found["Ray objects"] = through_programs("ray_objects.py", lambda machine: [machine.address])
    else:
        report_absent("Ray", f"ray is not installed ({PEERS})")
    found["tensorbus bridge, topic to topic"] = through_programs("topic.py", lambda _: trust)
    found["tensorbus bridge, TLS"] = through_programs("topic.py", certificates)
    if importlib.util.find_spec("zenoh") is not None:
        found["tensorbus bridge over Zenoh"] = through_programs("topic.py", lambda _: ["zenoh"])
        found["Zenoh alone, TLS, into a warm buffer"] = through_engine("zenoh", certificates)
    else:
        report_absent("Zenoh", f"zenoh is not installed ({PEERS})")
    return found


def main() -> None:
    quick = is_quick(__doc__)
    if (why := why_no_machines()) is not None:
        report_absent("between machines", why)
        return
    count = 20 if quick else 200
    with Machines(2) as (sender, receiver), tempfile.TemporaryDirectory() as folder:
        measures = rows((sender, receiver), Path(folder))
        for repetition in range(2 if quick else 5):
            for row, measure in measures.items():
                report(row, repetition, **measure(sender, receiver, count)._asdict())


if __name__ == "__main__":
    main()
