"""A pipeline of real processes: order, restarts, ends, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, eventually
from support.pipelines import Up, alive, environment_has
from tensorbus._up.client import ask, find
from tensorbus._up.control import Request
from tensorbus._up.events import Event, Notice
from tensorbus._up.schema import load
from tensorbus._up.supervisor import Supervisor

Start = Callable[..., Up]

CAMERA = """
import time
import tensorbus as tb
with tb.Publisher("camera/image") as publisher:
    while True:
        publisher.publish(1)
        time.sleep(0.02)
"""
MODEL = """
import tensorbus as tb
with tb.Subscriber("camera/image", timeout=60) as images, tb.Queue(name="jobs") as jobs:
    for sample in images:
        pass
"""
ORDER = """
[process.sink]
run = "sleep 1000"
after = ["queue:jobs"]

[process.model]
run = "python model.py"
after = ["camera/image"]
provides = ["queue:jobs"]

[process.camera]
run = "python camera.py"
provides = ["camera/image"]
"""


def states(up: Up, *wanted: str) -> list[tuple[str, str]]:
    """The changes to some states, in their order."""
    return [
        (each["process"], each["state"])
        for each in up.seen
        if each["kind"] == "process_state" and each["state"] in wanted
    ]


def test_processes_start_after_what_they_wait_for_and_end_before_it(up: Start) -> None:
    pipeline = up(ORDER, camera=CAMERA, model=MODEL)
    pipeline.state("sink", "running")
    status, _ = pipeline.end(signal.SIGTERM)
    assert status == 143
    names = ["camera", "model", "sink"]
    assert [name for name, _ in states(pipeline, "running")] == names
    assert [name for name, _ in states(pipeline, "ended")] == names[::-1]
    # Each ended before the next one was told to.
    assert [state for _, state in states(pipeline, "stopping", "ended")] == [
        "stopping",
        "ended",
    ] * 3


def test_what_a_process_waits_for_may_come_from_outside(up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'sleep 1000'\nafter = ['service:mean', 'queue:jobs']")
    waiting = pipeline.state("a", "waiting")
    assert waiting["reason"] == "waits for service:mean, queue:jobs"
    with tb.Queue(name="jobs"):
        assert pipeline.state("a", "waiting")["reason"] == "waits for service:mean"
        with tb.Node("server") as node:
            node.create_service("mean", callback=lambda request: request, mode="sync")
            pipeline.state("a", "running")


@pytest.mark.parametrize(
    ("command", "status", "state", "reason"),
    [("true", 0, "ended", ""), ("sh -c 'exit 3'", 1, "failed", "exit 3")],
)
def test_the_exit_status_tells(
    command: str, status: int, state: str, reason: str, up: Start
) -> None:
    pipeline = up(f'[process.a]\nrun = "{command}"')
    assert pipeline.state("a", state)["reason"] == reason
    assert pipeline.finish()[0] == status


def test_a_program_that_cannot_be_run_has_failed(up: Start) -> None:
    pipeline = up("[process.a]\nrun = '/no/such/program'")
    pipeline.until(kind="log", process="a", text="~cannot run /no/such/program: No such file")
    assert pipeline.state("a", "failed")["reason"] == "exit 127"
    assert pipeline.finish()[0] == 1


def test_a_folder_that_does_not_exist_fails_the_process_alone(up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'true'\ncwd = 'x'\n[process.b]\nrun = 'true'")
    assert pipeline.finish()[0] == 1
    assert {*states(pipeline, "failed", "ended")} == {("a", "failed"), ("b", "ended")}


def test_a_process_is_started_again_until_its_limit(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'false'\nrestart = 'always'\nbackoff = '1ms'\nrestart_limit = 3\n"
        "restart_window = '10min'\n[process.b]\nrun = 'sleep 1000'"
    )
    failed = pipeline.state("a", "failed")
    assert failed["reason"] == "exit 1, after 3 restarts within 600 s"
    assert failed["restarts"] == 3
    assert states(pipeline, "backing off") == [("a", "backing off")] * 3
    assert pipeline.end()[0] == 1  # the rest went on until now


def test_a_failure_ends_the_pipeline_if_it_is_told_so(up: Start) -> None:
    pipeline = up(
        "on_failure = 'stop'\n[process.a]\nrun = 'false'\n[process.b]\nrun = 'sleep 1000'"
    )
    assert pipeline.finish()[0] == 1
    assert states(pipeline, "ended") == [("b", "ended")]


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here")
while True:
    time.sleep(1000)
"""


def test_ctrl_c_once_is_orderly_and_twice_is_at_once(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python stubborn.py'\nstop_timeout = '10min'", stubborn=STUBBORN
    )
    pipeline.until(kind="log", text="here")
    pipeline.process.send_signal(signal.SIGINT)
    pipeline.state("a", "stopping")
    assert pipeline.end(signal.SIGINT)[0] == 130
    assert states(pipeline, "ended") == [("a", "ended")]


def test_a_process_that_does_not_end_is_killed_after_its_time(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python stubborn.py'\nstop_timeout = '50ms'", stubborn=STUBBORN
    )
    pipeline.until(kind="log", text="here")
    assert pipeline.end(signal.SIGINT)[0] == 130
    text = "did not end within 0.05 s of the stop signal: killed"
    assert text in [each.get("text") for each in pipeline.seen]


def test_a_stopped_process_can_be_ended(up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'sleep 1000'")
    pid = pipeline.state("a", "running")["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert pipeline.end(signal.SIGTERM)[0] == 143


# A child, a grandchild in a session of its own, and one that also has lost its parent.
FAMILY = """
import os, subprocess, sys, time
children = [subprocess.Popen(["sleep", "1000"])]
children.append(subprocess.Popen(["sleep", "1000"], start_new_session=True))
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    pid = os.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "1000"])
    os.write(write, str(pid).encode())
    os._exit(0)
pids = [child.pid for child in children] + [int(os.read(read, 20))]
print(*pids)
END
"""


def family_of(pipeline: Up) -> list[int]:
    return [int(pid) for pid in pipeline.until(kind="log")["text"].split()]


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_a_program_leaves_behind_is_ended_with_it(end: str, up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'python family.py'", family=FAMILY.replace("END", end))
    family = family_of(pipeline)
    pipeline.finish()
    assert len(family) == 3
    assert [pid for pid in family if alive(pid)] == []


def test_a_background_process_of_a_living_program_goes_on(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python family.py'", family=FAMILY.replace("END", "time.sleep(1000)")
    )
    family = family_of(pipeline)
    assert [pid for pid in family if not alive(pid)] == []
    pipeline.end()
    assert [pid for pid in family if alive(pid)] == []


@pytest.mark.parametrize("victim", ["guard", "supervisor"])
def test_nothing_is_left_if_it_is_killed(victim: str, up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python family.py'", family=FAMILY.replace("END", "time.sleep(1000)")
    )
    main = pipeline.state("a", "running")["pid"]
    family = [main, *family_of(pipeline)]
    parent = int(Path(f"/proc/{main}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(pipeline.pid if victim == "guard" else parent, signal.SIGKILL)
    pipeline.process.wait(PATIENCE)
    eventually(lambda: not any(alive(pid) for pid in [*family, parent]))
    assert pipeline.process.returncode == (-9 if victim == "guard" else 1)


TALKER = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path("ended").touch()))
for number in range(10**9):
    print("x" * 1000)
    if number == 1000:
        pathlib.Path("more").touch()
"""


def test_it_goes_on_without_a_reader_and_without_a_terminal(up: Start, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    pipeline = up(
        "[process.a]\nrun = 'python a.py'",
        a=TALKER,
    )
    pipeline.until(kind="log")
    assert pipeline.process.stdout
    pipeline.process.stdout.close()
    eventually(lambda: (tmp_path / "more").exists())  # it has printed lines that nobody reads
    assert pipeline.process.poll() is None
    pipeline.process.send_signal(signal.SIGHUP)
    assert pipeline.process.wait(PATIENCE) == 143
    assert ended.exists()


def test_a_reader_that_does_not_read_delays_no_end(up: Start) -> None:
    pipeline = up("[process.a]\nrun = 'yes'\n[process.b]\nrun = 'sleep 1000'")
    pipeline.until(kind="log")
    pipeline.process.send_signal(signal.SIGINT)
    assert pipeline.process.wait(PATIENCE) == 130


def test_the_lines_of_processes_have_their_names(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python a.py'",
        a="import sys, os\nprint('out')\nprint('bad \\udcff', file=sys.stderr)\n"
        "os.write(1, b'10%\\r20%\\rdone\\nno end')",
    )
    pipeline.finish()
    lines = [each["text"] for each in pipeline.seen if each["kind"] == "log"]
    assert lines == ["out", "bad \\udcff", "done", "no end"]


def test_lines_go_to_files(up: Start, tmp_path: Path) -> None:
    pipeline = up("[process.a]\nrun = 'echo hello'", "--log-dir", str(tmp_path / "logs"))
    assert pipeline.finish()[0] == 0
    text = (tmp_path / "logs/a.log").read_text()
    assert text.endswith(" hello\n")


def test_a_program_has_its_environment_processors_and_niceness(up: Start) -> None:
    cpu = min(os.sched_getaffinity(0))
    pipeline = up(
        f"[process.a]\nrun = 'python a.py'\nreplicas = 2\nnice = 3\ncpus = '{cpu}'\n"
        "env = { MODE = 'x' }",
        a="import os, signal\nprint(os.environ['MODE'], os.environ['TENSORBUS_REPLICA'], "
        "os.nice(0), os.sched_getaffinity(0), signal.getsignal(signal.SIGPIPE).name, "
        "os.getsid(0) == os.getpid())",
    )
    pipeline.finish()
    lines = {each["process"]: each["text"] for each in pipeline.seen if each["kind"] == "log"}
    nice = os.nice(0) + 3
    assert lines == {
        f"a.{number}": f"x {number} {nice} {{{cpu}}} SIG_IGN True" for number in (1, 2)
    }


def test_a_pipeline_runs_once_on_a_domain(up: Start, tmp_path: Path) -> None:
    pipeline = up("[process.a]\nrun = 'sleep 1000'")
    pipeline.state("a", "running")
    command = [sys.executable, "-m", "tensorbus", "up", str(tmp_path / "pipeline.toml")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert second.returncode == 2
    assert "pipeline 'pipeline' is running on" in second.stderr
    assert pipeline.end()[0] == 130


def test_after_a_kill_it_runs_again(up: Start) -> None:
    text = "[process.a]\nrun = 'sleep 1000'"
    first = up(text)
    pid = first.state("a", "running")["pid"]
    first.process.kill()
    eventually(lambda: not alive(pid))
    up(text).state("a", "running")


def test_nothing_is_left_in_the_domain(up: Start, tmp_path: Path) -> None:
    pipeline = up("[process.a]\nrun = 'true'")
    assert pipeline.finish()[0] == 0
    assert [*(tmp_path / "bus").iterdir()] == []
    assert environment_has(f"TENSORBUS_DOMAIN={tmp_path / 'bus'}") == []


ESCAPE = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os._exit(0)  # a zombie, whose parent belongs to this program no more
    os.setsid()
    os.execve("/bin/sleep", ["sleep", "7117"], {})
time.sleep(0.5)
"""


def test_a_zombie_of_a_process_that_has_left_holds_nothing_up(up: Start) -> None:
    pipeline = up('[process.a]\nrun = "python a.py"', a=ESCAPE)
    assert pipeline.finish()[0] == 0
    assert pipeline.seen[-1]["state"] == "ended"


def test_a_process_that_cannot_be_started_was_never_running(up: Start) -> None:
    pipeline = up('[process.a]\nrun = "sleep 1"\ncwd = "nowhere"')
    status, _ = pipeline.finish()
    assert status == 1
    assert states(pipeline, "running", "failed") == [("a", "failed")]


def test_it_ends_when_what_is_left_waits_for_what_has_ended(up: Start) -> None:
    """The model fails, and is not started again: the camera has ended."""
    pipeline = up(
        """
[process.camera]
run = "python camera.py"
provides = ["image"]
[process.model]
run = "python model.py"
after = ["image"]
restart = "on-failure"
backoff = 0
""",
        camera="import tensorbus as tb\nwith tb.Publisher('image') as a: a.wait_for_subscribers()",
        model="import tensorbus as tb\na = tb.Subscriber('image', end_of_stream=True)\nassert [*a]",
    )
    status, lines = pipeline.finish()
    assert status == 1
    notices = [line["text"] for line in lines if line["kind"] == "notice"]
    assert notices == ["ends: no process is left that provides what model waits for"]
    states = [line["state"] for line in lines if line["kind"] == "process_state"]
    assert states[-1] == "ended"


def test_it_ends_when_what_it_waits_for_cannot_be_started(up: Start) -> None:
    pipeline = up(
        """
[process.camera]
run = "false"
provides = ["image"]
[process.model]
run = "true"
after = ["image"]
"""
    )
    assert pipeline.finish()[0] == 1


def test_it_goes_on_waiting_for_a_name_from_outside(up: Start) -> None:
    pipeline = up(
        """
[process.camera]
run = "true"
[process.model]
run = "true"
after = ["image"]
"""
    )
    pipeline.state("camera", "ended")
    with tb.Publisher("image"):
        assert pipeline.finish()[0] == 0


def test_it_goes_on_while_a_process_is_stopped_by_a_command(up: Start) -> None:
    pipeline = up(
        """
[process.camera]
run = "python camera.py"
provides = ["image"]
stop_signal = "SIGINT"  # it closes its publisher
[process.model]
run = "python model.py"
after = ["image"]
restart = "always"
restart_limit = 0
backoff = 0
""",
        camera=CAMERA.replace("camera/image", "image"),
        model="""
import tensorbus as tb
images = tb.Subscriber("image", end_of_stream=True)
images.receive()
print("first", flush=True)
for _ in images:
    pass
""",
    )
    pipeline.until(kind="log", text="first")
    ask(find(None, None), Request("stop", "camera", wait=True))
    pipeline.state("model", "waiting")
    ask(find(None, None), Request("restart", "camera"))
    pipeline.until(kind="log", text="first")
    assert pipeline.end()[0] == 130


def test_a_stop_of_what_has_failed_keeps_nothing_up(up: Start, tmp_path: Path) -> None:
    pipeline = up(
        """
[process.camera]
run = "false"
provides = ["image"]
[process.model]
run = "true"
after = ["image"]
[process.other]
run = "python other.py"
""",
        other=f"""
import time
from pathlib import Path
while not Path({str(tmp_path / "go")!r}).exists():
    time.sleep(0.01)
""",
    )
    pipeline.state("camera", "failed")
    ask(find(None, None), Request("stop", "camera"))
    (tmp_path / "go").touch()
    assert pipeline.finish()[0] == 1


def test_the_first_signal_after_a_command_to_end_is_orderly(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python a.py'",
        a="""
import signal, time
def end(*_):
    print("ends", flush=True)
    time.sleep(1)
    print("saved", flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
signal.pause()
""",
    )
    pipeline.until(kind="log", text="runs")
    ask(find(None, None), Request("stop"))
    pipeline.until(kind="log", text="ends")
    pipeline.end()
    assert pipeline.printed("a")[-1] == "saved"


def test_what_watches_goes_on_after_an_error_that_is_reported_once(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensorbus._up.supervisor.PERIOD", 0)
    events: list[Event] = []
    supervisor = Supervisor(load(write('[process.a]\nrun = "true"')), events.append)
    times = 0

    async def fails_twice() -> None:
        nonlocal times
        times += 1
        if times < 3:
            raise RuntimeError("can't start new thread")

    asyncio.run(supervisor._watch_always("expectations", fails_twice))
    assert times == 3
    [notice] = events
    assert isinstance(notice, Notice)
    assert "expectations cannot be watched now, it is tried again" in notice.text
    assert "can't start new thread" in notice.text
