"""The pytest fixture `tensorbus_domain`, as projects use it that have installed the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import tensorbus as tb
from support.harness import PATIENCE
from support.repository import ROOT

IN_CHILDREN = f"""
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbus as tb

OUTER = os.environ["TENSORBUS_DOMAIN"]
seen = []


def publish():
    with tb.Publisher("t", reliable=True) as publisher:
        publisher.wait_for_subscribers(timeout={PATIENCE})
        publisher.publish(os.environ["TENSORBUS_DOMAIN"], timeout={PATIENCE})


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child(tensorbus_domain, method, turn):
    assert tensorbus_domain not in [OUTER, *seen]
    seen.append(tensorbus_domain)
    child = multiprocessing.get_context(method).Process(target=publish)
    with tb.Subscriber("t", timeout={PATIENCE}) as subscriber:
        assert tb.list_topics() == []
        child.start()
        assert subscriber.receive().data == tensorbus_domain
    child.join()
    assert child.exitcode == 0


def test_a_program(tensorbus_domain):
    seen.append(tensorbus_domain)
    code = "import test_in_children; test_in_children.publish()"
    with tb.Subscriber("t", timeout={PATIENCE}) as subscriber:
        with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent):
            assert subscriber.receive().data == tensorbus_domain


def test_afterwards_nothing_is_left():
    assert len(seen) == 7
    assert not [path for path in seen if Path(path).exists()]
    assert os.environ["TENSORBUS_DOMAIN"] == OUTER
    assert [topic.name for topic in tb.list_topics()] == ["outside"]
    assert not set(seen) & set(tb._base.participant._shared)
    child = multiprocessing.get_context("forkserver").Process(target=publish)
    with tb.Subscriber("t", timeout={PATIENCE}) as subscriber:
        child.start()
        assert subscriber.receive().data == OUTER
    child.join()
"""

TWO_FAILURES = """
import os
import pytest

OUTER = os.environ["TENSORBUS_DOMAIN"]


def test_that_fails(tensorbus_domain):
    os.environ["TENSORBUS_DOMAIN"] = "other"
    raise ValueError("expected")


def test_the_next():
    assert os.environ["TENSORBUS_DOMAIN"] == OUTER
"""


def pytest_of(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=110
    )
    return done.stdout + done.stderr


def test_each_test_and_its_children_have_a_domain_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_in_children.py").write_text(IN_CHILDREN)
    with tb.Publisher("outside"):
        assert "8 passed" in pytest_of(tmp_path)


def test_a_test_that_fails_leaves_the_environment_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "test_failures.py").write_text(TWO_FAILURES)
    assert "1 failed, 1 passed" in pytest_of(tmp_path)


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    page = (ROOT / "docs/tasks/test_programs.md").read_text()
    (tests,) = re.findall(r"```python\n# test_camera.py\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_camera.py").write_text(tests.replace("timeout=5", f"timeout={PATIENCE}"))
    with tb.Publisher("outside"):
        assert "2 passed" in pytest_of(tmp_path)


def test_the_plugin_can_be_turned_off(tmp_path: Path) -> None:
    (tmp_path / "test_off.py").write_text("def test_one(tensorbus_domain): pass\n")
    assert "fixture 'tensorbus_domain' not found" in pytest_of(tmp_path, "-p", "no:tensorbus")
