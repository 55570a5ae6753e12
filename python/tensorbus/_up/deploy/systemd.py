"""Units of systemd that run a pipeline as its file says (docs/tasks/up.md)."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterable, Iterator
from math import ceil, log2
from pathlib import Path

from tensorbus._base.errors import InvalidArgument
from tensorbus._up import graph
from tensorbus._up.program import Plan, Program, absolute
from tensorbus._up.state import Policy
from tensorbus._up.units import text_of

_PREFIX = "tensorbus-"  # so that none takes the place of a unit of systemd
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Ends that systemd takes for a success, and `restart = "on-failure"` does not.
_ALSO_FAILURES = ("SIGHUP", "SIGINT", "SIGTERM", "SIGPIPE")

_Settings = Iterable[tuple[str, str]]


def units(plan: Plan) -> dict[str, str]:
    """The units by the names of their files: one for each process, and a target.

    Raises:
        InvalidArgument: systemd cannot run the processes; each line names a problem.
    """
    found = [problem for program in plan.programs for problem in _problems(program)]
    if found:
        raise InvalidArgument("\n".join(f"{plan.path}: {problem}" for problem in found))
    needs = graph.graph(plan.programs)
    files = {
        _unit(plan, each.name): _service(plan, each, needs[each.name]) for each in plan.programs
    }
    target = [
        ("Description", f"Tensorbus pipeline {plan.name}"),
        *(("Wants", name) for name in files),
    ]
    files[_target(plan)] = _text(plan, Unit=target, Install=[("WantedBy", "default.target")])
    if plan.on_failure == "stop":
        ends = [
            ("Description", f"Tensorbus pipeline {plan.name}: ends it after a failure"),
            ("Conflicts", _target(plan)),
        ]
        files[_target(plan, "-failed")] = _text(plan, Unit=ends)
    return files


def lacks(plan: Plan) -> Iterator[str]:
    """What systemd does not check of a pipeline."""
    for program in plan.programs:
        yield from (f"{program.name}: {expected}" for expected in program.expect)


def _service(plan: Plan, program: Program, needs: Iterable[str]) -> str:
    policy = program.policy
    limited = policy.restart != "no" and policy.limit
    unit = [
        ("Description", f"Tensorbus pipeline {plan.name}: {program.name}"),
        ("PartOf", _target(plan)),
        *(("After", _unit(plan, name)) for name in sorted(needs)),
        ("StartLimitIntervalSec", text_of(policy.window) if limited else "0"),
        *([("StartLimitBurst", str(policy.limit + 1))] if limited else []),
    ]
    if plan.on_failure == "stop":
        unit.append(("OnFailure", _target(plan, "-failed")))
    service = [
        ("Type", "exec"),
        *_start(program),
        *(("Environment", _quoted(f"{key}={value}")) for key, value in _variables(program).items()),
        ("SyslogIdentifier", program.name),
        ("IgnoreSIGPIPE", "no"),
        *_restart(policy, program.stop_signal),
        *_stop(program),
    ]
    if program.cpus:
        service.append(("CPUAffinity", " ".join(map(str, sorted(program.cpus)))))
    if program.nice:
        service.append(("Nice", str(program.nice)))
    unchecked = [f"not checked by systemd: {expected}" for expected in program.expect]
    return _text(plan, *unchecked, Unit=unit, Service=service)


def _start(program: Program) -> _Settings:
    if program.after:
        # It waits as long as the names are missing, as `tensorbus up` does.
        yield "ExecStartPre", _command([*_tensorbus(), "wait", "--", *program.after])
        yield "TimeoutStartSec", "infinity"
    yield "ExecStart", _command([_path(program), *program.command[1:]])
    yield "WorkingDirectory", str(program.folder).replace("%", "%%")


def _restart(policy: Policy, stop_signal: int) -> _Settings:
    """What ends by the stop signal was ended, and has not failed."""
    name = signal.Signals(stop_signal).name
    yield "SuccessExitStatus", f"{128 + stop_signal} {name}"
    yield "Restart", policy.restart
    if policy.restart == "no":
        return
    if policy.restart == "on-failure":
        failures = dict.fromkeys([str(128 + stop_signal), name, *_ALSO_FAILURES])
        yield "RestartForceExitStatus", " ".join(failures)
    first, last = policy.backoff, policy.max_backoff
    yield "RestartSec", text_of(min(first, last))
    if 0 < first < last:  # known to systemd 254; earlier versions ignore them
        yield "RestartSteps", str(ceil(log2(last / first)))
        yield "RestartMaxDelaySec", text_of(last)


def _stop(program: Program) -> _Settings:
    """The signal goes to the program alone; what it leaves behind is killed after its end."""
    yield "KillMode", "mixed"
    yield "KillSignal", signal.Signals(program.stop_signal).name
    yield "TimeoutStopSec", text_of(max(program.stop_timeout, 0.001))  # 0 would be no limit


def _variables(program: Program) -> dict[str, str]:
    """Variables of the environment that do not depend on the shell of `tensorbus up`."""
    found = program.environment()
    own = {name: found[name] for name in ("PATH", "PYTHONUNBUFFERED")}
    if domain := found.get("TENSORBUS_DOMAIN"):
        own["TENSORBUS_DOMAIN"] = absolute(domain)
    return {**own, **program.env}


def _problems(program: Program) -> Iterator[str]:
    where = f"process.{program.name}"
    path, folder = _path(program), str(program.folder)
    if _CONTROL.search(path) or any(each in path for each in "\"'\\"):
        yield f"{where}: run: systemd runs no program whose path has quotes or '\\': {path!r}"
    if _CONTROL.search(folder) or folder.endswith("\\") or folder != folder.strip():
        yield f"{where}: cwd: systemd cannot be told this folder: {folder!r}"
    for name, value in _variables(program).items():
        if not _VARIABLE.fullmatch(name):
            yield f"{where}: env: systemd has no variables of this name: {name!r}"
        elif _CONTROL.search(value.replace("\t", "").replace("\n", "")):
            yield f"{where}: env: systemd allows no control characters: {name}={value!r}"


def _tensorbus() -> list[str]:
    script = Path(sys.executable).with_name("tensorbus-python")
    # With -m, a module in the process's folder could take the place of one of Python's own.
    return [str(script)] if script.exists() else [sys.executable, "-m", "tensorbus"]


def _path(program: Program) -> str:
    return str(Path(program.find() or program.command[0]).absolute())


def _target(plan: Plan, ending: str = "") -> str:
    return f"{_PREFIX}{_escaped(plan.name)}{ending}.target"


def _unit(plan: Plan, process: str) -> str:
    return f"{_PREFIX}{_escaped(plan.name)}-{_escaped(process)}.service"


def _escaped(name: str) -> str:
    r"""A name of letters, digits, `_`, `-` and `.` as a part of a unit's name.

    >>> print(_escaped("model.1"), _escaped("modèle"))
    model.1 mod\xc3\xa8le
    """
    parts = [chr(byte) if byte < 128 else f"\\x{byte:02x}" for byte in name.encode()]
    return "".join(parts)


def _command(words: Iterable[str]) -> str:
    """Words of a command line, in which `$` has no meaning."""
    return ":" + " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    r"""A word as systemd reads it.

    >>> print(_quoted("a"), _quoted('5 % of "$X" \\ and\n'), _quoted(""))
    a "5 %% of \"$X\" \\ and\x0a" ""
    """
    if not _PLAIN.fullmatch(word):
        word = word.replace("\\", "\\\\").replace('"', '\\"')
        word = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", word)
        word = f'"{word}"'
    return word.replace("%", "%%")


def _text(plan: Plan, *comments: str, **sections: _Settings) -> str:
    lines = [f"# Written by `tensorbus up --systemd` from {_quoted(str(plan.path))}"]
    lines += [f"# {comment}" for comment in comments]
    for name, settings in sections.items():
        lines += ["", f"[{name}]", *(f"{key}={value}" for key, value in settings)]
    return "\n".join(lines) + "\n"
