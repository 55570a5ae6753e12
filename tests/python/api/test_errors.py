"""The tree of errors, and what is documented."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pickle
import pkgutil
import re
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.harness import PATIENCE, Elsewhere
from tensorbus import _core

ERRORS = {
    tb.AccessDenied: PermissionError,
    tb.Closed: Exception,
    tb.Forked: RuntimeError,
    tb.HoldLimit: Exception,
    tb.InvalidArgument: ValueError,
    tb.MessageError: TypeError,
    tb.OutOfMemory: MemoryError,
    tb.ProtocolError: Exception,
    tb.Refused: Exception,
    tb.RunTimeout: tb.Timeout,
    tb.ServiceError: RuntimeError,
    tb.SystemCallError: OSError,
    tb.ShutDown: tb.Closed,
    tb.Timeout: TimeoutError,
    tb.TypeMismatch: TypeError,
    tb.Unsupported: TypeError,
    tb.VersionMismatch: tb.ProtocolError,
    tb.WorkerDied: RuntimeError,
}


def test_every_error_is_an_error_of_the_bus() -> None:
    exported = [getattr(tb, name) for name in tb.__all__]
    errors = {e for e in exported if isinstance(e, type) and issubclass(e, BaseException)}
    assert errors == {tb.Error, *ERRORS}
    for error, built_in in ERRORS.items():
        assert issubclass(error, tb.Error)
        assert issubclass(error, built_in)


def test_every_code_of_the_core_has_its_error() -> None:
    from tensorbus._base import errors

    wanted = {
        "INVALID_ARGUMENT": tb.InvalidArgument,
        "UNSUPPORTED": tb.Unsupported,
        "OUT_OF_MEMORY": tb.OutOfMemory,
        "CLOSED": tb.Closed,
        "TIMEOUT": tb.Timeout,
        "PROTOCOL": tb.ProtocolError,
        "VERSION_MISMATCH": tb.VersionMismatch,
        "PERMISSION": tb.AccessDenied,
        "FORKED": tb.Forked,
        "SYSTEM": tb.SystemCallError,
        "TYPE_MISMATCH": tb.TypeMismatch,
    }
    assert {code.name: errors.BY_CODE[code.value] for code in _core.Code} == wanted
    assert len(errors.BY_CODE) == len(wanted)


def test_everything_exported_is_there_and_has_a_docstring() -> None:
    for name in tb.__all__:
        value = getattr(tb, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name


def test_objects_say_what_they_are() -> None:
    with tb.Publisher("a/b") as publisher, tb.Subscriber("a/b") as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        assert repr(publisher) == "<tensorbus.Publisher 'a/b' subscribers=1>"
        publisher.publish(1)
        shown = repr(subscriber.receive(PATIENCE))
        assert shown.startswith("<tensorbus.Sample 'a/b' sequence=0 tensors=0 age=")
        assert repr(subscriber) == "<tensorbus.Subscriber 'a/b' publishers=1>"
    assert repr(publisher) == "<tensorbus.Publisher 'a/b' closed>"
    assert repr(subscriber) == "<tensorbus.Subscriber 'a/b' closed>"


def test_a_sample_shows_what_it_holds_and_its_age(torch: ModuleType) -> None:
    with tb.Publisher("t") as publisher, tb.Subscriber("t", timeout=PATIENCE) as subscriber:
        assert publisher.wait_for_subscribers(timeout=PATIENCE)
        publisher.publish(torch.zeros(2, 3, dtype=torch.bfloat16))
        publisher.publish({"image": np.zeros((4, 5), "uint8"), "id": 7})
        publisher.publish([np.zeros(number) for number in range(6)])
        one, two, many = (repr(subscriber.receive()) for _ in range(3))
    age = r"age=\d+\.\d m?s>"
    assert re.fullmatch(r"<tensorbus\.Sample 't' sequence=0 bfloat16 \(2, 3\) " + age, one)
    assert re.fullmatch(r".* sequence=1 tensors=1 \[uint8 \(4, 5\)\] " + age, two)
    assert re.fullmatch(r".*tensors=6 \[float64 \(0,\), .*float64 \(3,\), \.\.\.\] " + age, many)


def test_a_queue_shows_its_name_its_fill_and_its_state() -> None:
    with tb.Queue(3, name="jobs") as jobs:
        jobs.put(1)
        assert repr(jobs) == "<tensorbus.Queue 'jobs' open items=1 maxsize=3>"
        for other in (pickle.loads(pickle.dumps(jobs)), tb.Queue.open("jobs")):
            assert repr(other) == "<tensorbus.Queue 'jobs' open maxsize=3>"
    assert repr(jobs) == "<tensorbus.Queue 'jobs' closed maxsize=3>"
    with tb.Queue() as jobs:
        assert repr(jobs) == f"<tensorbus.Queue {jobs.address} open items=0 maxsize=0>"


def test_the_repr_of_a_queue_does_not_ask_another_process(elsewhere: Elsewhere) -> None:
    def look() -> None:
        import tensorbus as tb

        jobs = tb.Queue.open("jobs", timeout=PATIENCE)
        assert repr(jobs) == "<tensorbus.Queue 'jobs' open maxsize=0>"

    with tb.Queue(name="jobs"):
        elsewhere.run(look)


# What a module needs that is not there for each Python.
OPTIONAL = {
    "tensorbus._view.sinks.to_rerun": "rerun",
    "tensorbus.connectors.ray": "ray",
    "tensorbus.connectors.ray._transport": "ray",
}
FOUND = ["tensorbus", *(each.name for each in pkgutil.walk_packages(tb.__path__, "tensorbus."))]
MODULES = [name for name in FOUND if find_spec(OPTIONAL.get(name, "tensorbus"))]


class Finder(doctest.DocTestFinder):
    """Finds what is public where it is written, not where it says it is from."""

    def _from_module(self, module: Any, found: Any) -> bool:
        if inspect.isfunction(found):
            return inspect.unwrap(found).__globals__ is vars(module)
        if not inspect.isclass(found):
            return super()._from_module(module, found)  # type: ignore[misc]
        name = found.__name__
        written = re.search(rf"^class {name}\b", source_of(module), re.MULTILINE)
        return vars(module).get(name) is found and bool(written)


def source_of(module: ModuleType) -> str:
    return "" if module is _core else inspect.getsource(module)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for test in Finder().find(module):
        assert runner.run(test).failed == 0, test.name


def test_there_are_examples_in_docstrings() -> None:
    examples = [
        test.name.rpartition(".")[2]
        for name in MODULES
        for test in Finder().find(importlib.import_module(name))
        if test.examples
    ]
    assert {"Publisher", "Subscriber", "Node", "Message", "MessageType", "Handle"} <= set(examples)
    assert len(examples) > 40
