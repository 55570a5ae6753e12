"""What type checkers say of the package, and of programs that use it."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensorbus as tb
from support.repository import ROOT
from tensorbus import _core
from tensorbus._topics.options import PublisherOptions, SubscriberOptions

PROGRAMS = sorted((ROOT / "tests/typed").glob("*.py"))  # use all of it, as users do

WRONG = {
    "access": 'tb.Subscriber("topic", access="write")',
    "library": 'tb.Subscriber("topic", library="tensorflow")',
    "positional": 'tb.Publisher("topic", 4)',
    "message type": 'tb.Subscriber("topic", int)',
    "await": "tb.Subscriber('topic').receive().__await__()",
    "sequence": "sequence: str = tb.Subscriber('topic').receive().header.sequence",
    "published": "tb.Publisher('topic', Text).publish('wrong type')",
    "attribute": "tb.Subscriber('topic', Text).receive().data.txet",
    "attribute of iterated": "for x in tb.Subscriber('topic', Text): x.data.txet",
    "item": "tb.Queue[int]().put('text')",
    "items of a variable": "of_ints: tb.Queue[int] = tb.Queue(); of_ints.put('text')",
    "got item": "of_text: str = tb.Queue[int]().get()",
    "request": "tb.Client('name', Text, Text).call_sync(7)",
    "reply": "tb.Client('name', Text, Text).call_sync(Text('')).txet",
    "request type": "tb.Client('name', int)",
    "items": "tb.WorkerPool(chr).map(['text'])",
    "result": "numbers: list[int] = tb.WorkerPool(chr).map([7])",
    "node's publisher": "tb.Node('n').create_publisher('t', Text).publish('wrong type')",
    "node's keyword": "tb.Node('n').create_publisher('t', nonsense=1)",
    "node's option": "tb.Node('n').create_subscriber('t', max_held='many')",
    "node's message type": "tb.Node('n').create_subscriber('t', int)",
    "cortex": "tensorbus.cortex.Publisher('t', Text, nonsense=1)",
    "counter": "tb.Publisher('topic').stats.snet",
    "set counter": "tb.Publisher('topic').stats.sent = 7",
}
# A node has its own.
ALIVE = {"expect_every", "expect_first", "on_deadline_missed", "on_publisher_lost"}
HEAD = [
    "import tensorbus as tb",
    "import tensorbus.cortex",
    "from tensorbus import StringMessage as Text",
]


def checker(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


def mypy(cache: Path, *programs: Path) -> subprocess.CompletedProcess[str]:
    config = cache / "mypy.ini"  # PyTorch's own types take half a minute
    config.write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")
    options = ["--strict", "--config-file", config, "--cache-dir", cache]
    return checker("mypy", *options, *programs)


def pyright(*arguments: str | Path) -> dict[str, Any]:
    done = checker("pyright", "--outputjson", "--pythonpath", sys.executable, *arguments)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_programs_use_every_public_name() -> None:
    programs = "\n".join(path.read_text() for path in PROGRAMS)
    assert [name for name in tb.__all__ if not re.search(rf"\btb\.{name}\b", programs)] == []


def test_programs_that_use_all_of_it_are_clean_for_mypy(tmp_path: Path) -> None:
    done = mypy(tmp_path, *PROGRAMS)
    assert done.returncode == 0, done.stdout


def test_programs_that_use_all_of_it_are_clean_for_pyright(tmp_path: Path) -> None:
    for program in PROGRAMS:
        shutil.copy(program, tmp_path)
    config = tmp_path / "pyrightconfig.json"
    config.write_text('{"typeCheckingMode": "strict"}')
    report = pyright("--project", config)
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    assert report["generalDiagnostics"] == []


def test_the_type_of_every_public_name_is_known() -> None:
    """And declared, but for the standard library's names that tensorbus.multiprocessing has."""
    found = pyright("--verifytypes", "tensorbus", "--ignoreexternal")["typeCompleteness"]
    symbols = found["symbols"]
    names = {symbol["name"] for symbol in symbols}
    assert {f"tensorbus.{name}" for name in tb.__all__ if name != "__version__"} <= names
    unsure = [symbol for symbol in symbols if not symbol["isTypeKnown"]]
    assert [symbol["name"] for symbol in unsure if not symbol["isTypeAmbiguous"]] == []
    inferred = [symbol["name"] for symbol in unsure]
    assert all(name.startswith("tensorbus.multiprocessing.") for name in inferred), inferred


def test_the_stub_of_the_core_has_the_names_of_the_module() -> None:
    """test_package.py compares all of it with what nanobind writes, where Python is ours."""
    stub = (Path(tb.__file__).parent / "_core.pyi").read_text()
    names, members = names_in(ast.parse(stub).body), {}
    for name in names:
        if isinstance(kind := getattr(_core, name), type):
            members[name] = {member for member in vars(kind) if not member.startswith("_")}
    assert names == {name for name in vars(_core) if not name.startswith("_")}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ClassDef):
            assert names_in(node.body) == members[node.name], node.name


def names_in(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AnnAssign) else []
        names.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in names if not name.startswith("_")}


def test_a_program_with_mistakes_is_not(tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text("\n".join([*HEAD, *WRONG.values()]))
    found = mypy(tmp_path, program).stdout
    right = [
        name for line, name in enumerate(WRONG, 1 + len(HEAD)) if f":{line}: error" not in found
    ]
    assert right == [], found


def test_a_program_with_mistakes_is_not_for_pyright_either(tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text("\n".join([*HEAD, *WRONG.values()]))
    report = pyright(program)
    wrong = {each["range"]["start"]["line"] for each in report["generalDiagnostics"]}
    right = [name for line, name in enumerate(WRONG, len(HEAD)) if line not in wrong]
    assert right == [], report


def test_programs_subscript_classes_at_run_time(tmp_path: Path) -> None:
    pose = tb.StringMessage
    with tb.Publisher[Any]("t", history=1) as publisher, tb.Queue[str](3) as queue:
        publisher.publish("text")
        with tb.Subscriber[Any]("t") as subscriber:
            assert subscriber.receive(30).data == "text"
        queue.put("text")
        assert queue.get() == "text"
    assert isinstance(queue, tb.Queue)
    assert str(tb.Sample[pose]) == "tensorbus.Sample[tensorbus.StringMessage]"
    for kind in (tb.AsyncSubscriber[pose], tb.Client[pose, pose], tb.WorkerPool[int, int]):
        assert str(kind).startswith("tensorbus.")


@pytest.mark.parametrize(
    ("options", "kind", "own"),
    [
        (PublisherOptions, tb.Publisher, {"depth", "node"}),
        (SubscriberOptions, tb.Subscriber, {"depth", "node", *ALIVE}),
    ],
)
def test_what_a_node_hands_on_is_what_the_class_takes(
    options: Any, kind: Any, own: set[str]
) -> None:
    parameters = inspect.signature(kind).parameters.values()
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert keywords - own == options.__annotations__.keys()
