"""Tensors of Ray's actors go by reference, unchanged, and leave nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.in_ray.driver import START, Driver
from support.repository import ROOT

pytestmark = [
    pytest.mark.slow,  # Ray and its workers start
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed"),
]

SIZE = 1 << 18  # elements of the tensors of `checks.py`
MODULE = "support.in_ray.checks"
CHECKS = re.findall(
    r"^def check_(\w+)", (ROOT / "tests/python/support/in_ray/checks.py").read_text(), re.MULTILINE
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("ray"))
    yield driver
    driver.finish()


@pytest.mark.parametrize("check", CHECKS)
def test_in_ray(driver: Driver, check: str) -> None:
    driver.run(MODULE, f"check_{check}")


# A job of the same user, with code of its own, whose second actor has a domain of its own.
OTHER_JOB = """
import ray
import sys
import tensorbus as tb
import tensorbus.ray
import torch

tensorbus.ray.register()


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Model:
    def answer(self, *tensors):
        import model

        topics = [topic.name for topic in tb.list_topics()]
        return model.VERSION, [float(each.sum()) for each in tensors], topics


folder, domain = sys.argv[1:]
ray.init(runtime_env={"working_dir": folder}, namespace="jobs", log_to_driver=False)
mine = ray.put(torch.ones(3), _tensor_transport="TENSORBUS")
source = ray.get_actor("source")
apart = Model.options(runtime_env={"env_vars": {"TENSORBUS_DOMAIN": domain}})
for model in (Model.remote(), apart.remote()):
    print(*ray.get(model.answer.remote(mine, source.on_the_bus.remote())))
"""


def test_actors_of_two_jobs_meet_unless_one_has_its_own_domain(
    driver: Driver, tmp_path: Path
) -> None:
    driver.run(MODULE, "publish_in_a_job")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "model.py").write_text("VERSION = 7")
    (tmp_path / "job.py").write_text(OTHER_JOB)
    done = subprocess.run(
        [sys.executable, tmp_path / "job.py", folder, tmp_path / "apart"],
        env={**os.environ, **driver.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=START,
    )
    sums = [3.0, 3.0 * SIZE]
    assert done.stdout == f"7 {sums} ['jobs']\n7 {sums} []\n", done.stderr
    driver.run(MODULE, "end_the_job")


# The programs of the page, each with the output that follows it there.
PAGE = (ROOT / "docs/tasks/ray.md").read_text()
PROGRAMS = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
SHOWN = re.findall(
    r"^```python\n# (\w+)\.py\n[^`]*^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize(("program", "output"), SHOWN)
def test_a_program_prints_what_its_page_shows(
    driver: Driver, program: str, output: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{program}.py"
    path.write_text(PROGRAMS[program])
    done = subprocess.run(
        [sys.executable, path],
        env={**os.environ, **driver.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=START,
    )
    assert (done.returncode, done.stdout) == (0, output), done.stderr + driver.logs()


def test_the_pipeline_of_the_page_answers(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "ray_pipeline.py"
    path.write_text(PROGRAMS["ray_pipeline"])
    with subprocess.Popen(
        [sys.executable, path],
        env={**os.environ, **driver.env},
        stdout=subprocess.PIPE,
        text=True,
    ) as pipeline:
        try:
            assert pipeline.stdout is not None
            port = int(pipeline.stdout.readline().removeprefix("port "))
            for _ in range(3):
                connection = HTTPConnection("127.0.0.1", port, timeout=START)
                connection.request("POST", "/", bytes(3 * 64 * 64))
                reply = connection.getresponse()
                assert (reply.status, len(reply.read())) == (200, 1)
                connection.close()
        finally:
            pipeline.send_signal(signal.SIGTERM)


def test_the_programs_of_the_page_are_short() -> None:
    assert {name for name, _ in SHOWN} | {"ray_pipeline"} == {*PROGRAMS}
    assert all(len(program.splitlines()) < 80 for program in PROGRAMS.values())
