"""What the environment says of the domain and of budgets, to a process and to its children."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tensorbus as tb
from support.harness import Elsewhere, in_a_fork, tell

LOOK = "import tensorbus as tb; print(tb.participant().domain)"


def tell_domain(pipe: Any) -> None:
    pipe.send(tb.participant().domain)


def domains_after_a_chdir(folder: str) -> None:
    os.chdir(folder)
    tell(tb.participant().domain)
    os.mkdir("below")
    os.chdir("below")
    tell(tb.participant().domain)
    tell(tb.inspect().domain)
    in_a_fork(lambda: tell(tb.participant().domain))
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        here, there = context.Pipe(False)
        child = context.Process(target=tell_domain, args=(there,))
        child.start()
        tell(here.recv())
        child.join()
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    tell(done.stdout.strip())


def test_a_relative_domain_is_one_for_a_process_and_its_children_wherever_they_go(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    other = elsewhere.start(domains_after_a_chdir, str(tmp_path), env={"TENSORBUS_DOMAIN": "./bus"})
    assert [other.hear() for _ in range(7)] == [f"{tmp_path}/./bus"] * 7


def test_a_relative_domain_that_is_named_later_counts_from_there(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    def run(folder: str) -> None:
        os.chdir(folder)
        tell(tb.participant().domain)
        os.environ["TENSORBUS_DOMAIN"] = "other/bus"
        os.mkdir("other")
        tell(tb.participant().domain)

    other = elsewhere.start(run, str(tmp_path), env={"TENSORBUS_DOMAIN": "./bus"})
    assert [other.hear(), other.hear()] == [f"{tmp_path}/./bus", f"{tmp_path}/other/bus"]


EMPTY = [
    "TENSORBUS_DOMAIN",
    "TENSORBUS_BUDGET",
    "TENSORBUS_CUDA_BUDGET",
    "TENSORBUS_CUDA_ORDER",
    "TENSORBUS_CUDA_DRIVER",
    "TENSORBUS_HUGE_PAGES",
    "TENSORBUS_FAULT_MESSAGE",
    "TENSORBUS_BUS_GUARD",
]


def test_an_empty_variable_counts_as_unset(elsewhere: Elsewhere) -> None:
    def run() -> None:
        assert "/tensorbus" in tb.participant(f"test-{os.getpid()}").domain
        with tb.Node("node", domain=f"test-{os.getpid()}") as node:
            assert node.declare_parameter("rate", 5) == 5

    names = [*EMPTY, "TENSORBUS_NODE_NODE_RATE"]
    elsewhere.run(run, env=dict.fromkeys(names, ""))
