"""What `service call` in C++ reads is what `service call` in Python reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import tensorbus as tb
from support.harness import eventually
from support.screens.commands import Tensorbus

VALUES = [
    "7 -7 +7 0 007 1_000 0x10 1.5 -1.5e3 1e400 .5 5. 1e5 -0.0 18446744073709551615",
    "9223372036854775808 NaN Infinity -Infinity True true False false None null",
    "'a' \"a\" 'it\\'s' \"a\\u00e9\\n\" '\\x41\\101' \"\\ud83d\\ude00\" '\\U0001f600' '\u56f3' ''",
    'b\'a\\x00\\xff\' b"it\'s" [] [1] [1,] [1,2] (1,) (1) () ((1,2),) {} {\'a\':1} {"a":{"b":[]}}',
    "{1:2} {1:2,} {'a':1,'a':2} {1} {1,} {1,2} [[],[[]]] [1,{'a':(2,None)}] (((1)))",
    "[1 [1,,2] [,] {1 {1:2,3} {1,2:3} {,} {1:} {:1} (1 'a \"a 'a\" b'a",
    "go nope -- - + 1.2.3 1e '\\x4'",
    "[1,2 {'a':1 ] ) } @ tru None1 1a [1]2 \\ '\\u12' b'\\u0041' '\\q' __import__('os')",
]


@pytest.fixture(scope="module", autouse=True)
def _domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORBUS_DOMAIN", str(tmp_path_factory.mktemp("literals")))
        yield


@pytest.fixture
def echo() -> Iterator[None]:
    """A service that replies what it is asked."""
    node = tb.Node("echo")
    node.create_service("echo", callback=lambda request: request, mode="sync")
    thread = threading.Thread(target=node.spin)
    thread.start()
    eventually(lambda: node.is_running)
    yield
    node.stop()
    thread.join()
    node.close_sync()


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize("text", [text for line in VALUES for text in line.split()])
def test_both_read_the_same(text: str, tensorbus: Tensorbus, native: Tensorbus) -> None:
    words = ("service", "call", "echo", "--json", "--", text)
    shown, expected = native(*words), tensorbus(*words)
    assert (shown.status, shown.out) == (expected.status, expected.out)
    if expected.status:
        assert "is neither JSON nor a literal of Python" in shown.err


@pytest.mark.usefixtures("echo")
def test_values_that_are_too_deep_are_refused(native: Tensorbus) -> None:
    for depth in (70, 50_000):
        done = native("service", "call", "echo", "[" * depth + "]" * depth)
        assert done.status == 2
        assert "is neither JSON" in done.err
