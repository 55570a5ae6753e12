"""The programs of examples/cpp, built against the installed package."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "cpp"

MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXAMPLE.is_dir(), reason="examples/cpp is not here"),
]


def build(folder: Path) -> None:
    config = Path(sysconfig.get_path("scripts")) / "tensorbus-config"
    package = subprocess.check_output([config, "--cmakedir"], text=True).strip()
    for command in (
        ["cmake", "-S", EXAMPLE, "-B", folder, "-G", "Ninja", f"-Dtensorbus_DIR={package}"],
        ["cmake", "--build", folder],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running(program: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()  # most would go on for a while
