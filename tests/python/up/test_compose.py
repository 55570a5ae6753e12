"""A file of Compose: what is in it, and that Compose's schema accepts it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
from support.screens.commands import Done
from tensorbus._cli.command import main
from tensorbus._up.deploy.compose import compose
from tensorbus._up.schema import load

Write = Callable[..., Path]

HARD = [
    "a b",
    "",
    "$HOME ${X} $$",
    "\"'\\ \n\t",
    "\u0001\u007f\u0085\u2028",
    "mod\u00e8le \U0001f600",
]
PIPELINE = f"""
name = "Robot"
domain = "/run/robot/bus"
on_failure = "stop"
[process.camera]
run = {json.dumps(["python", "camera.py", *HARD[:4]])}
cwd = "../programs"
env = {{ A = "5 $HOME" }}
provides = ["camera/image"]
restart = "always"
cpus = "0-1"
nice = 3

[process.model]
run = "python model.py"
after = ["camera/image", "queue:jobs"]
replicas = 2
restart = "on-failure"
stop_signal = "SIGINT"
stop_timeout = "500ms"
provides = ["model/mean"]
expect = {{ "model/mean" = ">= 10 Hz" }}
"""


def interpolated(value: Any) -> Any:
    """What Compose makes of `$`; no variable may be left."""
    if isinstance(value, str):
        assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", value), value
        return value.replace("$$", "$")
    if isinstance(value, dict):
        return {key: interpolated(each) for key, each in value.items()}
    return [*map(interpolated, value)] if isinstance(value, list) else value


def services(path: Path) -> dict[str, Any]:
    """The services of a pipeline's file, without their image."""
    found = json.loads(compose(load(path)))["services"]
    images = {service.pop("image") for service in found.values()}
    assert images == {"${TENSORBUS_IMAGE:?an image that can run the programs}"}
    return {name: interpolated(service) for name, service in found.items()}


def test_the_services_say_what_the_file_says(write: Write, tmp_path: Path) -> None:
    found = services(write(PIPELINE))
    assert [*found] == ["camera", "model.1", "model.2"]
    user = f"{os.getuid()}:{os.getgid()}"
    bus = {"type": "volume", "source": "bus", "target": "/bus"}
    folder, programs = (
        {"type": "bind", "source": str(each), "target": str(each)}
        for each in (tmp_path, tmp_path.parent / "programs")
    )
    assert found["camera"] == {
        "command": ["python", "camera.py", *HARD[:4]],
        "working_dir": str(tmp_path.parent / "programs"),
        "environment": {
            "PYTHONUNBUFFERED": "1",
            "TENSORBUS_REPLICA": "1",
            "A": "5 $HOME",
            "TENSORBUS_DOMAIN": "/bus/%2Frun%2Frobot%2Fbus",
        },
        "user": user,
        "init": True,
        "restart": "always",
        "stop_signal": "SIGTERM",
        "stop_grace_period": "10s",
        "volumes": [bus, folder, programs],
        "cpuset": "0,1",
        "healthcheck": {
            "test": ["CMD", "tensorbus", "wait", "--timeout", "0", "--", "camera/image"],
            "interval": "5s",
            "start_period": "24h",
        },
    }
    assert found["model.2"] == {
        "command": ["python", "model.py"],
        "working_dir": str(tmp_path),
        "environment": {
            "PYTHONUNBUFFERED": "1",
            "TENSORBUS_REPLICA": "2",
            "TENSORBUS_DOMAIN": "/bus/%2Frun%2Frobot%2Fbus",
        },
        "user": user,
        "init": True,
        "restart": "on-failure",
        "stop_signal": "SIGINT",
        "stop_grace_period": "0.5s",
        "volumes": [bus, folder],
        "depends_on": {"camera": {"condition": "service_healthy"}},
    }


def test_one_bus_for_all(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBUS_DOMAIN", "robot")
    path = write("[process.a]\nrun = 'true'\n[process.b]\nrun = 'true'\ndomain = 'other'")
    file = json.loads(compose(load(path)))
    domains = {
        name: each["environment"]["TENSORBUS_DOMAIN"] for name, each in file["services"].items()
    }
    assert domains == {"a": "/bus/robot", "b": "/bus/other"}
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"uid={os.getuid()},mode=700"}
    assert file["volumes"] == {"bus": {"driver_opts": options}}


def written(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Done, Path]:
    """The command, and the file that it has written."""
    file = path.parent / "compose.yaml"
    capsys.readouterr()
    status = main(["up", "--compose", str(file), str(path)])
    said = capsys.readouterr()
    return Done(status, said.out, said.err), file


def test_the_command_says_what_compose_lacks(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    done, file = written(write(PIPELINE), capsys)
    assert (done.status, done.out) == (0, f"{file}\n")
    lacks = [
        "delays and limits of restarts",
        "on_failure",
        "camera: nice",
        "model.1: after queue:jobs",
        "model.1: expect model/mean >= 10 Hz",
        "model.2: after queue:jobs",
        "model.2: expect model/mean >= 10 Hz",
    ]
    assert done.err == f"tensorbus: Compose has no {'; '.join(lacks)}\n"
    assert json.loads(file.read_text())["x-tensorbus"]["not-in-it"] == lacks


def test_a_name_that_compose_lacks_is_refused(write: Write) -> None:
    path = write("[process.'mod\u00e8le']\nrun = 'true'")
    with pytest.raises(tb.InvalidArgument, match=r"process\.mod\u00e8le: Compose has no services"):
        compose(load(path))


def test_it_is_yaml_too(write: Write) -> None:
    yaml = pytest.importorskip("yaml")
    words = ", ".join('"' + "".join(f"\\U{ord(each):08x}" for each in word) + '"' for word in HARD)
    path = write(f"[process.a]\nrun = ['true', {words}]")
    text = compose(load(path))
    assert yaml.safe_load(text) == json.loads(text)
    assert services(path)["a"]["command"] == ["true", *HARD]


def test_the_schema_of_compose_accepts_it(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("check_jsonschema")
    _, file = written(write(PIPELINE), capsys)
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*check, str(file)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout
