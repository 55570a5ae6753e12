"""Whether an installed Tensorbus works where nothing else is installed.

python -I scripts/lib/smoke.py    with the Python of the environment that has it
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import tensorbus as tb

PATIENCE = 30.0
NUMBERS = bytes(range(256)) * 4096


def publish() -> None:
    """In the other process."""
    with tb.Publisher("numbers") as publisher:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish({"id": 7, "numbers": memoryview(NUMBERS)})
        sys.stdin.read()  # until what was published is seen


def hear_another_process() -> None:
    with tb.Subscriber("numbers", timeout=PATIENCE) as subscriber:
        other = subprocess.Popen([sys.executable, "-I", __file__, "publish"], stdin=subprocess.PIPE)
        data = subscriber.receive().data
        assert data["id"] == 7
        assert bytes(data["numbers"]) == NUMBERS
        other.communicate(timeout=PATIENCE)
        assert other.returncode == 0


def find_the_cmake_package() -> None:
    command = Path(sys.executable).parent / "tensorbus-config"
    folder = subprocess.check_output([command, "--cmakedir"], text=True).strip()
    assert (Path(folder) / "tensorbusConfig.cmake").is_file(), folder


def look_with_the_command() -> None:
    command = Path(sys.executable).parent / "tensorbus"
    with tb.Publisher("seen"):
        listed = subprocess.check_output([command, "topic", "list"], text=True)
    assert "seen" in listed, listed


def keep_the_gil_off() -> None:
    """Of a Python that has none, the import has not turned it on."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not sys._is_gil_enabled()


def main() -> None:
    keep_the_gil_off()
    # This process is on the bus until it ends, and makes its files again.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as domain:
        os.environ["TENSORBUS_DOMAIN"] = domain
        hear_another_process()
        look_with_the_command()
    find_the_cmake_package()


if __name__ == "__main__":
    publish() if sys.argv[1:] == ["publish"] else main()
