"""Containers of Podman, from an image that tests/containers/conftest.py makes."""

from __future__ import annotations

import subprocess

IMAGE = "localhost/robot"


def podman(*words: str) -> str:
    """What a command of the engine prints."""
    ended = subprocess.run(["podman", *words], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
