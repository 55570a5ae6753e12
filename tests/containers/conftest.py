"""Containers of an engine: scripts/deep containers runs these tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.podman import IMAGE, podman
from support.repository import ROOT

BUILT = ROOT / "build/containers"
PAGE = ROOT / "docs/tasks/containers.md"
FILE = re.compile(r"^```\w+\n# ([\w.]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HERE = Path(__file__).parent

# Of the engine: images and containers are not among the machine's own. Networks are: the tests
# make none beside those that podman-compose removes again.
STORAGE = """
[storage]
driver = "overlay"
graphroot = "{0}/storage"
runroot = "{0}/run"
"""
# crun refuses cgroups in hybrid mode; the limits of this process may be lower than the engine's.
ENGINE = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
"""


def why_not() -> str | None:
    """Nobody who just runs the tests has asked for an engine and an image."""
    if "TENSORBUS_CONTAINERS" not in os.environ:
        return "scripts/deep containers runs these tests"
    return None if shutil.which("podman") else "podman is not installed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if reason is not None and HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page."""
    folder = tmp_path_factory.mktemp("robot")
    for name, text in FILE.findall(PAGE.read_text()):
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="session", autouse=True)
def image(files: Path) -> Iterator[None]:
    """What the Containerfile of the page makes, from a Debian that is there already."""
    settings = {"CONTAINERS_STORAGE_CONF": STORAGE.format(BUILT), "CONTAINERS_CONF": ENGINE}
    with pytest.MonkeyPatch.context() as patch:
        for variable, text in settings.items():
            path = files / f"{variable.lower()}.toml"
            path.write_text(text)
            patch.setenv(variable, str(path))
        app = files / "app"
        app.mkdir()
        for program in ("camera.py", "detector.py"):
            shutil.copy(files / program, app)
        tree = subprocess.Popen(
            ["tar", "--create", "--directory", BUILT / "root", ".", "--directory", files, "app"],
            stdout=subprocess.PIPE,
        )
        setting = "ENV PATH=/usr/bin:/bin"
        subprocess.run(
            ["podman", "import", "--quiet", "--change", setting, "-", IMAGE],
            stdin=tree.stdout,
            check=True,
        )
        assert tree.wait() == 0
        yield
        podman("rm", "--all", "--force", "--volumes")
        podman("rmi", "--all", "--force")
    for folder in ("storage", "run"):
        shutil.rmtree(BUILT / folder)
