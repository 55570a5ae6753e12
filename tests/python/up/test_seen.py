"""Pipelines in `tensorbus top`, `view` and `metrics`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import tensorbus as tb
from support.harness import eventually
from support.pipelines import Up
from tensorbus._inspection.inspection import inspect
from tensorbus._top.pages import domain_page
from tensorbus._top.snapshot import Moment, Snapshot, take_moment
from tensorbus._up.client import ask, find
from tensorbus._up.control import Request
from tensorbus._up.running import running_pipelines
from tensorbus._view.summary import summary

Start = Callable[..., Up]
PIPELINE = """
name = "robot"
[process.camera]
run = "sleep 1000"
[process.model]
run = "sleep 1000"
expect = { "model/mean" = ">= 10 Hz" }
grace = 0
[process.wrong]
run = "false"
restart = "on-failure"
restart_limit = 1
backoff = 0
"""


def seen(up: Start) -> Up:
    """A pipeline with a process that has failed, and one whose expectation is not met."""
    pipeline = up(PIPELINE)
    wanted = {"failed", "not met"}
    while wanted:
        line = pipeline.until(kind="~")
        if line.get("state") == "failed":
            wanted.discard("failed")
        if line.get("met") is False:
            wanted.discard("not met")
    return pipeline


def test_top_has_a_table_of_pipelines_and_says_what_is_wrong(up: Start) -> None:
    pipeline = seen(up)
    snapshot = Snapshot(None, take_moment(inspect))
    [table] = [each for each in domain_page(snapshot).tables if each.name == "Pipelines"]
    rows = {row.cells[0]: row for row in table.rows()}
    assert [*rows] == ["camera", "model", "wrong"]
    assert rows["camera"].cells[1:3] == ("robot", "running")
    assert (
        rows["camera"].cells[3] == ask(find(None, None), Request("status"))["processes"][0]["pid"]
    )
    assert not rows["camera"].why
    assert rows["model"].why.startswith("model/mean >= 10 Hz: no process has model/mean")
    assert rows["wrong"].why.startswith("failed: exit")
    assert rows["wrong"].cells[4] == 1
    texts = [str(trouble) for trouble in snapshot.troubles]
    assert texts[0].startswith("robot: model: model/mean >= 10 Hz: ")
    assert texts[1].startswith("robot: wrong: failed: ")
    assert pipeline.end()[0] == 1
    assert running_pipelines(tb.participant().domain) == ()


def test_a_row_opens_the_page_of_its_process(up: Start) -> None:
    pipeline = up(
        "[process.a]\nrun = 'python a.py'\nprovides = ['a']",
        a="import signal, tensorbus as tb\na = tb.Publisher('a')\nsignal.pause()",
    )
    pipeline.state("a", "running")
    moment = take_moment(inspect)
    tables = domain_page(Snapshot(None, moment)).tables
    [row] = next(table.rows() for table in tables if table.name == "Pipelines")
    assert row.opens is not None
    [process] = [each for each in moment.inspection.participants if "a" in each.topics]
    assert row.opens.name == process.participant
    assert pipeline.end()[0] == 130


def test_the_page_of_view_has_them(up: Start) -> None:
    pipeline = seen(up)
    after = inspect()
    rows = summary(None, after, running_pipelines(after.domain))["pipelines"]
    assert [row["process"] for row in rows] == ["robot: camera", "robot: model", "robot: wrong"]
    assert [row["unwell"] for row in rows] == [False, True, True]
    assert pipeline.end()[0] == 1


def test_prometheus_gets_them(up: Start) -> None:
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    from prometheus_client.registry import CollectorRegistry

    from tensorbus._cli.collector import BusCollector

    pipeline = seen(up)
    registry = CollectorRegistry()
    registry.register(BusCollector(inspect, lambda: None))

    def value(metric: str, process: str, **labels: str) -> float | None:
        labels = {"pipeline": "robot", "process": process, **labels}
        return registry.get_sample_value(f"tensorbus_pipeline_{metric}", labels)

    assert value("processes", "camera", state="running") == 1
    assert value("processes", "wrong", state="failed") == 1
    assert value("restarts_total", "wrong") == 1
    assert value("unmet_expectations", "model") == 1
    assert value("unmet_expectations", "camera") == 0
    assert pipeline.end()[0] == 1


def test_a_stopped_supervisor_delays_nobody(up: Start) -> None:
    """Also when more clients have asked it than may wait for it."""
    pipeline = up("[process.a]\nrun = 'sleep 1000'")
    pipeline.state("a", "running")
    folder = tb.participant().domain
    [supervisor] = map(int, _children(pipeline.pid))
    os.kill(supervisor, signal.SIGSTOP)
    with ExitStack() as stack:
        full = False
        while not full:
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            full = client.connect_ex(f"{folder}/up.pipeline.sock") != 0
        [report] = running_pipelines(folder)
        assert (report.name, report.error) == ("pipeline", "gives no reply within 0.5 s")
        troubles = Snapshot(None, Moment(inspect(), {}, (report,))).troubles
        assert str(troubles[0]) == "pipeline pipeline gives no reply within 0.5 s"
        with pytest.raises(TimeoutError):
            ask(find(None, None), Request("status"), 0.1)
        command = [sys.executable, "-m", "tensorbus", "pipeline", "status", "--timeout", "0.1"]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 1
        assert "no reply within 0.1 s" in result.stderr
        os.kill(supervisor, signal.SIGCONT)
    eventually(lambda: running_pipelines(folder)[0].error == "")
    assert pipeline.end()[0] == 130


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
