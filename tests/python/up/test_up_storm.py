"""Random kills and stops of the processes of a pipeline, and of what they have started."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from support.harness import eventually
from support.pipelines import Up, alive, environment_has
from tensorbus._up.client import ask
from tensorbus._up.control import Request

# Each has a child in its own session, and one in another.
PROGRAM = """
import subprocess, sys, time
children = [
    subprocess.Popen(["sleep", "1000"], start_new_session=apart) for apart in (False, True)
]
print("here")
time.sleep(1000)
"""
HOW = ("always", "on-failure", "no", "always")
COUNT = 8


def pipeline_of(count: int) -> str:
    return "\n".join(
        f'[process.p{number}]\nrun = "python -S program.py"\nrestart = "{HOW[number % 4]}"\n'
        "backoff = 0.001\nmax_backoff = 0.002\nrestart_limit = 0\nstop_timeout = 0.05\n"
        for number in range(count)
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_storm_of_kills_stops_and_commands_leaves_the_declared_state(
    up: Callable[..., Up], tmp_path: Path
) -> None:
    rounds = int(os.environ.get("TENSORBUS_KILLS", "100"))
    choice = random.Random(7)
    pipeline = up(pipeline_of(COUNT), program=PROGRAM)
    socket = tmp_path / "bus/up.pipeline.sock"
    eventually(socket.exists)
    pipeline.until(kind="process_state", state="running")

    def status() -> dict[str, tuple[str, int]]:
        found = ask(socket, Request("status"))["processes"]
        return {each["process"]: (each["state"], each["pid"]) for each in found}

    def settled() -> bool:
        """Whether each process is in its declared state, and no killed one is listed."""
        now = status()
        if any(pid == killed.get(name) for name, (_, pid) in now.items()):
            return False
        return {name: state for name, (state, _) in now.items()} == wanted

    supervisor = parent_of(next(pid for _, pid in status().values() if pid))
    killed: dict[str, int] = {}
    wanted = {f"p{number}": "running" for number in range(COUNT)}
    eventually(settled)
    before = len(os.listdir(f"/proc/{supervisor}/fd"))
    for _ in range(rounds):
        name = f"p{choice.randrange(COUNT)}"
        action = choice.choice(["SIGKILL", "SIGSTOP", "SIGSEGV", "child", "stop", "restart"])
        if action == "stop" and name == "p0":
            continue  # it stays, so that the pipeline does not end
        state, pid = status()[name]
        if action in ("stop", "restart"):
            ask(socket, Request(action, name))
            over = "ended" if state != "failed" else "failed"
            wanted[name] = "running" if action == "restart" else over
        elif pid and state == "running":
            with suppress(OSError):  # a child may have ended
                if action == "child":
                    kill_a_child_of(pid)
                else:
                    os.kill(pid, signal.Signals[action])
                    if action == "SIGSEGV":
                        os.kill(pid, signal.SIGCONT)  # a stopped process takes SIGKILL alone
            if action in ("SIGKILL", "SIGSEGV"):
                killed[name] = pid
                restarts = HOW[int(name[1:]) % 4] != "no"
                wanted[name] = "running" if restarts else "failed"
        eventually(settled)
    # A stopped process is a running one: none of them delays the end.
    assert len(os.listdir(f"/proc/{supervisor}/fd")) <= before
    pids = environment_has(f"TENSORBUS_DOMAIN={tmp_path / 'bus'}")
    assert len(pids) > 1
    pipeline.process.send_signal(signal.SIGINT)
    code, _ = pipeline.finish()
    assert code == (1 if "failed" in wanted.values() else 130)
    assert [pid for pid in pids if alive(pid)] == []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def kill_a_child_of(pid: int) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children[:1]:
        os.kill(int(child), signal.SIGKILL)
