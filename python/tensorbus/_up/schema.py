"""Reads pipeline files: TOML, with one table for each process (docs/tasks/up.md)."""

from __future__ import annotations

import glob
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import dropwhile
from pathlib import Path
from typing import Any

import msgspec

from tensorbus._base.errors import InvalidArgument
from tensorbus._up import graph
from tensorbus._up.events import OWN_NAME
from tensorbus._up.expectation import Expectation, parse
from tensorbus._up.program import OnFailure, Plan, Program, Unhealthy, absolute
from tensorbus._up.state import Policy, Restart
from tensorbus._up.units import seconds_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NAME = re.compile(r"[\w-]+")
_MAX_CPUS = 8192  # as many as Linux can have
_CPUS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


class _Process(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str | list[str]
    cwd: str = "."
    env: dict[str, str] = {}
    domain: str = ""
    after: list[str] = []
    provides: list[str] = []
    replicas: int = 1
    restart: Restart = "no"
    backoff: float | str = 0.5
    max_backoff: float | str = 30.0
    restart_window: float | str = 60.0
    restart_limit: int = 5
    stop_signal: str = "SIGTERM"
    stop_timeout: float | str = 10.0
    cpus: str = ""
    nice: int = 0
    expect: dict[str, str | list[str]] = {}
    grace: float | str = 5.0
    unhealthy: Unhealthy = "report"
    watch: list[str] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    process: dict[str, Any]
    name: str = ""
    domain: str = ""
    on_failure: OnFailure = "continue"


def load(path: str | os.PathLike[str], domain: str | None = None) -> Plan:
    """The pipeline of a file.

    Args:
        path: the file.
        domain: in place of the `domain` of the file; those of processes stay.

    Raises:
        InvalidArgument: the file is not TOML, or describes no pipeline; each line names a problem.
        OSError: the file cannot be read.
    """
    file = Path(path).absolute()
    try:
        told = tomllib.loads(file.read_bytes().decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: {error}") from None
    found: list[str] = []
    plan = _plan(file, told, domain, found)
    if plan is None or found:
        raise InvalidArgument("\n".join(f"{path}: {problem}" for problem in found))
    return plan


def missing_programs(plan: Plan) -> Iterator[str]:
    """Programs and folders that do not exist now."""
    for program in plan.programs:
        if not program.cwd.is_dir():
            yield f"process.{program.name}: cwd: there is no folder {program.cwd}"
        elif program.find() is None:
            yield f"process.{program.name}: run: there is no program {program.command[0]!r}"
        elif script := _missing_script(program):
            yield f"process.{program.name}: run: there is no file {script}"


def _missing_script(program: Program) -> Path | None:
    """The script of a Python program, if it does not exist."""
    script = next((word for word in program.command[1:] if not word.startswith("-")), "")
    is_python = Path(program.command[0]).name.startswith("python")
    path = program.cwd / script
    return path if is_python and script.endswith(".py") and not path.exists() else None


def _plan(file: Path, told: dict[str, Any], domain: str | None, problems: list[str]) -> Plan | None:
    problems += _unknown(told, _File, "")
    if problems:
        return None
    try:
        top = msgspec.convert(told, _File)
    except msgspec.ValidationError as error:
        problems.append(str(error))
        return None
    if top.name and not _NAME.fullmatch(top.name):
        problems.append(f"name: {top.name!r}: expected letters, digits, _ and -")
    if not top.process:
        problems.append("there is no process: expected a table [process.NAME]")
    domain = absolute(domain) if domain else _domain(file, top.domain)
    programs = [
        program
        for name, table in top.process.items()
        for program in _programs(file, name, table, domain, problems)
    ]
    if not problems:
        problems += graph.problems(programs)
    name = top.name or re.sub(r"[^\w-]", "-", file.stem)
    return Plan(file, name, domain, top.on_failure, tuple(programs))


def _programs(
    file: Path, name: str, table: Any, domain: str | None, problems: list[str]
) -> Iterator[Program]:
    """The processes of a table; appends what is wrong with it to `problems`."""
    if not _NAME.fullmatch(name):
        problems.append(f"process.{name}: expected a name of letters, digits, _ and -")
        return
    if name == OWN_NAME:
        problems.append(f"process.{name}: `tensorbus up` itself has this name in its output")
        return
    if not isinstance(table, dict):
        problems.append(f"process.{name}: expected a table")
        return
    unknown = [*_unknown(table, _Process, f"process.{name}: ")]
    problems += unknown
    if unknown:
        return
    try:
        told = msgspec.convert(table, _Process)
        for number in range(1, _at_least("replicas", told.replicas, 1) + 1):
            alone = told.replicas == 1
            yield _program(file, name if alone else f"{name}.{number}", number, told, domain)
    except (msgspec.ValidationError, InvalidArgument) as error:
        problems.append(f"process.{name}: {error}")


def _program(file: Path, name: str, number: int, told: _Process, domain: str | None) -> Program:
    command = _words(told.run) if isinstance(told.run, str) else told.run
    if not command or not command[0]:
        raise InvalidArgument("run: expected a program and its arguments")
    words = (*command, told.cwd, *told.env, *told.env.values(), *told.watch)
    if any("\0" in word for word in words):
        raise InvalidArgument("run, cwd, env and watch: a NUL character is not possible")
    for entry in told.watch:
        if ".." in dropwhile(lambda part: not glob.has_magic(part), Path(entry).parts):
            raise InvalidArgument(f"watch: {entry!r}: '..' behind a pattern is not possible")
    if any("=" in variable or not variable for variable in told.env):
        raise InvalidArgument("env: the name of a variable is not empty and has no '='")
    return Program(
        name=name,
        command=tuple(command),
        cwd=file.parent / os.path.expanduser(told.cwd),
        env={"TENSORBUS_REPLICA": str(number), **told.env},
        domain=_domain(file, told.domain) or domain,
        after=tuple(told.after),
        provides=tuple(told.provides),
        policy=Policy(
            told.restart,
            _seconds("backoff", told.backoff),
            _seconds("max_backoff", told.max_backoff),
            _seconds("restart_window", told.restart_window),
            _at_least("restart_limit", told.restart_limit, 0),
        ),
        stop_signal=_signal(told.stop_signal),
        stop_timeout=_seconds("stop_timeout", told.stop_timeout),
        cpus=_cpus(told.cpus),
        nice=_nice(told.nice),
        expect=tuple(_expectations(told.expect)),
        grace=_seconds("grace", told.grace),
        unhealthy=told.unhealthy,
        watch=tuple(told.watch),
    )


def _domain(file: Path, domain: str) -> str | None:
    """A domain of a file: a name, or a path relative to the file."""
    return os.path.abspath(file.parent / domain) if "/" in domain else domain or None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"run: {text!r}: {error}") from None


def _unknown(table: dict[str, Any], struct: type[msgspec.Struct], where: str) -> Iterator[str]:
    known = struct.__struct_fields__
    for key in table.keys() - set(known):
        near = get_close_matches(key, known, 1)
        hint = f"do you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}"
        yield f"{where}unknown key {key!r}: {hint}"


def _expectations(told: dict[str, str | list[str]]) -> Iterator[Expectation]:
    for subject, texts in told.items():
        for text in [texts] if isinstance(texts, str) else texts:
            try:
                yield parse(subject, text)
            except InvalidArgument as error:
                raise InvalidArgument(f"expect: {error}") from None


def _seconds(key: str, given: float | str) -> float:
    try:
        return seconds_of(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{key}: {error}") from None


def _at_least(key: str, given: int, low: int) -> int:
    if given < low:
        raise InvalidArgument(f"{key}: {given}: expected {low} or more")
    return given


def _nice(given: int) -> int:
    if not -20 <= given <= 19:
        raise InvalidArgument(f"nice: {given}: expected -20 to 19")
    return given


def _signal(name: str) -> int:
    try:
        return signal.Signals[name]
    except KeyError:
        raise InvalidArgument(f"stop_signal: {name!r}: expected a name such as 'SIGINT'") from None


def _cpus(text: str) -> frozenset[int]:
    """The processors of a list such as "0-3,6"."""
    if not text:
        return frozenset()
    if not _CPUS.fullmatch(text):
        raise InvalidArgument(f"cpus: {text!r}: expected processors such as '0-3,6'")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not int(first) <= int(last or first) < _MAX_CPUS:
            raise InvalidArgument(f"cpus: {part!r}: expected a range below {_MAX_CPUS}")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
