"""The programs of the pages in docs/tasks run, together, as the pages say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tensorbus as tb
from support.cpp_programs import build
from support.harness import PATIENCE
from support.repository import ROOT

PAGES = ROOT / "docs/tasks"
# What a person waits for is not enough for a machine that does much else.
PATIENT = {"timeout=5)": "timeout=60)", "seconds(5)": "seconds(60)", "seconds(10)": "seconds(60)"}
PATIENT |= {"range(100)": "range(1000)"}
# Then the worker that is killed is the one that has its model, and does not start any more.
PATIENT |= {"workers=2, initializer": "workers=1, initializer"}
PROGRAM = re.compile(r"^```\w+\n(?:#|//) ([\w.]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


pytestmark = pytest.mark.timeout(600)  # it compiles, also where others do


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the programs of a page are."""
    return tmp_path


def write_programs(page: str, folder: Path) -> list[str]:
    """Those whose first line is a comment that names their file."""
    programs = dict(PROGRAM.findall((PAGES / f"{page}.md").read_text()))
    for name, text in programs.items():
        for hasty, patient in PATIENT.items():
            text = text.replace(hasty, patient)
        (folder / name).write_text(text)
    return sorted(programs)


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def python(program: Path) -> tuple[str, Path]:
    return sys.executable, program


def built(page: str, program: str, folder: Path) -> Path:
    """A C++ program of a page, built with what getting_started says."""
    write_programs("getting_started", folder)
    write_programs(page, folder)
    lists = folder / "CMakeLists.txt"
    lists.write_text(re.sub(r"\bsubscriber\b", program, lists.read_text()))
    return build(folder, folder / "build") / program


def test_every_program_is_run_here(tmp_path: Path) -> None:
    programs = [
        name for page in sorted(PAGES.glob("*.md")) for name in write_programs(page.stem, tmp_path)
    ]
    tests = Path(__file__).read_text()
    assert len(programs) > 6
    # test_camera.py is run by tests/python/domain/test_pytest_plugin.py.
    assert [name for name in programs if name.split(".")[0] not in tests] == []


def test_getting_started_in_python(folder: Path) -> None:
    write_programs("getting_started", folder)
    with (
        running(*python(folder / "publisher.py")),
        running(*python(folder / "subscriber.py")) as heard,
    ):
        assert heard.stdout is not None
        assert re.fullmatch(r"\d+ \(480, 640, 3\) \[(\d+) \1 \1\]\n", heard.stdout.readline())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_getting_started_in_cpp(folder: Path) -> None:
    program = built("getting_started", "subscriber", folder)
    with running(*python(folder / "publisher.py")), running(program) as heard:
        assert heard.stdout is not None
        assert re.fullmatch(r"(\d+) \1\n", heard.stdout.readline())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_model_in_a_cpp_pipeline(folder: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    program = built("model_in_cpp_pipeline", "pipeline", folder)
    with running(*python(folder / "model.py")), running(program) as pipeline:
        output, _ = pipeline.communicate(timeout=3 * PATIENCE)
    assert pipeline.returncode == 0
    assert [line.split(":")[0] for line in output.splitlines()] == [str(n) for n in range(10)]


def test_a_camera_pipeline(folder: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("camera_pipeline", folder)
    with (
        running(*python(folder / "viewer.py")) as viewer,
        running(*python(folder / "detector.py")) as detector,
        running(*python(folder / "camera.py")) as camera,
    ):
        found, _ = detector.communicate(timeout=3 * PATIENCE)
        assert camera.wait(PATIENCE) == 0
        seen, _ = viewer.communicate(timeout=PATIENCE)
    assert found == "200 frames, 0 missed\n"
    assert re.fullmatch(r"(viewer: \d+ \(1080, 1920, 3\)\n)*", seen)


def test_an_inference_service_whose_worker_is_killed(folder: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("inference_service", folder)
    with running(*python(folder / "service.py")) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "ready\n"
        children = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
        client = subprocess.Popen(python(folder / "client.py"), stdout=subprocess.PIPE, text=True)
        os.kill(worker_among(children), signal.SIGKILL)
        told, _ = client.communicate(timeout=3 * PATIENCE)
        service.send_signal(signal.SIGINT)
        service.wait(PATIENCE)
    assert (client.returncode, told) == (0, "(8, 10) 8.0\n")


def worker_among(children: list[str]) -> int:
    """The first worker of a pool: other children are helpers of multiprocessing."""
    command = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return min(pid for pid, line in command.items() if b"spawn_main" in line)


def test_actors_and_a_learner(folder: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("rl_actors", folder)
    with (
        running(*python(folder / "learner.py")) as learner,
        running(*python(folder / "actor.py")) as one,
        running(*python(folder / "actor.py")) as other,
    ):
        told, _ = learner.communicate(timeout=3 * PATIENCE)
        ends = [actor.communicate(timeout=3 * PATIENCE)[0] for actor in (one, other)]
    assert told == "trained 20 times\n"
    assert all(re.fullmatch(r"the last policy was \d+\n", end) for end in ends)
    assert (learner.returncode, one.returncode, other.returncode) == (0, 0, 0)


def test_weights_are_shared(folder: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("share_weights", folder)
    with running(*python(folder / "weights.py")) as weights:
        assert weights.stdout is not None
        handle = weights.stdout.readline().strip()
        assert set(tb.attach(handle)) == {"weight", "bias"}
        worker = subprocess.run(
            [*python(folder / "worker.py"), handle],
            capture_output=True,
            text=True,
            check=True,
            timeout=3 * PATIENCE,
        )
        weights.communicate("\n", timeout=PATIENCE)
    assert worker.stdout == "torch.Size([512])\n"
    assert weights.returncode == 0


@pytest.mark.parametrize("module", ["tensorbus.multiprocessing", "torch.multiprocessing"])
def test_a_program_runs_over_either_multiprocessing(folder: Path, module: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("leave_torch_multiprocessing", folder)
    program = folder / "program.py"
    text = program.read_text()
    assert "import tensorbus.multiprocessing as mp" in text
    program.write_text(text.replace("tensorbus.multiprocessing", module))
    done = subprocess.run(
        python(program), capture_output=True, text=True, check=False, timeout=3 * PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, "tensor([2., 2., 2.])\n"), done.stderr


def test_the_imports_of_a_cortex_program_are_replaced_by_the_command(folder: Path) -> None:
    page = (PAGES / "port_from_cortex.md").read_text()
    (command,) = re.findall(r"^ *\$ (grep .*)$", page, re.MULTILINE)
    program = folder / "node.py"
    program.write_text(
        "from cortex import Node\nfrom cortex.messages.standard import ArrayMessage\nx = 'cortex'\n"
        "import cortex\nimport cortex as bus, sys\nimport cortex.utils.loop as loop\n"
        "def main():\n    import cortex.core.node, os\n    return cortex.core.node.Node\n"
        "assert main() is cortex.Node is bus.Node is Node and loop.run is cortex.run\n"
    )
    subprocess.run(command, shell=True, cwd=folder, check=True, timeout=PATIENCE)
    assert program.read_text().splitlines() == [
        "from tensorbus.cortex import Node",
        "from tensorbus.cortex.messages.standard import ArrayMessage",
        "x = 'cortex'",
        "import tensorbus.cortex as cortex",
        "import tensorbus.cortex as bus, sys",
        "import tensorbus.cortex.utils.loop as loop",
        "def main():",
        "    import tensorbus.cortex.core.node, tensorbus.cortex as cortex, os",
        "    return cortex.core.node.Node",
        "assert main() is cortex.Node is bus.Node is Node and loop.run is cortex.run",
    ]
    exec(compile(program.read_text(), program, "exec"), {})
