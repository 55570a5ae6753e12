"""Between machines: small messages there and back, one topic on many machines, many topics.

The machines are namespaces that are joined by veth, as those of the tests: it needs root. The rows
of a group take turns. `64 B` is there and back, by a program that asks 2,000 times a second.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

from harness.other_process import PATIENCE
from harness.report import is_quick, percentile, report, report_absent
from python_bridge import (
    ENDS,
    PEERS,
    SIZE,
    Machine,
    Machines,
    end_of,
    last_line,
    wait_until,
    why_no_machines,
)


def start(machine: Machine, program: str, *arguments: object) -> subprocess.Popen[Any]:
    command = [sys.executable, str(ENDS / program), *map(str, arguments)]
    return machine.run(command, stdin=subprocess.PIPE)


def tell(program: subprocess.Popen[Any], line: object) -> None:
    assert program.stdin is not None
    program.stdin.write(f"{line}\n".encode())
    program.stdin.flush()


def there_and_back(engine: str, count: int) -> dict[str, float]:
    with Machines(2) as (asks, answers):
        arguments = (engine, answers.address, 64, count)
        wait_until("ready", answers, start(answers, "echo.py", "answer", *arguments))
        times = last_line(asks, start(asks, "echo.py", "ask", *arguments))
    return {"p50_ns": percentile(times, 0.5), "p99_ns": percentile(times, 0.99)}


def one_to(machines: int, count: int, rate: float = 0) -> dict[str, float]:
    """Frames of 24.9 MB from one machine to others."""
    with Machines(1 + machines) as (source, *targets):
        arguments = (source.address, SIZE, count, rate)
        camera = start(source, "stream.py", "camera", *arguments)
        wait_until("ready", source, camera)
        receivers = [start(target, "stream.py", "receiver", *arguments) for target in targets]
        tell(camera, machines)
        for receiver in receivers:
            receiver.wait(PATIENCE + (count / rate if rate else 0))
        told = [last_line(*pair) for pair in zip(targets, receivers, strict=True)]
        tell(camera, "end")
        end_of(source, camera)
    received = sum(one["received"] - 1 for one in told)
    return {
        "bytes_per_second": received * SIZE / max(one["seconds"] for one in told),
        "missed": sum(one["missed"] for one in told),
        "received": min(one["received"] for one in told),
    }


def listed(machines: int, topics: int) -> dict[str, float]:
    """From the start of the bridges until every machine lists the topics of all."""
    with Machines(machines) as everyone:
        machine = list(everyone)
        each = topics // machines
        programs = [
            start(
                one,
                "topics.py",
                each,
                topics,
                one.address,
                *(other.address for other in machine[:number]),
            )
            for number, one in enumerate(machine)
        ]
        for one, program in zip(machine, programs, strict=True):
            wait_until("ready", one, program)
        for program in programs:
            tell(program, "go")
        for one, program in zip(machine, programs, strict=True):
            wait_until("seconds", one, program)
        told = [
            json.loads(one.output(program).splitlines()[-1])["seconds"]
            for one, program in zip(machine, programs, strict=True)
        ]
    return {"seconds_ns": max(told) * 1e9}


def restarted(count: int) -> dict[str, float]:
    """A bridge is killed and started again: until its topics are back."""
    with Machines(1) as (machine,):
        times = last_line(machine, start(machine, "restarts.py", count))
    return {"p50_ns": percentile(times, 0.5) * 1e9, "worst_ns": max(times) * 1e9}


def main() -> None:
    quick = is_quick(__doc__)
    if (why := why_no_machines()) is not None:
        report_absent("between machines", why)
        return
    engines = {"64 B, TCP": "tcp", "64 B, topic": "tensorbus", "64 B, topic beside bulk": "beside"}
    for name, module in {"Zenoh": "zenoh", "pyzmq": "zmq", "gRPC": "grpc"}.items():
        if importlib.util.find_spec(module) is not None:
            engines[f"64 B, {name}"] = name.lower()
        else:
            report_absent(f"64 B, {name}", f"{module} is not installed ({PEERS})")
    for repetition in range(2 if quick else 3):
        for row, engine in engines.items():
            report(row, repetition, **there_and_back(engine, 200 if quick else 2000))
        for machines in (1, 4):
            row = f"24.9 MB, to {machines} machine{'s' * (machines > 1)}"
            report(row, repetition, **one_to(machines, 20 if quick else 100))
        report("a bridge was killed", repetition, **restarted(2 if quick else 5))
        report("1,000 topics on 8 machines", repetition, **listed(8, 1000))
    if not quick:
        report("24.9 MB at 30 Hz for a minute", 0, **one_to(1, 1800, 30.0))


if __name__ == "__main__":
    main()
