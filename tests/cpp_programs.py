"""C++ projects of others, built against the installed package."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path


def build(project: Path, folder: Path, *options: str) -> Path:
    """Where its programs are: in this folder, which is empty at first."""
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    found = subprocess.check_output([config, "--cmakedir"], text=True).strip()
    configure = ["cmake", "-S", project, "-B", folder, "-G", "Ninja", f"-Dtensorbus_DIR={found}"]
    for command in ([*configure, *options], ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def torch_options() -> list[str]:
    """For a project that asks for libtorch: that of the PyTorch which is installed."""
    import torch

    return [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"]
