"""Pools of programs that are no file: a notebook, an interactive session, standard input, -c."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.harness import PATIENCE

# As cells of a notebook: each is one statement, after which an interactive session has an empty
# line.
CELLS = """
import functools, logging, tensorbus as tb

logging.basicConfig(level=logging.WARNING)

class Doubler:
    def of(self, item):
        return 2 * item
    def __call__(self, item):
        return 2 * item

def double(item):
    return 2 * item

def why(make):
    try:
        print(repr(make()))
    except tb.Unsupported as error:
        print(error)

def result(*call):
    with tb.WorkerPool(workers=1, context=context) as pool:
        return pool.submit(*call).result({patience})

context = {context!r}

for function in (double, functools.partial(double), Doubler().of, Doubler()):
    why(lambda: tb.WorkerPool(function, workers=1, context=context).close())

why(lambda: tb.WorkerPool(len, initializer=double, workers=1, context=context).close())

why(lambda: result(double, 2))

why(lambda: result(isinstance, Doubler(), int))

why(lambda: result(len, "abc"))
"""
MODULE = "write it into a module"
FILE = "write the program into a file"
REMEDY = 'or make the pool with context="fork"'


def run(way: str, context: str) -> list[str]:
    """What the cells print; a line on stderr, as of a worker that dies, is an error."""
    text = CELLS.format(context=context, patience=PATIENCE)
    command = [sys.executable, way, *([text] if way == "-c" else [])]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, timeout=3 * PATIENCE
    )
    errors = done.stderr.splitlines()
    if way == "-i":  # the session greets, and prompts
        errors = [line for line in errors if "died" in line or "Error" in line]
    assert errors == []
    return done.stdout.splitlines()


@pytest.mark.parametrize(("way", "context"), [("-c", "spawn"), ("-i", "forkserver")])
def test_what_workers_cannot_import_is_refused_with_a_remedy(way: str, context: str) -> None:
    *refused, value = run(way, context)
    names = ["'double'", "'double'", "'Doubler.of'", "'Doubler'", "'double'"]
    assert [line.partition(":")[0] for line in refused[:5]] == names
    assert all("'double'" in line or "'Doubler'" in line for line in refused[5:])
    assert all(MODULE in line and line.endswith(REMEDY) for line in refused), refused
    assert (len(refused), value) == (7, "3")


def test_a_program_on_standard_input_has_no_spawned_workers() -> None:
    refused = run("-", "spawn")
    assert len(refused) == 8
    assert all(FILE in line and line.endswith(REMEDY) for line in refused), refused


def test_forked_workers_have_everything() -> None:
    assert run("-", "fork") == ["None"] * 5 + ["4", "False", "3"]
