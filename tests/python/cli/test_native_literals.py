"""What `service call` in C++ reads is what `service call` in Python reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import tensorbus as tb
from support.harness import eventually
from support.screens.commands import Tensorbus

VALUES = [
    "7 -7 +7 0 00 007 -007 1_000 1__0 _1 1_ 1_a +-7 0x10 -0x10 0xFF_ff 0o17 0b101 0x 0b2 0o8",
    "1.5 -1.5e3 1e400 -1e400 .5 5. 1e5 -0.0 1.2.3 1e 1_0.5 NaN Infinity -Infinity",
    "9223372036854775808 18446744073709551615 18446744073709551616 -9223372036854775808",
    "-9223372036854775809 1234567890123456789012345678901234567890 0xffffffffffffffffffff",
    "True true False false None null tru None1",
    "'a' \"a\" 'it\\'s' \"a\\u00e9\\n\" '\\x41\\101' \"\\ud83d\\ude00\" '\\U0001f600' '\u56f3' ''",
    "'a\\/b' \"a\\/b\" '\\377' '\\N{DASH}' '\\q' '\\x4' '\\u12' 'a \"a 'a\"",
    "b'a\\x00\\xff' b\"it's\" b'\\377' b'\\200\\177' b'\\400' b'\u00e9' b'\\u0041' b'\\N' b'a",
    "[] [1] [1,] [1,2] (1,) (1) () ((1,2),) (((1))) [[],[[]]] [1 [1,,2] [,] [1,2 [1]2 (1 ] )",
    "{} {'a':1} {\"a\":{\"b\":[]}} {1:2} {1:2,} {'a':1,'a':2} {(1,2):3} [1,{'a':(2,None)}]",
    "{1} {1,} {1,2} {[1]:2} {[1]} {{}:1} {{1}:2} {1 {1:2,3} {1,2:3} {,} {1:} {:1} {'a':1 }",
    "go nope -- - + @ 1a \\ __import__('os')",
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


def test_a_text_ends_with_its_line(native: Tensorbus, tensorbus: Tensorbus) -> None:
    for text in ("'a\nb'", "'a\rb'", "b'a\nb'"):
        assert [run("service", "call", "x", text).status for run in (native, tensorbus)] == [2, 2]


@pytest.mark.usefixtures("echo")
def test_values_that_are_too_deep_are_refused(native: Tensorbus) -> None:
    for depth in (70, 50_000):
        done = native("service", "call", "echo", "[" * depth + "]" * depth)
        assert done.status == 2
        assert "is neither JSON" in done.err
