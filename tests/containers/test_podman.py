"""docs/tasks/containers.md with a container engine: its files, limits of memory, refused calls."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from support.harness import PATIENCE
from support.podman import IMAGE, podman
from tensorbus._up.deploy.compose import compose
from tensorbus._up.schema import load

pytestmark = pytest.mark.timeout(300)

SEEN = "200 images, the last of 199"
# A root that cannot be written, no capabilities, no network, the engine's own seccomp profile.
CONFINED = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none"]
CONFINED += ["--user=1000:1000", "--env=TENSORBUS_DOMAIN=/bus/robot", "--interactive", "--rm"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine leaves a file "oom" in its working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bus() -> Iterator[str]:
    """A volume that user 1000 may write to."""
    options = ["--opt=type=tmpfs", "--opt=device=tmpfs", "--opt=o=uid=1000,mode=700"]
    podman("volume", "create", *options, "bus")
    yield "bus"
    podman("volume", "rm", "--force", "bus")


@contextmanager
def container(program: str, bus: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = ["podman", "run", *CONFINED, f"--volume={bus}:/bus", *options, IMAGE]
    with subprocess.Popen(
        [*command, "python3", "-u", "-c", dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_compose_file(files: Path) -> None:
    command = ["podman-compose", "--file", str(files / "compose.yaml")]
    up = subprocess.run([*command, "up"], check=False, capture_output=True, text=True)
    subprocess.run([*command, "down", "--volumes"], check=True, capture_output=True)
    assert SEEN in up.stdout, up.stdout + up.stderr


PIPELINE = """
[process.camera]
run = "python3 camera.py"
[process.detector]
run = ["sh", "-c", "echo \\"$0\\" $A; exec python3 detector.py", "$HOME ${X}"]
env = { A = "50 % of $X" }
"""


def test_a_pipeline(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "pipeline.toml").write_text(PIPELINE)
    (files / "pipeline.yaml").write_text(compose(load(files / "pipeline.toml")))
    monkeypatch.setenv("TENSORBUS_IMAGE", IMAGE)
    command = ["podman-compose", "--file", str(files / "pipeline.yaml")]
    up = subprocess.run([*command, "up"], check=False, capture_output=True, text=True)
    subprocess.run([*command, "down", "--volumes"], check=True, capture_output=True)
    for line in ("$HOME ${X} 50 % of $X", SEEN):
        assert line in up.stdout, up.stdout + up.stderr


def test_the_pod(files: Path) -> None:
    pod = str(files / "pod.yaml")
    podman("kube", "play", "--network=none", pod)
    codes = podman("wait", "robot-camera", "robot-detector")
    heard = podman("logs", "robot-detector")
    (camera,) = json.loads(podman("inspect", "robot-camera"))
    podman("kube", "down", pod)
    assert heard == f"{SEEN}\n"
    assert codes.split() == ["0", "0"]
    assert camera["HostConfig"]["ReadonlyRootfs"]
    assert camera["HostConfig"]["Memory"] == 512 * 2**20


def test_a_confined_container_can_do_what_is_needed(bus: str) -> None:
    examine = """
        import sys
        from tensorbus.doctor import examine
        print(open("/proc/self/status").read())
        report = examine()
        sys.exit(str(report.host) if not report.host.can_share else 0)
    """
    with container(examine, bus) as inside:
        said, _ = inside.communicate(timeout=PATIENCE)
    assert "Seccomp:\t2" in said
    assert "CapEff:\t0000000000000000" in said
    assert inside.returncode == 0, said


# TENSORBUS_BUDGET has room for two images: the third is the memory of the first, which came back.
PUBLISHER = """
    import tensorbus as tb

    with tb.Publisher("image", reliable=True) as publisher:
        publisher.wait_for_subscribers(2)
        for number in range(3):
            image = publisher.loan((16, 1024, 1024), dtype="uint8", timeout=30)
            image[:] = number
            publisher.publish(image)
            del image
            input()
        print("done")
"""

READER = """
    import tensorbus as tb

    for sample in tb.Subscriber("image", end_of_stream=True):
        print(sample.data.mean())
"""

GLUTTON = """
    import tensorbus as tb

    sample = tb.Subscriber("image").receive()
    print("holds")
    input()
    hoard = []
    while True:
        hoard.append(bytearray(b"x") * 2**24)
"""


def test_a_container_out_of_memory_harms_no_other(bus: str) -> None:
    limit = ["--memory=96m", "--memory-swap=96m"]
    with (
        container(
            PUBLISHER, bus, "--memory=512m", f"--env=TENSORBUS_BUDGET={40 * 2**20}"
        ) as publisher,
        container(READER, bus) as reader,
        container(GLUTTON, bus, *limit) as glutton,
    ):
        assert (line_of(glutton), line_of(reader)) == ("holds\n", "0.0\n")
        glutton.communicate("\n", timeout=PATIENCE)
        assert glutton.returncode == 137  # the kernel's OOM killer
        said, _ = publisher.communicate("\n\n\n", timeout=PATIENCE)
        assert said == "done\n"
        assert reader.communicate(timeout=PATIENCE)[0] == "1.0\n2.0\n"
    assert reader.returncode == 0


def test_a_publisher_is_told_of_its_containers_limit(bus: str) -> None:
    filling = """
        import tensorbus as tb

        publisher = tb.Publisher("image")
        loans = []
        try:
            while True:
                loans.append(publisher.loan((2**22,), dtype="uint8"))
                loans[-1][:] = 1
        except tb.OutOfMemory as error:
            print(len(loans), error)
    """
    with container(filling, bus, "--memory=256m", "--memory-swap=256m") as inside:
        said, _ = inside.communicate(timeout=PATIENCE)
    assert inside.returncode == 0, said
    assert 20 < int(said.split()[0]) < 64, said
    assert "cgroup" in said
