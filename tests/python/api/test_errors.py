"""The tree of errors, and what is documented."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from types import ModuleType
from typing import Any

import pytest

import tensorbus as tb
from support.harness import PATIENCE
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
    tb.ServiceError: RuntimeError,
    tb.SystemCallError: OSError,
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
        assert repr(subscriber.receive(PATIENCE)) == "<tensorbus.Sample 'a/b' sequence=0 tensors=0>"
        assert repr(subscriber) == "<tensorbus.Subscriber 'a/b' publishers=1>"
    assert repr(publisher) == "<tensorbus.Publisher 'a/b' closed>"
    assert repr(subscriber) == "<tensorbus.Subscriber 'a/b' closed>"


MODULES = ["tensorbus", *(each.name for each in pkgutil.walk_packages(tb.__path__, "tensorbus."))]


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
