"""The programs of the pages in docs/tasks run, together, as the pages say."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, redirect_stdout
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from shutil import which

import pytest

import tensorbus as tb
from support.cpp_programs import WHY_NO_CUDA, build
from support.cuda import standin
from support.harness import PATIENCE, eventually
from support.repository import ROOT
from tensorbus._cli.command import main

PAGES = ROOT / "docs/tasks"
# What a person waits for is not enough for a machine that does much else.
PATIENT = {"timeout=5)": "timeout=60)", "seconds(5)": "seconds(60)", "seconds(10)": "seconds(60)"}
PATIENT |= {"range(100)": "range(1000)", "PATIENCE = 10.0": "PATIENCE = 600.0"}
# Each worker imports PyTorch, which takes most of the time.
PATIENT |= {"WORKERS = 2": "WORKERS = 1"}
# What a C++ program writes into a pipe is seen at once, and not when there is much of it.
PATIENT |= {r"<< '\n'": "<< std::endl"}
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


# Pages whose programs end by themselves. A block of text is what those print that precede it.
SHOWN = ("which_primitive", "from_shared_memory", "training_input")
OUTPUT = re.compile(r"^```(?:python\n# ([\w.]+)\n|text\n(.*?)^```$)", re.DOTALL | re.MULTILINE)


def programs_with_output() -> list[tuple[str, str, str]]:
    """Page, program, and the output that the page shows."""
    found = []
    for page in SHOWN:
        programs: list[str] = []
        for program, output in OUTPUT.findall((PAGES / f"{page}.md").read_text()):
            if program:
                programs.append(program)
            else:
                found += [(page, each, output) for each in programs]
                programs = []
    return found


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
    tests = Path(__file__).read_text() + " ".join(each for _, each, _ in programs_with_output())
    assert len(programs) > 6
    # test_camera.py is run by tests/python/domain/test_pytest_plugin.py; compose.yaml and pod.yaml
    # are by tests/containers, which make the image of Containerfile.
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


def test_the_programs_of_containers_without_containers(folder: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("containers", folder)
    with (
        running(*python(folder / "detector.py")) as detector,
        running(*python(folder / "camera.py")) as camera,
    ):
        found, _ = detector.communicate(timeout=3 * PATIENCE)
        assert camera.wait(PATIENCE) == 0
    assert found == "200 images, the last of 199\n"


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


def http(place: Path, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """The status and the body that a web server on a Unix socket answers."""
    with closing(HTTPConnection("localhost")) as connection:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(place))
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def listens(place: Path) -> bool:
    """Says whether a process accepts connections there: the socket's file is older than that."""
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        return connection.connect_ex(str(place)) == 0


def is_noticed_to_leave(web: subprocess.Popen[str], place: Path, image: bytes) -> bool:
    """An HTTP client closes its connection soon after its request: does the handler print that?"""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
        head = f"POST /classify HTTP/1.1\r\nHost: a\r\nContent-Length: {len(image)}\r\n\r\n"
        client.sendall(head.encode() + image)
        select.select([client], [], [], 0.2)
    assert web.stdout is not None
    readable, _, _ = select.select([web.stdout], [], [], 1)
    return bool(readable) and web.stdout.readline() == "the client is gone\n"


@pytest.mark.slow
def test_a_web_server_whose_service_is_killed(folder: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    write_programs("web_servers", folder)
    place = folder / "web.sock"
    server = (sys.executable, "-m", "uvicorn", "--app-dir", folder, "web:app")
    server += ("--uds", place, "--no-access-log")
    image = bytes(4 * 3 * 32 * 32)

    def classify(_: int) -> tuple[int, int]:
        status, body = http(place, "POST", "/classify", image)
        return status, len(json.loads(body))

    with running(*server) as web, ThreadPoolExecutor(16) as clients:
        with running(*python(folder / "classifier.py")) as service:
            eventually(lambda: listens(place))
            while http(place, "GET", "/ready")[0] != 200:  # each waits for a second
                pass
            assert set(clients.map(classify, range(100))) == {(200, 10)}
            assert http(place, "POST", "/classify", b"short")[0] == 400
            service.send_signal(signal.SIGSTOP)
            answers = clients.map(classify, range(16))
            eventually(lambda: is_noticed_to_leave(web, place, image))
        with running(*python(folder / "classifier.py")):  # the first one was killed
            assert set(answers) == {(200, 10)}


def worker_among(children: list[str]) -> int:
    """The first worker of a pool: other children are helpers of multiprocessing."""
    command = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return min(pid for pid, line in command.items() if b"spawn_main" in line)


def test_a_queue_that_a_keeper_owns(folder: Path) -> None:
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("running", folder)
    with (
        running(*python(folder / "keeper.py")) as keeper,
        running(sys.executable, "-u", folder / "worker.py") as worker,
    ):
        subprocess.run(python(folder / "producer.py"), check=True, timeout=3 * PATIENCE)
        assert worker.stdout is not None
        for number in range(10):
            assert worker.stdout.readline() == f"job {number} (480, 640)\n"
        keeper.send_signal(signal.SIGTERM)
        assert (worker.wait(3 * PATIENCE), keeper.wait(3 * PATIENCE)) == (0, 0)


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(folder: Path) -> None:
    page = (PAGES / "running.md").read_text()
    units = re.findall(r"^```ini\n# (robot[@.]\S+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for name, text in units:
        text = text.replace("/opt/robot/venv/bin/python", sys.executable)
        (folder / name.replace("@", "@worker")).write_text(text)
    command = ("systemd-analyze", "verify", *(folder.iterdir()))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (len(units), done.returncode, "robot" in done.stderr) == (2, 0, False), done.stderr


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


def test_the_commands_that_see_what_is_going_on(folder: Path) -> None:
    pytest.importorskip("typer", reason="typer is not installed")
    pytest.importorskip("numpy", reason="NumPy is not installed")
    write_programs("see", folder)
    page = (PAGES / "see.md").read_text()
    commands = re.findall(r"^\$ tensorbus (?!metrics)(.*)", page, re.M)
    assert len(commands) > 20
    with running(*python(folder / "camera.py")) as camera:
        assert tb.wait_for_node("camera", timeout=PATIENCE)
        with tb.Client("mean", timeout=PATIENCE) as client:
            assert client.call_sync([2.0]) == 2.0  # it runs
        said = {}
        for command in commands:
            patience = "--wait" if command.startswith("topic pub") else "--timeout"
            with redirect_stdout(StringIO()) as output:
                assert main([*shlex.split(command), patience, str(PATIENCE)]) == 0, command
            said[command] = output.getvalue()
        camera.send_signal(signal.SIGTERM)
        heard, _ = camera.communicate(timeout=PATIENCE)
    shown = re.findall(r"^\$ tensorbus (param set .*|service call .*)\n(.*\n)", page, re.M)
    assert shown == [(command, said[command]) for command, _ in shown] != []
    assert said["topic list"].splitlines()[1].split() == ["camera/image", "1", "0"]
    assert heard.startswith("speed 1.5\nspeed 2.5\n")


def test_a_camera_is_recorded_and_replayed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer", reason="typer is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("record_and_replay", folder)
    monkeypatch.chdir(folder)
    page = (PAGES / "record_and_replay.md").read_text()
    record, info, play, *others = re.findall(r"^\$ tensorbus (.*)", page, re.M)
    command = (sys.executable, "-m", "tensorbus")
    with subprocess.Popen([*command, *shlex.split(record)], stderr=subprocess.PIPE) as recorder:
        assert recorder.stderr is not None
        assert recorder.stderr.readline().startswith(b"recording to ")
        with running(*python(folder / "recorded_camera.py")) as camera:
            assert camera.wait(PATIENCE) == 0
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(PATIENCE) == 0
    with running(*python(folder / "brightness.py")) as brightness:
        assert main(shlex.split(play)) == 0
        told, _ = brightness.communicate(timeout=PATIENCE)
    assert told == f"replayed {sum(range(50)):.1f}\n"
    for each in (info, *others):
        assert main(shlex.split(each)) == 0
    assert len([*(folder / "frames/camera_image").glob("*.npz")]) == 50
    assert len(tb.Recording(folder / "part.mcap")) == 50
    pairs = subprocess.run(
        python(folder / "pairs.py"), capture_output=True, text=True, timeout=3 * PATIENCE
    )
    assert pairs.stdout == "49 1.0\n", pairs.stderr


@pytest.mark.parametrize(("page", "program", "output"), programs_with_output())
def test_a_program_prints_what_its_page_shows(
    folder: Path, page: str, program: str, output: str
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs(page, folder)
    done = subprocess.run(
        python(folder / program),
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": ""},  # lines of two processes stay whole
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE,
    )
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(output.splitlines()))


def test_a_loader_puts_batches_into_the_queue_of_a_trainer(folder: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("training_input", folder)
    with (
        running(*python(folder / "loader.py")) as loader,
        running(*python(folder / "trainer.py")) as trainer,
    ):
        told, _ = trainer.communicate(timeout=4 * PATIENCE)
        assert (loader.wait(4 * PATIENCE), trainer.returncode) == (0, 0)
    assert told == "trained on 20 batches\n"


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


NO_GPU = {  # PyTorch has none here: an array of the stand-in's takes the place of its tensor
    'frame = torch.rand(480, 640, device="cuda")': """from support.cuda.standin import Array, Stream
stream = Stream()
frame = Array(480 * 640 * 4)
stream.write(frame, 0x3F)
stream.synchronize()""",
    "torch.cuda.synchronize()": "",
    "publisher.publish(frame)": "publisher.publish(frame, stream=stream)",
    "timeout=5": "timeout=60",
}
OF_STANDIN = "0.747059\n"  # the float of these bytes


@pytest.fixture
def over_standin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the programs of cuda_ipc, for processes that have the stand-in."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for name, value in standin.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/python"))
    for name in write_programs("cuda_ipc", folder):
        program = folder / name
        for gpu, without in NO_GPU.items():
            program.write_text(program.read_text().replace(gpu, without))
    return folder


def over_driver(program: Path, *flags: str) -> Path:
    """A program of CUDA's runtime, with a small one that runs over the stand-in."""
    built = program.with_suffix("")
    headers = ("-isystem", ROOT / "tests/cuda/runtime", "-Wall", "-Wextra", "-Werror")
    driver = (standin.LIBRARY, f"-Wl,-rpath,{standin.LIBRARY.parent}")
    command = ("c++", "-std=c++20", *headers, program, "-o", built, *flags, *driver)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.slow
@standin.needs_standin
def test_a_handle_of_a_cuda_program_is_opened_in_python_and_cpp(over_standin: Path) -> None:
    handle = over_standin / "handle"
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    flags = subprocess.check_output([config, "--cflags", "--libs"], text=True).split()
    show = over_driver(over_standin / "show.cpp", *flags)
    with running(over_driver(over_standin / "render.cpp"), handle) as render:
        assert render.stdout is not None
        assert render.stdout.readline() == "ready\n"
        for reader, said in (
            (python(over_standin / "view.py"), "(480, 640) cuda:0\n"),
            ((show,), "0.5\n"),
        ):
            assert subprocess.check_output([*reader, handle], text=True) == said
        render.communicate("\n", timeout=PATIENCE)
    assert render.returncode == 0
    late = subprocess.run([show, handle], capture_output=True, text=True, check=False)
    assert (late.returncode, "the handle refers to no memory" in late.stderr) == (1, True)


@standin.needs_standin
def test_a_handle_of_a_tensor_is_opened_by_a_cuda_program(over_standin: Path) -> None:
    handle = over_standin / "handle"
    take = over_driver(over_standin / "take.cpp")
    with running(*python(over_standin / "give.py"), handle) as give:
        assert give.stdout is not None
        assert give.stdout.readline() == "ready\n"
        assert subprocess.check_output([take, handle], text=True) == OF_STANDIN
        give.communicate("\n", timeout=PATIENCE)
    assert give.returncode == 0


@standin.needs_standin
def test_the_same_frame_on_a_topic(over_standin: Path) -> None:
    with (
        running(*python(over_standin / "publish.py")) as publish,
        running(*python(over_standin / "receive.py")) as receive,
    ):
        said, _ = receive.communicate(timeout=3 * PATIENCE)
        publish.communicate("\n", timeout=PATIENCE)
    assert said == "(1228800,) cuda:0\n"  # the array of the stand-in is one of bytes
    assert (publish.returncode, receive.returncode) == (0, 0)


@pytest.mark.slow
@pytest.mark.skipif(WHY_NO_CUDA is not None, reason=str(WHY_NO_CUDA))
def test_cudas_compiler_takes_the_programs_of_raw_handles(folder: Path) -> None:
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    flags = subprocess.check_output([config, "--cflags"], text=True).split()
    for name in write_programs("cuda_ipc", folder):
        if not name.endswith(".cpp"):
            continue
        command = ("nvcc", "-std=c++20", "-x", "cu", *flags, "-c", folder / name)
        done = subprocess.run([*command, "-o", folder / "object.o"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_imports_of_a_cortex_program_are_replaced_by_the_command(folder: Path) -> None:
    page = (PAGES / "port_from_cortex.md").read_text()
    (command,) = re.findall(r"^ *\$ (grep .*)$", page, re.MULTILINE)
    subprocess.run(command, shell=True, cwd=folder, check=True, timeout=PATIENCE)  # nothing to do
    program = folder / "a node.py"
    program.write_text(
        "from cortex import Node\nfrom cortex.messages.standard import ArrayMessage\nx = 'cortex'\n"
        "import cortex\nimport cortex as bus, sys\nimport cortex.utils.loop as loop\n"
        "def main():\n    import cortex.core.node, os  # first, cortex\n"
        "    import os, cortex\n    import os, cortex as one, sys\n"
        "    import os, cortex.discovery\n    return cortex.core.node.Node\n"
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
        "    import tensorbus.cortex.core.node, tensorbus.cortex as cortex, os  # first, cortex",
        "    import os, tensorbus.cortex as cortex",
        "    import os, tensorbus.cortex as one, sys",
        "    import os, tensorbus.cortex.discovery, tensorbus.cortex as cortex",
        "    return cortex.core.node.Node",
        "assert main() is cortex.Node is bus.Node is Node and loop.run is cortex.run",
    ]
    exec(compile(program.read_text(), program, "exec"), {})
