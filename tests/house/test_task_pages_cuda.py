"""The programs of the page about handles of CUDA memory."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

from support.cuda import standin
from support.harness import PATIENCE
from support.programs.cpp_programs import WHY_NO_CUDA
from support.programs.task_pages import python, running, write_programs
from support.repository import ROOT

pytestmark = pytest.mark.timeout(600)  # it compiles, also where others do

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
def over_standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the programs of cuda_ipc, for processes that have the stand-in."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for name, value in standin.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/python"))
    for name in write_programs("cuda_ipc", tmp_path):
        program = tmp_path / name
        for gpu, without in NO_GPU.items():
            program.write_text(program.read_text().replace(gpu, without))
    return tmp_path


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
def test_cudas_compiler_takes_the_programs_of_raw_handles(tmp_path: Path) -> None:
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    flags = subprocess.check_output([config, "--cflags"], text=True).split()
    for name in write_programs("cuda_ipc", tmp_path):
        if not name.endswith(".cpp"):
            continue
        command = ("nvcc", "-std=c++20", "-x", "cu", *flags, "-c", tmp_path / name)
        done = subprocess.run(
            [*command, "-o", tmp_path / "object.o"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
