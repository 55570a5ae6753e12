"""Units of systemd: what is in them, and what systemd makes of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import PATIENCE, SANITIZED, eventually
from support.pipelines import alive
from support.screens.commands import Done
from support.systemd import Manager, manager, settings, why_no_manager, words
from tensorbus._cli.command import main
from tensorbus._up.deploy.systemd import units
from tensorbus._up.schema import load

Write = Callable[..., Path]

pytestmark = pytest.mark.skipif(SANITIZED, reason="systemd runs what it starts without LD_PRELOAD")

HARD = [
    "a b",
    "",
    ";",
    "5 % of %h",
    "$HOME ${HOME} $$",
    "\"'\\",
    "\\n\n\t\x01",
    "mod\u00e8le",
    "-x",
]
HARD_ENV = {"A": "5 % $HOME \"' \\", "B": "", "C": "two\nlines", "TENSORBUS_REPLICA": "9"}

SHOW = """
import json, os, signal, sys
told = {
    "words": sys.argv[1:],
    "cwd": os.getcwd(),
    "env": {name: os.environ[name] for name in ("A", "B", "C", "TENSORBUS_REPLICA")},
    "nice": os.nice(0),
    "cpus": sorted(os.sched_getaffinity(0)),
    "domain": os.environ["TENSORBUS_DOMAIN"],
}
open("told.new", "w").write(json.dumps(told))
os.rename("told.new", "told.json")
"""
SINK = "trap 'echo sink >>ends; exit 143' TERM; sleep 1000 & echo $! >child; wait"
CAMERA = """
import signal, sys, time
import tensorbus as tb
def end(*_):
    open("ends", "a").write("camera\\n")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
with tb.Publisher("camera") as publisher:
    while True:
        publisher.publish(1)
        time.sleep(0.02)
"""


def written(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Done, Path]:
    """The command, and the folder that has the units."""
    folder = path.parent / "units"
    capsys.readouterr()
    status = main(["up", "--systemd", str(folder), str(path)])
    said = capsys.readouterr()
    return Done(status, said.out, said.err), folder


def hard(domain: Path) -> str:
    """A pipeline whose words and variables have every character that means something."""
    cpu = min(os.sched_getaffinity(0))
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in HARD_ENV.items())
    return f"""
    name = "hard"
    domain = "{domain}"
    [process.show]
    run = {json.dumps(["python", "show.py", *HARD])}
    cwd = "5 % \u00e8 $HOME"
    env = {{ {variables} }}
    nice = 3
    cpus = "{cpu}"
    """


def write_hard(write: Write, tmp_path: Path) -> Path:
    folder = tmp_path / "5 % \u00e8 $HOME"
    folder.mkdir()
    (folder / "show.py").write_text(SHOW)
    return write(hard(tmp_path / "bus"))


def test_words_and_variables_are_read_back(write: Write, tmp_path: Path) -> None:
    plan = load(write_hard(write, tmp_path))
    told = settings(units(plan)["tensorbus-hard-show.service"])
    (program,) = plan.programs
    (start,) = [value for key, value in told if key == "ExecStart"]
    assert start[0] == ":"  # `$` means nothing
    assert words(start[1:]) == [program.find(), "show.py", *HARD]
    (folder,) = [value for key, value in told if key == "WorkingDirectory"]
    assert folder.replace("%%", "%") == str(program.cwd)
    variables = dict(
        word.split("=", 1) for key, value in told if key == "Environment" for word in words(value)
    )
    assert {**variables, **HARD_ENV} == variables
    assert variables["TENSORBUS_DOMAIN"] == str(tmp_path / "bus")


def test_the_settings_say_what_the_file_says(write: Write) -> None:
    plan = load(
        write(
            "on_failure = 'stop'\n[process.a]\nrun = 'true'\nprovides = ['t']\n"
            "[process.b]\nrun = 'true'\nafter = ['t', 'queue:x y']\nreplicas = 2\n"
            "restart = 'on-failure'\nbackoff = '100ms'\nmax_backoff = '5s'\n"
            "restart_window = '2min'\nrestart_limit = 3\nstop_signal = 'SIGINT'\nstop_timeout = 0\n"
            "expect = { t = '>= 1 Hz' }"
        )
    )
    files = units(plan)
    names = [*files]
    assert names == [
        "tensorbus-pipeline-a.service",
        "tensorbus-pipeline-b.1.service",
        "tensorbus-pipeline-b.2.service",
        "tensorbus-pipeline.target",
        "tensorbus-pipeline-failed.target",
    ]
    told = settings(files["tensorbus-pipeline-b.2.service"])
    for expected in (
        ("PartOf", "tensorbus-pipeline.target"),
        ("After", "tensorbus-pipeline-a.service"),
        ("OnFailure", "tensorbus-pipeline-failed.target"),
        ("StartLimitIntervalSec", "120"),
        ("StartLimitBurst", "4"),  # the first start counts
        ("Environment", "TENSORBUS_REPLICA=2"),
        ("SuccessExitStatus", "130 SIGINT"),
        ("Restart", "on-failure"),
        ("RestartForceExitStatus", "130 SIGINT SIGHUP SIGTERM SIGPIPE"),
        ("RestartSec", "0.1"),
        ("RestartSteps", "6"),
        ("RestartMaxDelaySec", "5"),
        ("KillSignal", "SIGINT"),
        ("TimeoutStopSec", "0.001"),
    ):
        assert expected in told
    (before,) = [value for key, value in told if key == "ExecStartPre"]
    assert words(before)[-4:] == ["wait", "--", "t", "queue:x y"]
    assert "# not checked by systemd: t >= 1 Hz" in files["tensorbus-pipeline-b.1.service"]
    assert [
        value for key, value in settings(files["tensorbus-pipeline.target"]) if key == "Wants"
    ] == names[:3]


def test_the_command_writes_files_and_says_what_they_lack(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("[process.a]\nrun = 'true'\nexpect = { t = ['>= 1 Hz', 'age < 1s'] }")
    done, folder = written(path, capsys)
    assert done.status == 0
    assert done.out.split() == [
        str(folder / f"tensorbus-pipeline{end}") for end in ("-a.service", ".target")
    ]
    assert done.err == "tensorbus: systemd does not check: a: t >= 1 Hz; a: t age < 1s\n"
    assert sorted(each.name for each in folder.iterdir()) == [
        "tensorbus-pipeline-a.service",
        "tensorbus-pipeline.target",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "run = 'true'\nenv = { 'a-b' = 'x' }",
            "env: systemd has no variables of this name: 'a-b'",
        ),
        ('run = "true"\nenv = { A = "\\u0001" }', "env: systemd allows no control characters: A="),
        ('run = ["./it\'s"]', "run: systemd runs no program whose path has quotes or"),
        ('run = "true"\ncwd = "a\\nb"', "cwd: systemd cannot be told this folder: "),
        ("run = 'true'\ncwd = 'a\\'", "cwd: systemd cannot be told this folder: "),
    ],
)
def test_what_systemd_cannot_run_is_named(text: str, problem: str, write: Write) -> None:
    path = write(f"[process.a]\n{text}")
    with pytest.raises(tb.InvalidArgument) as error:
        units(load(path))
    assert str(error.value).startswith(f"{path}: process.a: {problem}")


def test_no_unit_is_written_for_a_missing_program(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    done, folder = written(write("[process.a]\nrun = 'no-such-program'"), capsys)
    assert done.status == 1
    assert "process.a: run: there is no program 'no-such-program'" in done.err
    assert not folder.exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze (systemd)")
def test_systemd_accepts_the_units(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = hard(tmp_path / "bus").replace('"show.py"', '"show.py", "x"')
    text += (
        "[process.'mod\u00e8le']\nrun = 'true'\nafter = ['t']\nreplicas = 2\nrestart = 'always'\n"
        "[process.t]\nrun = 'true'\nprovides = ['t']\nrestart = 'on-failure'\n"
    )
    write_hard(write, tmp_path)
    done, folder = written(write("on_failure = 'stop'\n" + text), capsys)
    assert (done.status, done.err) == (0, "")
    verify = ["systemd-analyze", "verify", "--user", "--man=no"]
    verified = subprocess.run(
        [*verify, *map(str, folder.iterdir())],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    # Those that systemd has learned later, in version 254.
    complaints = [
        line
        for line in verified.stderr.splitlines()
        if "'RestartSteps'" not in line and "'RestartMaxDelaySec'" not in line
    ]
    assert (verified.returncode, complaints) == (0, [])


Run = Callable[[Path], Manager]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Has a manager of a user start the units of a pipeline."""
    if why := why_no_manager():
        pytest.skip(why)
    running = []

    def start(path: Path) -> Manager:
        done, folder = written(path, capsys)
        assert done.status == 0, done.err
        running.append(manager(folder))
        return running[-1].__enter__()

    yield start
    for each in running:
        each.__exit__(None, None, None)


@pytest.mark.machines
def test_a_program_has_what_the_file_says(write: Write, tmp_path: Path, run: Run) -> None:
    path = write_hard(write, tmp_path)
    (program,) = load(path).programs
    found = run(path)
    assert found.ctl("start", "tensorbus-hard.target") == ""
    eventually((program.cwd / "told.json").exists)
    assert json.loads((program.cwd / "told.json").read_text()) == {
        "words": HARD,
        "cwd": str(program.cwd),
        "env": HARD_ENV,
        "nice": 3,
        "cpus": sorted(program.cpus),
        "domain": str(tmp_path / "bus"),
    }


@pytest.mark.machines
def test_a_process_starts_after_what_it_waits_for(write: Write, tmp_path: Path, run: Run) -> None:
    found = run(
        write(
            f"domain = '{tmp_path / 'bus'}'\n[process.sink]\nrun = ['sh', '-c', \"{SINK}\"]\n"
            "after = ['camera', 'queue:jobs']\n"
            "[process.camera]\nrun = 'python camera.py'\nprovides = ['camera']\n"
            "restart = 'on-failure'\nbackoff = '1ms'",
            camera=CAMERA,
        )
    )
    found.ctl("start", "--no-block", "tensorbus-pipeline.target")
    found.until("tensorbus-pipeline-camera.service", "active")
    assert tb.wait_for_topic("camera", timeout=PATIENCE, domain=str(tmp_path / "bus"))
    assert found.state("tensorbus-pipeline-sink.service") == "activating"
    with tb.Queue(name="jobs", domain=str(tmp_path / "bus")):
        found.until("tensorbus-pipeline-sink.service", "active")
        found.until("tensorbus-pipeline.target", "active")
    # An end after a SIGTERM that systemd has not sent is a failure.
    first = found.pid("tensorbus-pipeline-camera.service")
    os.kill(first, signal.SIGTERM)
    eventually(lambda: found.pid("tensorbus-pipeline-camera.service") not in (0, first))
    assert tb.wait_for_topic("camera", timeout=PATIENCE, domain=str(tmp_path / "bus"))
    assert found.ctl("stop", "tensorbus-pipeline.target") == ""
    for name in ("camera", "sink"):
        found.until(f"tensorbus-pipeline-{name}.service", "inactive")  # and not "failed"
    assert (tmp_path / "ends").read_text().split() == ["camera", "sink", "camera"]
    assert not alive(int((tmp_path / "child").read_text()))


@pytest.mark.machines
def test_a_process_fails_after_its_limit_and_ends_the_pipeline(
    write: Write, tmp_path: Path, run: Run
) -> None:
    found = run(
        write(
            "on_failure = 'stop'\n[process.a]\nrun = 'sh a.sh'\nrestart = 'always'\n"
            "backoff = '1ms'\nmax_backoff = '1ms'\nrestart_limit = 3\nrestart_window = '10min'\n"
            "[process.b]\nrun = 'sleep 1000'"
        )
    )
    (tmp_path / "a.sh").write_text("echo x >>starts")
    found.ctl("start", "tensorbus-pipeline-b.service")
    assert found.state("tensorbus-pipeline-b.service") == "active"
    found.ctl("start", "tensorbus-pipeline.target")
    found.until("tensorbus-pipeline-a.service", "failed")
    assert (tmp_path / "starts").read_text() == "x\n" * 4
    found.until("tensorbus-pipeline-b.service", "inactive")


def test_the_wait_command(tmp_path: Path) -> None:
    domain = str(tmp_path / "bus")
    command = [sys.executable, "-m", "tensorbus", "wait", "--domain", domain]
    names = ["camera", "queue:jobs"]

    def missing() -> str:
        done = subprocess.run(
            [*command, "--timeout", "0", *names], capture_output=True, text=True, check=False
        )
        assert done.returncode == (1 if done.stderr else 0)
        return done.stderr

    with tb.Publisher("camera", domain=domain):
        assert missing() == "tensorbus: not there after 0 s: queue:jobs\n"
        with subprocess.Popen([*command, *names]) as waiting:
            eventually(lambda: len(tb.inspect(domain=domain).participants) > 1)
            assert waiting.poll() is None
            with tb.Queue(name="jobs", domain=domain):
                assert waiting.wait(PATIENCE) == 0
                assert missing() == ""
