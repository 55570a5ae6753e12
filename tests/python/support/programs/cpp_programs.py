"""C++ projects of others, built against the installed package, and their programs."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.harness import SANITIZED
from support.repository import ROOT

EXAMPLES = ROOT / "examples"

MARKS = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # it compiles, also where others do
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="examples are not here"),
]

# None: CMake finds CUDA's compiler, which does not survive the sanitizer's library.
WHY_NO_CUDA = (
    "CUDA's compiler is not installed"
    if shutil.which("nvcc") is None
    else "CUDA's compiler ends beside the sanitizer"
    if SANITIZED
    else None
)


def cmake_package() -> str:
    """The folder of the installed CMake package."""
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    return subprocess.check_output([config, "--cmakedir"], text=True).strip()


def build(project: Path, folder: Path, *options: str) -> Path:
    """Where its programs are: in this folder."""
    package = f"-Dtensorbus_DIR={cmake_package()}"
    configure = ["cmake", "-S", project, "-B", folder, "-G", "Ninja", package]
    # Two at a time, and not as many as Ninja likes: other tests compile beside this one.
    for command in ([*configure, *options], ["cmake", "--build", folder, "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def torch_options() -> list[str]:
    """For a project that asks for libtorch: that of the PyTorch which is installed."""
    import torch

    return [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"]


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()  # some would go on for a while
