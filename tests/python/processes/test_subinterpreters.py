"""A subinterpreter is refused, and costs the main interpreter nothing."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from support.harness import PATIENCE, Elsewhere

# Its name is another one in newer Pythons; it has always been private.
NAME = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"

IMPORT = """
import sys
sys.path[:] = {path!r}
try:
    {statement}
except ImportError as error:
    told = str(error)
else:
    told = "imported"
assert "subinterpreter" in told, told
"""


def run(statement: str) -> None:
    interpreters: Any = importlib.import_module(NAME)
    made = interpreters.create()
    code = IMPORT.format(path=sys.path, statement=statement)
    failed = interpreters.run_string(made, code)  # older ones raise
    assert failed is None, failed
    interpreters.destroy(made)


def import_in_a_subinterpreter(main_first: bool) -> None:
    if not main_first:
        run("import tensorbus; tensorbus.Publisher")
    import numpy as np

    import tensorbus as tb

    with tb.Publisher("topic") as publisher, tb.Subscriber("topic", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        for statement in ("import tensorbus; tensorbus.Publisher", "import tensorbus._core") * 2:
            run(statement)
            publisher.publish({"x": np.arange(3)})
            assert subscriber.receive().data["x"].tolist() == [0, 1, 2]
            try:
                subscriber.receive(timeout=0.01)
            except tb.Timeout:  # of this interpreter's class
                continue
            raise AssertionError("a sample that nobody published")


@pytest.mark.parametrize("main_first", [True, False])
def test_the_import_is_refused_in_a_subinterpreter(elsewhere: Elsewhere, main_first: bool) -> None:
    pytest.importorskip(NAME)
    elsewhere.run(import_in_a_subinterpreter, main_first)
