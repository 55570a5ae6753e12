"""What `service call` reads is what Python reads: JSON, or a literal of Python."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import tensorbus as tb
from support.harness import eventually
from support.screens.commands import Tensorbus
from tensorbus._base.text import json_text
from tensorbus._cli.sources import value_of

NOTHING = object()
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


def in_python(text: str) -> Any:
    """What Python reads, as `--json` prints it; NOTHING if it reads nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\\q" is no escape
        try:
            found = value_of(text)
        except typer.BadParameter:
            return NOTHING
    return json.loads(json_text(as_json(found)))


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [as_json(each) for each in value]
    return value if isinstance(value, str | int | float | None) else repr(value)


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize("text", [text for line in VALUES for text in line.split()])
def test_a_value_is_what_python_reads(text: str, tensorbus: Tensorbus) -> None:
    expected = in_python(text)
    done = tensorbus("service", "call", "echo", "--json", "--", text)
    if expected is NOTHING:
        assert (done.status, done.out) == (2, "")
        assert "is neither JSON nor a literal of Python" in done.err
    elif done.status == 1:  # Python reads it, and cannot send it
        with pytest.raises(tb.TensorbusError), tb.Publisher("topic") as publisher:
            publisher.publish(value_of(text))
    else:
        assert done.row == {"kind": "reply", "service": "echo", "data": expected}


def test_a_text_ends_with_its_line(tensorbus: Tensorbus) -> None:
    for text in ("'a\nb'", "'a\rb'", "b'a\nb'"):
        assert tensorbus("service", "call", "x", text).status == 2


@pytest.mark.usefixtures("echo")
def test_values_that_are_too_deep_are_refused(tensorbus: Tensorbus) -> None:
    for depth in (70, 50_000):
        done = tensorbus("service", "call", "echo", "[" * depth + "]" * depth)
        assert done.status == 2
        assert "is neither JSON" in done.err
