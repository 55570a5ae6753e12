"""Pipeline files: what is wrong in them is named, all of it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import tensorbus as tb
from support.screens.commands import Done
from tensorbus._cli.command import main
from tensorbus._up.graph import graph
from tensorbus._up.schema import load

Write = Callable[..., Path]

GOOD = """
domain = "robot"

[process.camera]
run = ["python", "camera.py"]
provides = ["camera/image"]
restart = "always"
backoff = "200ms"
expect = { "camera/image" = [">= 20 Hz", "age < 500 ms"] }

[process.model]
run = "python model.py --name 'a b'"
after = ["camera/image", "queue:jobs"]
replicas = 2
stop_signal = "SIGINT"
cpus = "0-2,5"
env = { MODE = "fast" }
"""


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> Done:
    capsys.readouterr()
    status = main(["up", "--check", str(path)])
    said = capsys.readouterr()
    return Done(status, said.out, said.err)


def problems(write: Write, text: str) -> list[str]:
    path = write(text)
    with pytest.raises(tb.InvalidArgument) as error:
        load(path)
    return str(error.value).replace(f"{path}: ", "").split("\n")


def test_a_file_is_read(write: Write) -> None:
    plan = load(write(GOOD))
    assert [program.name for program in plan.programs] == ["camera", "model.1", "model.2"]
    camera, model, _ = plan.programs
    assert (plan.name, camera.domain, camera.policy.backoff) == ("pipeline", "robot", 0.2)
    assert [(each.measure, each.limit) for each in camera.expect] == [("rate", 20.0), ("age", 0.5)]
    assert model.command == ("python", "model.py", "--name", "a b")
    assert model.stop_signal == signal.SIGINT
    assert model.cpus == {0, 1, 2, 5}
    assert model.env == {"TENSORBUS_REPLICA": "1", "MODE": "fast"}
    assert graph(plan.programs) == {"camera": set(), "model.1": {"camera"}, "model.2": {"camera"}}


def test_a_domain_of_the_caller_takes_the_place_of_the_file_s(write: Write) -> None:
    assert {each.domain for each in load(write(GOOD), "other").programs} == {"other"}


def test_paths_of_domains_are_relative_to_the_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    path = write(
        "domain = './bus'\n[process.a]\nrun = 'x'\n[process.b]\nrun = 'x'\ndomain = '../b'"
    )
    assert [each.domain for each in load(path).programs] == [
        str(tmp_path / "bus"),
        str(tmp_path.parent / "b"),
    ]
    assert load(path, "./bus").domain == "/bus"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Object missing required field `process`"),
        ("proces = 1", "unknown key 'proces': do you mean 'process'?"),
        ("process = {}", "there is no process: expected a table [process.NAME]"),
        ("[process.a]\nrn = 'x'", "process.a: unknown key 'rn': do you mean 'run'?"),
        ("[process.a]\nrun = 1", "process.a: Expected `str | array`, got `int` - at `$.run`"),
        (
            "[process.up]\nrun = 'x'",
            "process.up: `tensorbus up` itself has this name in its output",
        ),
        (
            "[process.a]\nrun = 'x'\nprovides = ['image']\n[process.b]\nrun = 'x'\nafter = ['a']",
            "process.b: after: a is a process of this file: it provides image",
        ),
        (
            "[process.a]\nrun = 'x'\n[process.b]\nrun = 'x'\nafter = ['a']",
            "process.b: after: a is a process of this file: give it a key `provides`",
        ),
        ("[process.a]\nrun = ''", "process.a: run: expected a program and its arguments"),
        ('[process.a]\nrun = "it\'s"', 'process.a: run: "it\'s": No closing quotation'),
        ("[process.'a b']\nrun = 'x'", "process.a b: expected a name of letters, digits, _ and -"),
        (
            "[process.a]\nrun = 'x'\nbackoff = '2 h'",
            "process.a: backoff: '2 h': expected a duration such as '500ms', '2s' or '1min'",
        ),
        (
            "[process.a]\nrun = 'x'\nstop_signal = 'TERM'",
            "process.a: stop_signal: 'TERM': expected a name such as 'SIGINT'",
        ),
        ("[process.a]\nrun = 'x'\nreplicas = 0", "process.a: replicas: 0: expected 1 or more"),
        (
            "[process.a]\nrun = 'x'\nexpect = { t = '20' }",
            "process.a: expect: t: '20': expected an expectation such as '>= 20 Hz', 'age < 1s' or "
            "'lag < 100 samples'",
        ),
        (
            "[process.a]\nrun = 'x'\nexpect = { 'service:mean' = 'p99 < 50 ms' }",
            "process.a: expect: service:mean: 'p99 < 50 ms': a service has the measures requests, "
            "as in '< 10 requests'",
        ),
        (
            "[process.a]\nrun = 'x'\nexpect = { t = 'lag < 3 Hz' }",
            "process.a: expect: t: 'lag < 3 Hz': lag has the unit samples",
        ),
        (
            "[process.a]\nrun = 'x'\ncpus = '3-1'",
            "process.a: cpus: '3-1': expected a range",
        ),
        (
            "[process.a]\nrun = 'x'\ncpus = '0-99999'",
            "process.a: cpus: '0-99999': expected a",
        ),
        ("[process.a]\nrun = 'x'\nnice = 20", "process.a: nice: 20: expected -20 to 19"),
        ('[process.a]\nrun = ["x", "a\\u0000b"]', "process.a: run, cwd, env and watch: a NUL"),
        ("[process.a]\nrun = 'x'\nenv = { 'A=B' = 'x' }", "process.a: env: the name of a variable"),
        (
            "[process.a]\nrun = 'x'\nafter = ['t']\nprovides = ['t']",
            "process.a: it waits for t, which it provides itself",
        ),
    ],
)
def test_a_mistake_is_named(text: str, problem: str, write: Write) -> None:
    (found,) = problems(write, text)
    assert found.startswith(problem)


def test_all_mistakes_are_named_at_once(write: Write) -> None:
    found = problems(write, "[process.a]\nrn = 'x'\n[process.b]\nrun = 'x'\nnice = 'very'")
    assert len(found) == 2
    assert found[0].startswith("process.a: unknown key")
    assert found[1].startswith("process.b: Expected `int`")


def test_a_cycle_is_named(write: Write) -> None:
    text = """
    [process.a]
    run = 'x'
    after = ["t/c"]
    provides = ["t/a"]
    [process.b]
    run = 'x'
    after = ["t/a"]
    provides = ["t/b"]
    [process.c]
    run = 'x'
    after = ["t/b"]
    provides = ["t/c"]
    """
    (problem,) = problems(write, text)
    assert problem.startswith("no process of this cycle can start: ")
    # From wherever it begins, each waits for the process before it.
    names = problem.partition(": ")[2].split(" waits for ")
    assert names[0] == names[-1]
    assert {*pairwise(names)} == {("a", "c"), ("c", "b"), ("b", "a")}


def test_check_prints_the_graph_in_the_order_of_starting(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    done = check(write(GOOD, camera="", model=""), capsys)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "camera: python camera.py"
    assert "  after camera/image <- camera" in lines
    outside = "no process of this file: it must come from outside"
    assert f"  after queue:jobs <- {outside}" in lines
    assert "  expects camera/image >= 20 Hz, grace 5 s" in lines


def test_check_names_missing_programs_and_folders(
    write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(
        "[process.a]\nrun = 'no-such-program'\n[process.b]\nrun = 'true'\ncwd = 'nowhere'\n"
        "[process.c]\nrun = './c.sh'\n[process.d]\nrun = 'python -u d.py'"
    )
    done = check(path, capsys)
    assert done.status == 1
    assert done.err.splitlines() == [
        f"tensorbus: {path}: process.a: run: there is no program 'no-such-program'",
        f"tensorbus: {path}: process.b: cwd: there is no folder {tmp_path / 'nowhere'}",
        f"tensorbus: {path}: process.c: run: there is no program './c.sh'",
        f"tensorbus: {path}: process.d: run: there is no file {tmp_path / 'd.py'}",
    ]


def test_a_wrong_file_is_status_2(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", str(write("process = 3 4"))]) == 2
    assert "tensorbus: " in capsys.readouterr().err
    assert main(["up", "/no/such/pipeline.toml"]) == 1
