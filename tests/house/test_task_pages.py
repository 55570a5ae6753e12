"""The programs of the pages in docs/tasks run, together, as the pages say."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import which

import pytest

import tensorbus as tb
from support.bridge.bridges import two_machines
from support.harness import PATIENCE
from support.pipelines import Up
from support.programs import task_pages
from support.programs.task_pages import PAGES, built, python, running, write_programs
from support.screens.commands import program, run_program
from tensorbus._cli.command import main

pytestmark = pytest.mark.timeout(600)  # it compiles, also where others do


# Pages whose programs end by themselves. A block of text is what those print that precede it.
SHOWN = ("which_primitive", "from_shared_memory", "training_input")
OUTPUT = re.compile(r"^```(?:python\n# ([\w.]+)\n|text\n(.*?)^```$)", re.DOTALL | re.MULTILINE)


def programs_with_output() -> list[tuple[str, str, str]]:
    """Page, program, and the output that the page shows."""
    found = []
    for page in SHOWN:
        programs: list[str] = []
        for source, output in OUTPUT.findall((PAGES / f"{page}.md").read_text()):
            if source:
                programs.append(source)
            else:
                found += [(page, each, output) for each in programs]
                programs = []
    return found


def test_every_program_is_run_here(tmp_path: Path) -> None:
    programs = [
        name for page in sorted(PAGES.glob("*.md")) for name in write_programs(page.stem, tmp_path)
    ]
    files = [task_pages.__file__, *Path(__file__).parent.glob("test_task_pages*.py")]
    tests = "".join(Path(file).read_text() for file in files)
    tests += " ".join(each for _, each, _ in programs_with_output())
    assert len(programs) > 6
    # test_camera.py is run by tests/python/domain/test_pytest_plugin.py; compose.yaml and pod.yaml
    # are by tests/containers, which make the image of Containerfile. hello_ray.py, ray_pipeline.py,
    # ray_rl.py and ray_topics.py are run by tests/python/connectors/test_ray.py.
    assert [name for name in programs if name.split(".")[0] not in tests] == []


def test_getting_started_in_python(tmp_path: Path) -> None:
    write_programs("getting_started", tmp_path)
    with (
        running(*python(tmp_path / "publisher.py")),
        running(*python(tmp_path / "subscriber.py")) as heard,
    ):
        assert heard.stdout is not None
        assert re.fullmatch(r"\d+ \(480, 640, 3\) \[(\d+) \1 \1\]\n", heard.stdout.readline())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_getting_started_in_cpp(tmp_path: Path) -> None:
    program = built("getting_started", "subscriber", tmp_path)
    with running(*python(tmp_path / "publisher.py")), running(program) as heard:
        assert heard.stdout is not None
        assert re.fullmatch(r"(\d+) \1\n", heard.stdout.readline())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_model_in_a_cpp_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("typer", reason="typer is not installed")
    built("model_in_cpp_pipeline", "pipeline", tmp_path)
    with Up(tmp_path / "both.toml") as pipeline:
        assert pipeline.state("pipeline", "ended")["reason"] == ""
        printed = pipeline.printed("pipeline")
        assert [text.split(":")[0] for text in printed] == [*map(str, range(10))]
        assert pipeline.end()[0] == 130


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_video_analytics(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    pytest.importorskip("typer", reason="typer is not installed")
    built("video_analytics", "tracker", tmp_path)
    with Up(tmp_path / "pipeline.toml") as pipeline:
        assert pipeline.finish()[0] == 0
    [told] = pipeline.printed("report")
    assert f"report  | {told}\n" in (PAGES / "video_analytics.md").read_text()


def test_a_camera_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    pytest.importorskip("typer", reason="typer is not installed")
    write_programs("camera_pipeline", tmp_path)
    with Up(tmp_path / "pipeline.toml") as pipeline:
        assert pipeline.finish()[0] == 0
    assert pipeline.printed("detector") == ["200 frames, 0 missed"]
    seen = pipeline.printed("viewer")
    assert all(re.fullmatch(r"viewer: \d+ \(1080, 1920, 3\)", line) for line in seen)


def test_the_programs_of_containers_without_containers(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("containers", tmp_path)
    with (
        running(*python(tmp_path / "detector.py")) as detector,
        running(*python(tmp_path / "camera.py")) as camera,
    ):
        found, _ = detector.communicate(timeout=3 * PATIENCE)
        assert camera.wait(PATIENCE) == 0
    assert found == "200 images, the last of 199\n"


def test_two_machines(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("two_machines", tmp_path)
    with two_machines(tmp_path) as (here, there):
        robot = ("env", "PYTHONUNBUFFERED=1", f"TENSORBUS_DOMAIN={here.domain}")
        computer = ("env", f"TENSORBUS_DOMAIN={there.domain}")
        with (
            running(*robot, *python(tmp_path / "robot.py")) as camera,
            running(*computer, *python(tmp_path / "detector.py")),
        ):
            assert camera.stdout is not None
            dark, bright = (f"{{'machine': 'here', 'brightness': {n}.0}}\n" for n in (80, 120))
            while (line := camera.stdout.readline()) != bright:
                assert line == dark


def test_a_kept_queue_restarts_beside_its_worker(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    pytest.importorskip("typer", reason="typer is not installed")
    write_programs("running", tmp_path)
    page = (PAGES / "running.md").read_text()
    keep = re.findall(r"^ExecStart=\S+/tensorbus (queue keep .*)", page, re.MULTILINE)[0]
    command = (sys.executable, "-m", "tensorbus", *shlex.split(keep))
    with running(sys.executable, "-u", tmp_path / "worker.py") as worker:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with running(*command) as keeper:
                subprocess.run(python(tmp_path / "producer.py"), check=True, timeout=3 * PATIENCE)
                assert worker.stdout is not None
                for number in range(10):
                    assert worker.stdout.readline() == f"job {number} (480, 640)\n"
                keeper.send_signal(end)
                keeper.wait(PATIENCE)


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    page = (PAGES / "running.md").read_text()
    units = re.findall(r"^```ini\n# (robot\S+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for name, text in units:
        text = re.sub(r"/opt/robot/venv/bin/\w+", sys.executable, text)
        (tmp_path / name.replace("@", "@worker")).write_text(text)
    command = ("systemd-analyze", "verify", *(tmp_path.iterdir()))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (len(units), done.returncode, "robot" in done.stderr) == (3, 0, False), done.stderr


def test_actors_and_a_learner(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("typer", reason="typer is not installed")
    write_programs("rl_actors", tmp_path)
    with Up(tmp_path / "pipeline.toml") as pipeline:
        assert pipeline.finish()[0] == 0
    assert pipeline.printed("learner")[0] == "trained 20 times"
    for actor in ("actor.1", "actor.2"):
        [end] = pipeline.printed(actor)
        assert re.fullmatch(r"the last policy was \d+", end)


def test_the_commands_that_see_what_is_going_on(tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="typer is not installed")
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("see", tmp_path)
    page = (PAGES / "see.md").read_text()
    commands = re.findall(r"^\$ tensorbus (?!metrics)(.*)", page, re.M)
    assert len(commands) > 20
    with running(*python(tmp_path / "camera.py")) as camera:
        assert tb.wait_for_node("camera", timeout=PATIENCE)
        with tb.Client("mean", timeout=PATIENCE) as client:
            assert client.call_sync([2.0]) == 2.0  # it runs
        said = {}
        for command in commands:
            patience = "--wait" if command.startswith("topic pub") else "--timeout"
            done = run_program(*shlex.split(command), patience, PATIENCE)
            assert done.status == 0, (command, done.err)
            said[command] = done.out
        camera.send_signal(signal.SIGTERM)
        heard, _ = camera.communicate(timeout=PATIENCE)
    shown = re.findall(r"^\$ tensorbus (param set .*|service call .*)\n(.*\n)", page, re.M)
    assert shown == [(command, said[command]) for command, _ in shown] != []
    assert said["topic list"].splitlines()[1].split() == ["camera/image", "1", "0"]
    assert heard.startswith("speed 1.5\nspeed 2.5\n")


def test_a_camera_is_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer", reason="typer is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("record_and_replay", tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (PAGES / "record_and_replay.md").read_text()
    record, info, play, *others = re.findall(r"^\$ tensorbus (.*)", page, re.M)
    with subprocess.Popen([program(), *shlex.split(record)], stderr=subprocess.PIPE) as recorder:
        assert recorder.stderr is not None
        assert recorder.stderr.readline().startswith(b"recording to ")
        with running(*python(tmp_path / "recorded_camera.py")) as camera:
            assert camera.wait(PATIENCE) == 0
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(PATIENCE) == 0
    with running(*python(tmp_path / "brightness.py")) as brightness:
        assert run_program(*shlex.split(play)).status == 0
        told, _ = brightness.communicate(timeout=PATIENCE)
    assert told == f"replayed {sum(range(50)):.1f}\n"
    for each in (info, *others):
        assert run_program(*shlex.split(each)).status == 0
    assert len([*(tmp_path / "frames/camera_image").glob("*.npz")]) == 50
    assert len(tb.Recording(tmp_path / "part.mcap")) == 50
    pairs = subprocess.run(
        python(tmp_path / "pairs.py"), capture_output=True, text=True, timeout=3 * PATIENCE
    )
    assert pairs.stdout == "49 1.0\n", pairs.stderr


@pytest.mark.parametrize(("page", "program", "output"), programs_with_output())
def test_a_program_prints_what_its_page_shows(
    tmp_path: Path, page: str, program: str, output: str
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs(page, tmp_path)
    done = subprocess.run(
        python(tmp_path / program),
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": ""},  # lines of two processes stay whole
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE,
    )
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(output.splitlines()))


def test_a_loader_puts_batches_into_the_queue_of_a_trainer(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("training_input", tmp_path)
    with running(*python(tmp_path / "loader.py")) as loader:
        for _ in range(2):  # the loader survives its trainer
            with running(*python(tmp_path / "trainer.py")) as trainer:
                told, _ = trainer.communicate(timeout=4 * PATIENCE)
            assert (told, trainer.returncode) == ("trained on 20 batches\n", 0)
        assert loader.poll() is None
        loader.kill()


def test_weights_are_shared(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("share_weights", tmp_path)
    with running(*python(tmp_path / "weights.py")) as weights:
        assert weights.stdout is not None
        handle = weights.stdout.readline().strip()
        assert set(tb.attach(handle)) == {"weight", "bias"}
        worker = subprocess.run(
            [*python(tmp_path / "worker.py"), handle],
            capture_output=True,
            text=True,
            check=True,
            timeout=3 * PATIENCE,
        )
        weights.communicate("\n", timeout=PATIENCE)
    assert worker.stdout == "torch.Size([512])\n"
    assert weights.returncode == 0


@pytest.mark.parametrize("module", ["tensorbus.multiprocessing", "torch.multiprocessing"])
def test_a_program_runs_over_either_multiprocessing(tmp_path: Path, module: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("leave_torch_multiprocessing", tmp_path)
    program = tmp_path / "program.py"
    text = program.read_text()
    assert "import tensorbus.multiprocessing as mp" in text
    program.write_text(text.replace("tensorbus.multiprocessing", module))
    done = subprocess.run(
        python(program), capture_output=True, text=True, check=False, timeout=3 * PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, "tensor([2., 2., 2.])\n"), done.stderr


def test_the_imports_of_a_cortex_program_are_replaced_by_the_command(tmp_path: Path) -> None:
    page = (PAGES / "port_from_cortex.md").read_text()
    (command,) = re.findall(r"^ *\$ (grep .*)$", page, re.MULTILINE)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=PATIENCE)  # nothing to do
    program = tmp_path / "a node.py"
    program.write_text(
        "from cortex import Node\nfrom cortex.messages.standard import ArrayMessage\nx = 'cortex'\n"
        "import cortex\nimport cortex as bus, sys\nimport cortex.utils.loop as loop\n"
        "def main():\n    import cortex.core.node, os  # first, cortex\n"
        "    import os, cortex\n    import os, cortex as one, sys\n"
        "    import os, cortex.discovery\n    return cortex.core.node.Node\n"
        "assert main() is cortex.Node is bus.Node is Node and loop.run is cortex.run\n"
    )
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=PATIENCE)
    assert program.read_text().splitlines() == [
        "from tensorbus.cortex import Node",
        "from tensorbus.cortex.messages.standard import ArrayMessage",
        "x = 'cortex'",
        "import tensorbus.cortex as cortex",
        "import tensorbus.cortex as bus, sys",
        "import tensorbus.cortex.utils.loop as loop",
        "def main():",
        "    import tensorbus.cortex.core.node, tensorbus.cortex as cortex, os  # first, cortex",
        "    import os, tensorbus.cortex as cortex",
        "    import os, tensorbus.cortex as one, sys",
        "    import os, tensorbus.cortex.discovery, tensorbus.cortex as cortex",
        "    return cortex.core.node.Node",
        "assert main() is cortex.Node is bus.Node is Node and loop.run is cortex.run",
    ]
    exec(compile(program.read_text(), program, "exec"), {})


def test_a_pipeline_is_kept_alive(tmp_path: Path) -> None:
    write_programs("up", tmp_path)
    pipeline = Up(tmp_path / "pipeline.toml")
    try:
        camera = pipeline.state("camera", "running")["pid"]
        pipeline.until(kind="log", process="model", text="frame 0")
        os.kill(camera, signal.SIGSTOP)
        found = pipeline.until(kind="expectation", expectation="model/mean >= 10 Hz", met=False)
        assert found["cause"].startswith(f"camera (pid {camera}) cannot be inspected: no answer")
        os.kill(camera, signal.SIGCONT)
        pipeline.until(kind="expectation", expectation="model/mean >= 10 Hz", met=True)
        os.kill(camera, signal.SIGKILL)
        reason = pipeline.state("camera", "backing off")["reason"]
        assert reason == "killed by SIGKILL, starts again in 0.5 s"
        assert pipeline.state("camera", "running")["restarts"] == 1
    finally:
        status, _ = pipeline.end()
    assert status == 130


def test_check_prints_what_the_page_shows(tmp_path: Path) -> None:
    write_programs("up", tmp_path)
    output = StringIO()
    with redirect_stdout(output):
        assert main(["up", "--check", str(tmp_path / "pipeline.toml")]) == 0
    assert (
        f"tensorbus up --check pipeline.toml\n{output.getvalue()}$ "
        in (PAGES / "up.md").read_text()
    )


def test_a_test_starts_a_pipeline(tmp_path: Path) -> None:
    assert "test_pipeline.py" in write_programs("up", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pipeline.py"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=3 * PATIENCE)
